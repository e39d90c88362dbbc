"""One pair: two fresh processes, the same shared buffers, only one running at a time (measurement.md, 1 and 2)."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from kernel_lab.measure.bench import Bench, Racer, start
from kernel_lab.measure.contents import Rotation, WatchedPair, rotation_of
from kernel_lab.measure.schedule import SIDES, QuadPlan, Side, plan_pair
from kernel_lab.measure.timed_rows import verify_watched
from kernel_lab.runner.arm import Arena, Arm, BufferSet, Died, LoadFailed, OverTime, Timing
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads.workload import Scalars, Workload
from schemas.enums import Reason, Regime
from schemas.goal import Shape
from schemas.measurement import Pair, Quad

RUN_DELAY_SHARE = 0.10
"""Share of its threads' time that a sample spent ready but not running, above which it spoils its quad. Chosen: on a
host whose every core is used, the kernel's own housekeeping takes 2 to 4 %, of both arms alike; that is noise, which
the interval and the noise floor carry. Less than a tenth in one of four samples moves the quad by under 5 %."""
FIRST_CALL = 1.5
AHEAD_SLACK_NS = 1_000_000
"""A call after a pause wakes its threads and finds colder caches: chosen, an honest one of 10 µs takes 0.1 ms more, one
of milliseconds a fifth more. A sample lasts ten times the slack at least."""
CLOCK_SHARE = 0.02
CLOCK_SLACK_NS = 1_000_000
"""measurement.md, 12."""


@dataclass(frozen=True)
class Duel:
    """A candidate against the strongest baseline of each shape."""

    workload: Workload
    shapes: tuple[Shape, ...]
    candidate: Racer
    baselines: tuple[Racer, ...]
    """One per shape, in the order of `shapes`."""
    regime: Regime
    is_verified: bool = True
    """Outputs of timed calls are verified (V8). False for a trusted kernel against its own rebuild."""
    tolerance_scale: float = 1.0

    @property
    def weights(self) -> tuple[float, ...]:
        return tuple(shape.weight for shape in self.shapes)


@dataclass(frozen=True)
class CandidateFailed:
    """The candidate did something for which it is rejected."""

    finding: Finding


@dataclass(frozen=True)
class BaselineFailed:
    """The baseline did not run: there is nothing to compare with."""

    name: str
    message: str


SEEN_TWICE = frozenset({Reason.FORGED_CLOCK, Reason.STATEFUL})
Failed = CandidateFailed | BaselineFailed


@dataclass
class Process:
    """One arm under two clocks. Only samples that count are compared: who claims a delay loses the sample."""

    racer: Racer
    arm: Arm
    runner_ns: int = 0
    parent_ns: int = 0
    run_delay_ns: int = 0
    """Of the same samples: a delay may lie between a mark and a reading of the runner's clock."""
    ahead_ns: list[float] = field(default_factory=list)
    """Of each, how much longer the untimed call took than FIRST_CALL timed ones."""

    def time(self, sets: Sequence[BufferSet], scalars: Scalars, bench: Bench) -> Timing | Died | OverTime:
        """One sample, counted on both clocks."""
        outcome = self.arm.time(sets, scalars, bench.protocol.min_sample_ns, bench.protocol.pause_ns)
        if isinstance(outcome, Timing) and outside_cause(outcome, self.racer.threads) is None:
            self.runner_ns += outcome.elapsed_ns
            self.parent_ns += outcome.parent_ns
            self.run_delay_ns += outcome.run_delay_ns
            self.ahead_ns.append(outcome.first_ns - FIRST_CALL * _per_call_ns(outcome))
        return outcome

    @property
    def clock_ratio(self) -> float:
        """The runner's total over the parent's; 1 before the first sample."""
        return self.runner_ns / self.parent_ns if self.parent_ns else 1.0

    @property
    def clock_is_forged(self) -> bool:
        return clocks_disagree(self.runner_ns, self.parent_ns, self.run_delay_ns)

    @property
    def typically_ahead_ns(self) -> float:
        """What untimed calls take more than they should, in most samples."""
        return max(0.0, median(self.ahead_ns)) if self.ahead_ns else 0.0


def clocks_disagree(runner_ns: int, parent_ns: int, run_delay_ns: int = 0) -> bool:
    """The two clocks of a process differ by more than 2 % + 1 ms, recorded delays aside (measurement.md, 12)."""
    return abs(parent_ns - runner_ns) > CLOCK_SHARE * parent_ns + CLOCK_SLACK_NS + run_delay_ns


def take_pair(bench: Bench, duel: Duel, quads: int, rng: np.random.Generator) -> Pair | Failed:
    """One pair over all shapes. Nothing of it is left running.

    What is believed of times alone shows in every process, a busy machine in one: a second pair must show it too.
    """
    taken = _take_fresh(bench, duel, quads, rng)
    if isinstance(taken, CandidateFailed) and taken.finding.reason in SEEN_TWICE:
        return _take_fresh(bench, duel, quads, rng)
    return taken


def _take_fresh(bench: Bench, duel: Duel, quads: int, rng: np.random.Generator) -> Pair | Failed:
    with ExitStack() as stack:
        arena = stack.enter_context(closing(bench.new_arena()))
        candidate = _started(bench, duel.candidate, duel.workload, stack)
        if isinstance(candidate, str):
            return CandidateFailed(Finding(Reason.DOES_NOT_LOAD, candidate))
        baselines: dict[str, Process] = {}
        for racer in {racer.name: racer for racer in duel.baselines}.values():
            process = _started(bench, racer, duel.workload, stack)
            if isinstance(process, str):
                return BaselineFailed(racer.name, process)
            baselines[racer.name] = process
        return _PairTaker(bench, duel, arena, candidate, baselines, rng).take(quads)


@dataclass
class _PairTaker:
    """The processes of one pair, while it is taken."""

    bench: Bench
    duel: Duel
    arena: Arena
    candidate: Process
    baselines: Mapping[str, Process]
    rng: np.random.Generator

    def take(self, quads: int) -> Pair | Failed:
        plan = plan_pair(self.rng, len(self.duel.shapes), quads)
        taken: list[Quad] = []
        for shape in dict.fromkeys(quad.shape for quad in plan):
            found = self._take_shape([quad for quad in plan if quad.shape == shape])
            if not isinstance(found, list):
                return found
            taken += found
        if self.candidate.clock_is_forged:
            return CandidateFailed(_forged(self.candidate))
        if finding := _works_ahead(self.candidate, self.baselines.values()):
            return CandidateFailed(finding)
        slowest = min(self.baselines.values(), key=lambda process: process.clock_ratio)
        return Pair(
            quads=tuple(taken),
            candidate_clock_ratio=self.candidate.clock_ratio,
            baseline_clock_ratio=slowest.clock_ratio,
        )

    def _take_shape(self, plan: Sequence[QuadPlan]) -> list[Quad] | Failed:
        axes = self.duel.shapes[plan[0].shape].axes
        pairs = rotation_of(self.duel.workload, axes, self.bench.machine.llc_bytes, self.duel.regime)
        taken: list[Quad] = []
        with closing(Rotation(self.arena, self.duel.workload, axes, pairs, self.rng)) as data:
            if failed := self._settle(plan[0].shape, data):
                return failed
            for quad_plan in plan:
                quad = self._take_quad(quad_plan, data)
                if not isinstance(quad, Quad):
                    return quad
                taken.append(quad)
            for process in (self.candidate, self.baselines[self.duel.baselines[plan[0].shape].name]):
                process.arm.release()
        return taken

    def _settle(self, shape: int, data: Rotation) -> Failed | None:
        """Each arm took one sample that counts nowhere: buffers are mapped, threads placed, and the kernel has finished
        what starting the processes left (on the yardstick, 14 of 24 first quads were disturbed without it, 4 with)."""
        for side in SIDES:
            if not isinstance(outcome := self._sample(side, shape, data), Timing):
                return outcome
        return None

    def _take_quad(self, plan: QuadPlan, data: Rotation) -> Quad | Failed:
        data.renew(plan.refresh)
        verified = plan.verified_sample if self.duel.is_verified else None
        times: dict[Side, list[Timing]] = {"candidate": [], "baseline": []}
        for side in plan.order:
            watched = data.watch() if side == "candidate" and verified == len(times[side]) else None
            timing = self._sample(side, plan.shape, data)
            if not isinstance(timing, Timing):
                return timing
            times[side].append(timing)
            if watched and (failed := self._verify(plan.shape, data, watched, timing)):
                return failed
        baseline = self.duel.baselines[plan.shape]
        return _quad(plan, times, {"candidate": self.duel.candidate.threads, "baseline": baseline.threads})

    def _verify(self, shape: int, data: Rotation, watched: WatchedPair, timing: Timing) -> Failed | None:
        """V8. It runs between samples, so it costs time but no accuracy. A sample too short to come round to both sets
        of the watched pair is followed by more, which are not counted."""
        calls, turn = timing.calls, timing.turn
        while calls < len(data.sets):
            more = self._sample("candidate", shape, data)
            if not isinstance(more, Timing):
                return more
            calls, turn = calls + more.calls, more.turn
        workload, axes = self.duel.workload, self.duel.shapes[shape].axes
        last = watched.last_called(turn)
        finding = verify_watched(workload, axes, last, last.outputs(), self.rng, self.duel.tolerance_scale)
        return CandidateFailed(finding) if finding else None

    def _sample(self, side: Side, shape: int, data: Rotation) -> Timing | Failed:
        process = self.candidate if side == "candidate" else self.baselines[self.duel.baselines[shape].name]
        outcome = process.time(data.sets, self.duel.workload.scalars, self.bench)
        if isinstance(outcome, Timing):
            return outcome
        if side == "baseline":
            return BaselineFailed(process.racer.name, ended(outcome))
        reason = Reason.TIMED_OUT if isinstance(outcome, OverTime) else Reason.CRASHED
        return CandidateFailed(Finding(reason, f"while it was timed, {ended(outcome)}"))


def outside_cause(timing: Timing, threads: int) -> str | None:
    """The recorded cause for which a sample of a kernel on `threads` does not count, or None (measurement.md, 5)."""
    share = timing.run_delay_ns / max(timing.elapsed_ns * threads, 1)
    if share <= RUN_DELAY_SHARE:
        return None
    moved = ", migrated" if timing.migrated else ""
    return f"run delay {share:.1%}, {timing.involuntary_switches} involuntary switches{moved}"


def ended(outcome: Died | OverTime) -> str:
    """How a process ended, for a person."""
    if isinstance(outcome, OverTime):
        return f"it was not back after {outcome.limit_s:g} s"
    status = "no exit status" if outcome.exit_status is None else f"exit status {outcome.exit_status}"
    where = f" at {outcome.fault_address_in}" if outcome.fault_address_in else ""
    said = f"; it said: {outcome.stderr.strip()[:500]}" if outcome.stderr.strip() else ""
    return f"it ended with {outcome.signal or status}{where}{said}"


def _quad(plan: QuadPlan, times: Mapping[Side, Sequence[Timing]], threads: Mapping[Side, int]) -> Quad:
    samples = [(timing, side) for side in SIDES for timing in times[side]]
    causes = [cause for timing, side in samples if (cause := outside_cause(timing, threads[side]))]
    return Quad(
        shape=plan.shape,
        first=plan.first,
        candidate_ns=_two(times["candidate"]),
        baseline_ns=_two(times["baseline"]),
        dropped=causes[0] if causes else None,
    )


def _two(timings: Sequence[Timing]) -> tuple[float, float]:
    first, second = timings
    return (_per_call_ns(first), _per_call_ns(second))


def _per_call_ns(timing: Timing) -> float:
    """Never 0: a clock that stands still is caught by its disagreement, not by a logarithm."""
    return max(timing.elapsed_ns, 1) / timing.calls


def _started(bench: Bench, racer: Racer, workload: Workload, stack: ExitStack) -> Process | str:
    arm = start(bench, racer, workload)
    if isinstance(arm, LoadFailed):
        return arm.message
    stack.enter_context(closing(arm))
    return Process(racer, arm)


def _works_ahead(candidate: Process, baselines: Iterable[Process]) -> Finding | None:
    """The untimed call before each sample does what timed ones should, and leaves it for them (measurement.md, 13)."""
    usual_ns = max(process.typically_ahead_ns for process in baselines)
    ahead_ns = candidate.typically_ahead_ns
    if ahead_ns <= AHEAD_SLACK_NS + usual_ns:
        return None
    return Finding(
        Reason.STATEFUL,
        f"the untimed call before a sample took {ahead_ns / 1e6:.1f} ms longer than a timed one (a baseline's: "
        f"{usual_ns / 1e6:.1f} ms): it works ahead, and timed calls find their answers",
    )


def _forged(process: Process) -> Finding:
    return Finding(
        Reason.FORGED_CLOCK,
        f"its process says that its samples took {process.runner_ns / 1e6:.1f} ms; seen from outside it was "
        f"{process.parent_ns / 1e6:.1f} ms",
    )
