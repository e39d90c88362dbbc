"""What a runner is: one sandboxed process that holds one candidate and calls it. The parent decides everything.

`runner.c` (candidates) and `library.py` (trusted numpy and torch) speak the same protocol, so both are an `Arm`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from kernel_lab.workloads.workload import Array, Arrays, Axes, Scalars, Workload

Alignment = Literal["start", "end", "natural"]
"""Against which guard page a buffer lies; `natural` is 64-byte aligned plus a random multiple of 64."""


@dataclass(frozen=True)
class Limits:
    """What a runner may use before it is killed with everything it started."""

    call_timeout_s: float = 10.0
    memory_bytes: int = 4 << 30
    """Beyond the mapped buffers."""
    threads: int = 1
    output_bytes: int = 1 << 16
    cpu_s: float = 600.0


@dataclass(frozen=True)
class Returned:
    """The call came back. `elapsed_ns` is the runner's clock around the call alone."""

    elapsed_ns: int
    parent_ns: int
    """The parent's clock around the request."""
    fp_control_before: int
    fp_control_after: int
    threads_after: int


@dataclass(frozen=True)
class Died:
    """The process ended inside the call. `fault_address_in` names the guard page that was hit, if any."""

    signal: str | None
    exit_status: int | None
    fault_address_in: str | None
    """For example `y:after`, `x:before`, `x:readonly`."""
    stderr: str
    private_bytes: int | None = None
    """Memory beyond the buffers that it held when it faulted; None when it ended otherwise."""
    read_clock: bool = False
    """It ended at an instruction that reads the time-stamp counter."""


@dataclass(frozen=True)
class OverTime:
    """The call was over its limit; the process and its descendants are gone."""

    limit_s: float


@dataclass(frozen=True)
class LoadFailed:
    """dlopen or dlsym said no."""

    message: str


CallOutcome = Returned | Died | OverTime


@dataclass(frozen=True)
class Timing:
    """One sample: `calls` calls back to back after one untimed call."""

    calls: int
    elapsed_ns: int
    first_ns: int
    """Of the untimed call."""
    parent_ns: int
    """Between two messages that the runner sent right before and after the sample, by the kernel's stamps on them:
    neither the candidate's clock nor the parent's scheduling is in it."""
    run_delay_ns: int
    """schedstat run delay inside the sample: an outside cause."""
    involuntary_switches: int
    migrated: bool
    turn: int
    """Place, in the list of sets, of the call that would come next."""


class BufferSet(Protocol):
    """Shared memory for one set of arguments, owned by the parent, mapped by any arm that is given it."""

    @property
    def axes(self) -> Axes: ...
    def fill_inputs(self, inputs: Arrays) -> None: ...
    def poison_outputs(self, pattern: int) -> None:
        """Every output byte is set from a 32-bit pattern."""
        ...

    def fill_outputs(self, outputs: Arrays) -> None:
        """Every output holds the given bits, as after an earlier call."""
        ...

    def output(self, name: str) -> Array:
        """A copy of the output as it is now."""
        ...

    def input_digest(self) -> str:
        """sha256 over all input bytes as they are now."""
        ...

    def close(self) -> None: ...


class Arena(Protocol):
    """Makes buffer sets (memfd; guard pages are mapped by the child around them)."""

    def buffers(
        self,
        workload: Workload,
        axes: Axes,
        alignment: Alignment,
        *,
        offset_elements: int = 0,
        outputs_of: BufferSet | None = None,
    ) -> BufferSet:
        """Buffers for one set of arguments; with `outputs_of`, the outputs are those of another set."""
        ...

    def recycle(self) -> None:
        """Every buffer set made so far is of no more use; those to come are made of the same memory."""
        ...

    def close(self) -> None: ...


class Arm(Protocol):
    """One fresh process. Use as a context manager: on exit nothing of it is left."""

    def call(self, buffers: BufferSet, scalars: Scalars) -> CallOutcome:
        """Calls the candidate once on `buffers`."""
        ...

    def time(
        self, buffers: Sequence[BufferSet], scalars: Scalars, min_sample_ns: int, pause_ns: int
    ) -> Timing | Died | OverTime:
        """One sample of at least `min_sample_ns`, rotating over `buffers` call by call, after a pause and one untimed
        call. Nothing else runs in the span."""
        ...

    def release(self) -> None:
        """The process maps no buffer set any longer. Closing the arm does the same."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class StartArm(Protocol):
    """How verify and measure get processes: the real one is `kernel_lab.runner.start_arm`."""

    def __call__(
        self,
        object_path: Path | None,
        workload: Workload,
        threads: int,
        limits: Limits,
        *,
        library: str | None = None,
        environment: Mapping[str, str] | None = None,
        inputs_writable: bool = True,
    ) -> "Arm | LoadFailed": ...
