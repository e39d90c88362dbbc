"""One process of a pair, and what its times alone say against it: a forged clock, and work before the clock."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from kernel_lab.measure.bench import Bench, Racer
from kernel_lab.runner.arm import Arm, BufferSet, Died, OverTime, Timing
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads.workload import Scalars
from schemas.enums import Reason

RUN_DELAY_SHARE = 0.10
"""Share of its threads' time that a sample spent ready but not running, above which it spoils its quad. Chosen: on a
host whose every core is used, the kernel's own housekeeping takes 2 to 4 %, of both arms alike; that is noise, which
the interval and the noise floor carry. Less than a tenth in one of four samples moves the quad by under 5 %."""
FIRST_CALL = 1.5
AHEAD_SLACK_NS = 1_000_000
"""Chosen: room for a call after a pause, which wakes its threads and finds colder caches. A sample lasts ten times the
slack at least, so who stays just below gains a tenth."""
CLOCK_SHARE = 0.02
CLOCK_SLACK_NS = 1_000_000
"""measurement.md, 12."""


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
    """Of each since the last release, how much longer the untimed call took than FIRST_CALL timed ones."""

    def time(self, sets: Sequence[BufferSet], scalars: Scalars, bench: Bench) -> Timing | Died | OverTime:
        """One sample, counted on both clocks."""
        outcome = self.arm.time(sets, scalars, bench.protocol.min_sample_ns, bench.protocol.pause_ns)
        if isinstance(outcome, Timing) and outside_cause(outcome, self.racer.threads) is None:
            self.runner_ns += outcome.elapsed_ns
            self.parent_ns += outcome.parent_ns
            self.run_delay_ns += outcome.run_delay_ns
            self.ahead_ns.append(outcome.first_ns - FIRST_CALL * per_call_ns(outcome))
        return outcome

    def release(self) -> None:
        """The next sample is of another shape."""
        self.arm.release()
        self.ahead_ns.clear()

    @property
    def clock_ratio(self) -> float:
        """The runner's total over the parent's; 1 before the first sample."""
        return self.runner_ns / self.parent_ns if self.parent_ns else 1.0

    @property
    def typically_ahead_ns(self) -> float:
        """What untimed calls take more than they should, in most samples."""
        return max(0.0, median(self.ahead_ns)) if self.ahead_ns else 0.0


def clocks_disagree(runner_ns: int, parent_ns: int, run_delay_ns: int = 0) -> bool:
    """The two clocks of a process differ by more than 2 % + 1 ms, recorded delays aside (measurement.md, 12)."""
    return abs(parent_ns - runner_ns) > CLOCK_SHARE * parent_ns + CLOCK_SLACK_NS + run_delay_ns


def outside_cause(timing: Timing, threads: int) -> str | None:
    """The recorded cause for which a sample of a kernel on `threads` does not count, or None (measurement.md, 5)."""
    share = timing.run_delay_ns / max(timing.elapsed_ns * threads, 1)
    if share <= RUN_DELAY_SHARE:
        return None
    moved = ", migrated" if timing.migrated else ""
    return f"run delay {share:.1%}, {timing.involuntary_switches} involuntary switches{moved}"


def per_call_ns(timing: Timing) -> float:
    """Of one timed call. Never 0: a clock that stands still is caught by its disagreement, not by a logarithm."""
    return max(timing.elapsed_ns, 1) / timing.calls


def forged(process: Process) -> Finding | None:
    """The process and its parent disagree about how long its samples took (measurement.md, 12)."""
    if not clocks_disagree(process.runner_ns, process.parent_ns, process.run_delay_ns):
        return None
    return Finding(
        Reason.FORGED_CLOCK,
        f"its process says that its samples took {process.runner_ns / 1e6:.1f} ms; seen from outside it was "
        f"{process.parent_ns / 1e6:.1f} ms",
    )


def works_ahead(candidate: Process, baseline: Process) -> Finding | None:
    """At one shape, the untimed call before each sample does what timed ones should and leaves it for them
    (measurement.md, 13)."""
    ahead_ns, usual_ns = candidate.typically_ahead_ns, baseline.typically_ahead_ns
    if ahead_ns <= AHEAD_SLACK_NS + usual_ns:
        return None
    return Finding(
        Reason.STATEFUL,
        f"the untimed call before a sample took {ahead_ns / 1e6:.1f} ms more than {FIRST_CALL} timed ones "
        f"(the baseline's: {usual_ns / 1e6:.1f} ms): it works ahead, and timed calls find their answers",
    )
