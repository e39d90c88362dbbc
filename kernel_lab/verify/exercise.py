"""One call of a candidate on one draw, and everything that can be seen of it from outside."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kernel_lab.runner.arm import Alignment, Arm, BufferSet, CallOutcome, Died, LoadFailed, OverTime, Returned
from kernel_lab.runner.start import ADDRESS_ERROR_STATUS, UNDEFINED_STATUS
from kernel_lab.verify.draws import Draw, Prepared
from kernel_lab.verify.finding import CouldNot, Finding
from kernel_lab.verify.subject import Climb
from kernel_lab.workloads.workload import Array, Axes
from schemas.enums import Reason, RungStatus

POISONS = (0x7FA5A5A5, 0xC59C4B3C)
"""A signalling NaN, and a finite float (−5001.4…): whichever a kernel reads, the two answers differ."""

ELEMENT_ALIGNED = 1
"""Elements by which `natural` buffers are shifted: pointers are aligned to the element size only (workloads.md)."""

MOST_OF_MEMORY = 0.75
"""A crash that finds so much of the limit in use is blamed on it (chosen: the request that fails may be large, and no
honest kernel holds half of it)."""

Outputs = dict[str, Array]

AS_LEFT: Outputs = {}
"""Asks for outputs that hold what the call before left in them, of other inputs; a poison where there was none."""


@dataclass
class Exerciser:
    """One runner process and the buffers it has been given: each size and placement is mapped once and used again, so
    that later draws bring new data under old pointers."""

    climb: Climb
    arm: Arm
    threads: int
    as_timed: bool = False
    """`natural` buffers are aligned as they are when a candidate is timed."""
    digests: dict[str, list[str]] = field(default_factory=dict)
    _buffers: dict[tuple[tuple[tuple[str, int], ...], Alignment], BufferSet] = field(default_factory=dict)

    def run(self, prepared: Prepared, held: int | Outputs = POISONS[0]) -> Outputs | Finding | CouldNot:
        """The outputs of one call, or what it did wrong. A finding carries the draw as its counterexample. Before the
        call the outputs held a poison, or what `held` gives for each, or what was left in them."""
        outcome = self.returned(prepared, held)
        if not isinstance(outcome, Returned):
            return outcome
        buffers = self._placed(prepared.draw.axes, prepared.draw.alignment)
        return {buffer.name: buffers.output(buffer.name) for buffer in self.climb.workload.outputs}

    def returned(self, prepared: Prepared, held: int | Outputs = POISONS[0]) -> Returned | Finding | CouldNot:
        """The call came back and left inputs, FP control and threads as it should."""
        draw = prepared.draw
        buffers = self._placed(draw.axes, draw.alignment)
        buffers.fill_inputs(prepared.inputs)
        if isinstance(held, int):
            buffers.poison_outputs(held)
        elif held is not AS_LEFT:
            buffers.fill_outputs(held)
        before = buffers.input_digest()
        self.digests.setdefault(draw.distribution, []).append(before)
        outcome = self.arm.call(buffers, prepared.scalars)
        wrong = self._conduct(outcome)
        if wrong is None and self.climb.checks.input_digest and buffers.input_digest() != before:
            wrong = Finding(Reason.WROTE_INPUT, "the inputs hash to something else after the call")
        if wrong is None and isinstance(outcome, Returned):
            return outcome
        assert wrong is not None
        return self._blamed(wrong, draw)

    def place(self, draw: Draw) -> None:
        """Memory for `draw` is there."""
        self._placed(draw.axes, draw.alignment)

    def again(self, prepared: Prepared) -> Finding | CouldNot | None:
        """One more call on what lies in the buffers of `prepared`, which was run before; its outputs are not read."""
        outcome = self.arm.call(self._placed(prepared.draw.axes, prepared.draw.alignment), prepared.scalars)
        wrong = self._conduct(outcome)
        return wrong and self._blamed(wrong, prepared.draw)

    def close(self) -> None:
        for buffers in self._buffers.values():
            buffers.close()
        self._buffers.clear()

    def _placed(self, axes: Axes, alignment: Alignment) -> BufferSet:
        key = (tuple(axes.items()), alignment)
        if key not in self._buffers:
            loose = alignment == "natural" and self.climb.checks.misaligned and not self.as_timed
            shift = ELEMENT_ALIGNED if loose else 0
            self._buffers[key] = self.climb.arena.buffers(self.climb.workload, axes, alignment, offset_elements=shift)
            self._buffers[key].poison_outputs(POISONS[0])
        return self._buffers[key]

    def _conduct(self, outcome: CallOutcome) -> Finding | CouldNot | None:
        match outcome:
            case Returned():
                return self._left_behind(outcome)
            case OverTime(limit_s):
                return Finding(Reason.TIMED_OUT, f"the call was not back after {limit_s:g} s")
            case Died():
                return why_died(outcome, self.climb.limits(self.threads).memory_bytes)

    def _left_behind(self, returned: Returned) -> Finding | None:
        if self.climb.checks.fp_control and returned.fp_control_after != returned.fp_control_before:
            return Finding(
                Reason.FP_STATE_CHANGED,
                f"the FP control register was {returned.fp_control_before:#x} before it was loaded and called, and "
                f"{returned.fp_control_after:#x} after; fast-math flags go to the compiler, never the linker",
            )
        if self.climb.checks.left_threads and returned.threads_after > self.threads:
            return Finding(
                Reason.LEFT_THREADS,
                f"{returned.threads_after} threads live after the call; the OpenMP pool has {self.threads}",
            )
        return None

    def _blamed(self, wrong: Finding | CouldNot, draw: Draw) -> Finding | CouldNot:
        if isinstance(wrong, CouldNot):
            return wrong
        at = f"{draw}, {self.threads} thread{'s' if self.threads > 1 else ''}"
        return replace(wrong, message=f"{at}: {wrong.message}", counterexample=draw.kept(self.climb.workload.name))


@contextmanager
def exercising(
    climb: Climb, threads: int, *, inputs_writable: bool, as_timed: bool = False
) -> Iterator[Exerciser | Finding | CouldNot]:
    """A fresh sandboxed process with the candidate loaded, or the finding that it does not load. Nothing is left."""
    arm = climb.bench.start_arm(
        climb.subject.object_path,
        climb.workload,
        threads,
        climb.limits(threads),
        inputs_writable=inputs_writable,
    )
    if isinstance(arm, LoadFailed):
        yield Finding(Reason.DOES_NOT_LOAD, arm.message)
        return
    exerciser = Exerciser(climb, arm, threads, as_timed)
    try:
        yield exerciser
    finally:
        arm.close()
        exerciser.close()


def why_died(died: Died, memory_bytes: int) -> Finding | CouldNot:
    """The reason for a process that ended inside a call under a limit of `memory_bytes`."""
    where = died.fault_address_in
    said = f"; stderr: {died.stderr.strip()[:500]}" if died.stderr.strip() else ""
    buffer, _, side = (where or "").partition(":")
    if side == "readonly":
        return Finding(Reason.WROTE_INPUT, f"it wrote to its input {buffer}{said}")
    if side in ("before", "after"):
        return Finding(Reason.OUT_OF_BOUNDS, f"it touched the guard page {side} {buffer}{said}")
    if died.read_clock:
        return Finding(Reason.FORBIDDEN_CONSTRUCT, f"it read the time-stamp counter: no kernel needs a clock{said}")
    if died.exit_status in (ADDRESS_ERROR_STATUS, UNDEFINED_STATUS) and side == "":
        reason = Reason.OUT_OF_BOUNDS if died.exit_status == ADDRESS_ERROR_STATUS else Reason.UNDEFINED_BEHAVIOUR
        return Finding(reason, f"a sanitizer ended it{said}")
    match died.signal:
        case "SIGKILL":
            return CouldNot(RungStatus.TOOL_FAILURE, f"the runner was killed from outside{said}")
        case "SIGXCPU":
            return Finding(Reason.TIMED_OUT, f"it used up its processor time{said}")
        case "SIGSYS":
            return Finding(Reason.FORBIDDEN_CONSTRUCT, f"it made a system call that no kernel needs{said}")
    if died.private_bytes is not None and died.private_bytes > MOST_OF_MEMORY * memory_bytes:
        held = f"it held {died.private_bytes >> 20} of {memory_bytes >> 20} MiB"
        return Finding(Reason.OUT_OF_MEMORY, f"{died.signal} when {held}: an allocation failed unseen{said}")
    if died.signal is not None:
        return Finding(Reason.CRASHED, f"{died.signal}{said}")
    return Finding(Reason.CRASHED, f"the process ended with status {died.exit_status} inside the call{said}")
