"""One pair: two fresh processes, the same shared buffers, only one running at a time (measurement.md, 1 and 2)."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np

from kernel_lab.measure.bench import Bench, Racer, start
from kernel_lab.measure.contents import Rotation, WatchedPair, rotation_of
from kernel_lab.measure.process import Process, forged, outside_cause, per_call_ns, works_ahead
from kernel_lab.measure.schedule import SIDES, QuadPlan, Side, plan_pair
from kernel_lab.measure.timed_rows import verify_watched
from kernel_lab.runner.arm import Arena, Died, LoadFailed, OverTime, Timing
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads.workload import Workload
from schemas.enums import Reason, Regime
from schemas.goal import Shape
from schemas.measurement import Pair, Quad


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


Failed = CandidateFailed | BaselineFailed
SEEN_TWICE = frozenset({Reason.FORGED_CLOCK, Reason.STATEFUL})
"""What times alone say (process.py)."""


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
        if finding := forged(self.candidate):
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
            baseline = self.baselines[self.duel.baselines[plan[0].shape].name]
            finding = works_ahead(self.candidate, baseline)
            self.candidate.release()
            baseline.release()
        return CandidateFailed(finding) if finding else taken

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
    return (per_call_ns(first), per_call_ns(second))


def _started(bench: Bench, racer: Racer, workload: Workload, stack: ExitStack) -> Process | str:
    arm = start(bench, racer, workload)
    if isinstance(arm, LoadFailed):
        return arm.message
    stack.enter_context(closing(arm))
    return Process(racer, arm)
