"""What is published of the best of 200 candidates that are all as fast as the baseline: simulated, with Assay's own
statistics, halving and race rules. Nothing is timed."""

from dataclasses import dataclass
from statistics import median
from uuid import UUID

import numpy as np

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least
from kernel_lab.measure.statistics import (
    LOOKS,
    NOISE_PAIRS,
    QUADS_PER_PAIR,
    Conclusion,
    Noise,
    PairValue,
    conclude_values,
    is_decided,
    level_per_look,
)
from schemas.enums import Verdict
from services.evidence.goal_parts import CandidateState, End
from services.evidence.halving import ROUNDS, contestants

GOALS = 200
CANDIDATES = 200
GENERATION = 32
FINALISTS = 3
QUAD_NOISE = 0.02
"""Standard deviation of one quad's log-ratio (measurement.md: 2 %)."""
PROCESS_NOISE = 0.005
"""And of what a whole pair of processes shares. Chosen: placement of pages and code moves a pair by about that."""
SCREEN_QUADS = 2
COVERED_OF_200 = 194


@dataclass(frozen=True)
class Simulated:
    """One goal: what the search believed of its best candidate, and what the race published."""

    best_screen: float
    search_ratio: float
    conclusion: Conclusion

    @property
    def covered(self) -> bool:
        """The published interval holds the truth, 1.000."""
        interval = self.conclusion.interval
        return interval is not None and interval.low <= 1.0 <= interval.high


def run(size: float, say: Say) -> Result:
    """Goals whose candidates are all equal to their baseline."""
    rng = np.random.default_rng(20261130)
    goals = [_goal(rng) for _ in range(max(10, round(GOALS * size)))]
    say(f"{len(goals)} goals simulated")
    covered = sum(goal.covered for goal in goals)
    false = sum(goal.conclusion.verdict is Verdict.FASTER for goal in goals)
    figures = (
        Figure(
            "published intervals that cover 1.000, of 200 goals",
            round(covered * GOALS / len(goals), 1),
            "",
            at_least(COVERED_OF_200),
        ),
        Figure("crowned though nothing was faster", false, "goals"),
        Figure("best screen of a goal, median", round(median(goal.best_screen for goal in goals), 4), "×"),
        Figure("search ratio of the finalist, median", round(median(goal.search_ratio for goal in goals), 4), "×"),
        Figure("published estimate, median", round(median(_published(goal) for goal in goals), 4), "×"),
    )
    raw = [
        {
            "best_screen": goal.best_screen,
            "search_ratio": goal.search_ratio,
            "verdict": goal.conclusion.verdict,
            "published": goal.conclusion.interval and goal.conclusion.interval.model_dump(),
        }
        for goal in goals
    ]
    return Result(figures, {"goals": raw})


def _published(goal: Simulated) -> float:
    assert goal.conclusion.interval is not None
    return goal.conclusion.interval.estimate


def _goal(rng: np.random.Generator) -> Simulated:
    noise = Noise(tuple(_pair(rng, QUADS_PER_PAIR) for _ in range(NOISE_PAIRS)))
    members: dict[UUID, CandidateState] = {}
    for first in range(0, CANDIDATES, GENERATION):
        members |= _generation(rng, first, min(GENERATION, CANDIDATES - first))
    standing = sorted(members.values(), key=lambda one: (-len(one.looks), -one.looks[-1]))
    raced = [_race(rng, noise) for _ in standing[:FINALISTS]]
    best = max(raced, key=lambda one: one.interval.estimate if one.interval else 0.0)
    return Simulated(max(one.looks[0] for one in members.values()), standing[0].looks[-1], best)


def _generation(rng: np.random.Generator, first: int, size: int) -> dict[UUID, CandidateState]:
    """Screened, then halved as the curator halves."""
    members = {
        UUID(int=first + n): CandidateState({}, "", end=End.MEASURED, looks=(_ratio(rng, SCREEN_QUADS),))
        for n in range(size)
    }
    for round_ in range(1, ROUNDS + 1):
        for id_ in contestants(members, round_):
            before = members[id_]
            looks = (*before.looks, _ratio(rng, QUADS_PER_PAIR))
            members[id_] = CandidateState({}, "", end=End.MEASURED, looks=looks)
    return members


def _race(rng: np.random.Generator, noise: Noise) -> Conclusion:
    """Looks at fresh pairs until one decides."""
    values: list[PairValue] = []
    conclusion = None
    for look in LOOKS:
        fresh = (_pair(rng, QUADS_PER_PAIR) for _ in range(look - len(values)))
        values += [PairValue(value, (value,)) for value in fresh]
        conclusion = conclude_values(values, noise, level_per_look(FINALISTS))
        if is_decided(conclusion.verdict):
            break
    assert conclusion is not None
    return conclusion


def _ratio(rng: np.random.Generator, quads: int) -> float:
    return float(np.exp(_pair(rng, quads)))


def _pair(rng: np.random.Generator, quads: int) -> float:
    """The value of one pair of equal kernels: the median over its quads, on top of what the processes share."""
    return float(rng.normal(0.0, PROCESS_NOISE) + np.median(rng.normal(0.0, QUAD_NOISE, quads)))


BENCHMARK = Benchmark("winners_curse", "the best of 200 equal candidates, 200 simulated goals", 0.5, run)
