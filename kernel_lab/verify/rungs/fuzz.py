"""V5: shapes, placements, contents and thread counts that nobody chose, within the bound or rejected.

Hypothesis draws the cases from the secret seed and shrinks a failing one; what it found is kept as generator and seed.
The same seed gives the same cases with the same version of Hypothesis, which the rung's note names.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

from kernel_lab.runner.arm import Alignment
from kernel_lab.verify.compare import against_bound, closer
from kernel_lab.verify.draws import SEED_BITS, Draw, deep_seed, digest_of, distribution_named, elements, prepare
from kernel_lab.verify.exercise import AS_LEFT, Exerciser, exercising
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.rungs.numeric import PLACEMENTS, thread_counts
from kernel_lab.verify.subject import Climb
from kernel_lab.workloads.workload import Workload
from schemas.enums import Reason
from schemas.verdict import Worst

CASES = 150
"""Chosen: about a second, and a kernel that is wrong at one size in fifty passes one time in twenty."""
MOST_ELEMENTS = 1 << 17
"""Largest case, all arguments together (chosen: half of V3's largest, at about 2 ms a case)."""
SMALL_EXTENT = 70
"""Chosen: past four 16-lane vectors, where peeled heads and tails of every unrolling lie."""
MOST_SHRINKS = 150
"""Calls spent on a smaller counterexample (chosen: a second; it is for the reader, no part of the verdict)."""
POWERS = tuple(1 << bit for bit in range(7, 18))


class OwnConstantsOnly(HypothesisProvider):
    """Hypothesis mixes constants of the modules around it into its draws: then another checkout draws other cases."""

    def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
        return None


BACKEND = "assay"
AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.{OwnConstantsOnly.__name__}"


@dataclass(frozen=True)
class Case:
    """One call that Hypothesis asks for."""

    axes: tuple[tuple[str, int], ...]
    distribution: str
    alignment: Alignment
    seed: int
    threads: int

    @property
    def draw(self) -> Draw:
        return Draw(self.distribution, dict(self.axes), self.seed, self.alignment)


def climb(climb: Climb) -> RungOutcome:
    """No finding: every case was within the bound."""
    if not climb.checks.fuzz:
        return Climbed(0)
    with ExitStack() as processes:
        hunt = Hunt(climb, processes)
        smallest = _smallest_failing(climb, hunt)
        climb.digests.update({f"fuzz.{name}": digest_of(seen) for name, seen in hunt.digests.items()})
    if hunt.could_not is not None:
        return hunt.could_not
    if smallest is not None:
        return hunt.failed[smallest]
    return Climbed(hunt.passed, hunt.worst, f"hypothesis {hypothesis.__version__}")


def _smallest_failing(climb: Climb, hunt: "Hunt") -> Case | None:
    quiet = settings(
        max_examples=CASES,
        backend=BACKEND,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    random = Random(deep_seed(climb.seeds, "fuzz"))  # noqa: S311 -- the seed is the secret; it must repeat
    try:
        return find(cases(climb), hunt.fails, settings=quiet, random=random)
    except NoSuchExample:
        return None


@st.composite
def cases(draw: st.DrawFn, climb: Climb) -> Case:
    """Any case inside the declared domain and MOST_ELEMENTS."""
    workload = climb.workload
    known = (*workload.distributions, *((workload.exact,) if workload.exact else ()))
    return Case(
        axes=tuple(draw(extents(climb)).items()),
        distribution=draw(st.sampled_from([one.name for one in known])),
        alignment=draw(st.sampled_from(PLACEMENTS)),
        seed=draw(st.integers(0, (1 << SEED_BITS) - 1)),
        threads=draw(st.sampled_from(thread_counts(climb))),
    )


@st.composite
def extents(draw: st.DrawFn, climb: Climb) -> dict[str, int]:
    """A size for each axis: small, anything, or beside a landmark (a power of two, an extent of the goal's). None is
    longer than the goal or the workload's small set has it: the bound of a sum holds statistically, and is known to
    hold there."""
    workload = climb.workload
    chosen = {axis: max(workload.axis_minimum[axis], 1) for axis in workload.axes}
    for axis in draw(st.permutations(workload.axes)):
        least = workload.axis_minimum[axis]
        known = [shape.axes[axis] for shape in (*climb.plan.shapes, *workload.shapes["small"])]
        most = min(_most(workload, chosen, axis), max(known) + 1)
        beside = sorted({e + d for e in (*POWERS, *known) for d in (-1, 0, 1) if least <= e + d <= most})
        kinds = [st.integers(least, min(most, SMALL_EXTENT)), st.integers(least, most)]
        chosen[axis] = draw(st.one_of(*kinds, *([st.sampled_from(beside)] if beside else [])))
    return {axis: chosen[axis] for axis in workload.axes}


def _most(workload: Workload, chosen: dict[str, int], axis: str) -> int:
    """The largest extent of `axis` beside the others that stays within MOST_ELEMENTS: arguments grow with it."""
    low, high = max(workload.axis_minimum[axis], 1), MOST_ELEMENTS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if elements(workload, {**chosen, axis: middle}) <= MOST_ELEMENTS else (low, middle - 1)
        )
    return low


@dataclass
class Hunt:
    """The processes that cases run in, and what was found. A case is judged once, however often it is asked for."""

    climb: Climb
    processes: ExitStack
    passed: int = 0
    worst: Worst | None = None
    failed: dict[Case, Finding] = field(default_factory=dict)
    could_not: CouldNot | None = None
    digests: dict[str, list[str]] = field(default_factory=dict)
    _known: dict[Case, bool] = field(default_factory=dict)
    _running: dict[int, tuple[ExitStack, Exerciser]] = field(default_factory=dict)
    _since: int = 0

    def fails(self, case: Case) -> bool:
        """Whether `case` is a counterexample. After a finding only so many smaller ones are tried."""
        if case not in self._known:
            self._known[case] = not self._enough and self._judge(case)
        return self._known[case]

    @property
    def _enough(self) -> bool:
        """No verdict can be had, shrinking has had its share, or each try costs its limit of time."""
        slow = any(finding.reason is Reason.TIMED_OUT for finding in self.failed.values())
        return self.could_not is not None or slow or self._since >= MOST_SHRINKS

    def _judge(self, case: Case) -> bool:
        self._since += bool(self.failed)
        outcome = self._run(case)
        if outcome is None:
            return False
        if isinstance(outcome, CouldNot):
            self.could_not = outcome
            return False
        self._end(case.threads)  # after a finding nothing in that process is to be trusted
        self.failed[case] = replace(outcome, counterexample=case.draw.kept(self.climb.workload.name))
        return True

    def _run(self, case: Case) -> Finding | CouldNot | None:
        exerciser = self._exerciser(case.threads)
        if not isinstance(exerciser, Exerciser):
            return exerciser
        distribution = distribution_named(self.climb.workload, case.distribution)
        assert distribution is not None
        prepared = prepare(self.climb.workload, distribution, case.draw)
        got = exerciser.run(prepared, AS_LEFT)
        if not isinstance(got, dict):
            return got
        judged = against_bound(prepared, got, self.climb.plan.tolerance_scale, self.climb.checks)
        if isinstance(judged, Finding):
            return judged
        self.passed, self.worst = self.passed + 1, closer(self.worst, judged.worst)
        return None

    def _exerciser(self, threads: int) -> Exerciser | Finding | CouldNot:
        if threads in self._running:
            return self._running[threads][1]
        own = self.processes.enter_context(ExitStack())
        started = own.enter_context(exercising(self.climb, threads, inputs_writable=True))
        if isinstance(started, Exerciser):
            started.digests = self.digests
            self._running[threads] = own, started
        return started

    def _end(self, threads: int) -> None:
        own, _ = self._running.pop(threads, (ExitStack(), None))
        own.close()
