"""The portfolio: which strategies fill a generation, and in what shares (search.md)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from schemas.work import Genome, Kernel
from services.evidence.brief import Brief
from services.proposer.strategies import STRATEGIES
from services.proposer.strategies.strategy import Idea
from services.proposer.terrain import Spaces, Terrain, terrain_for

WARM_START = "warm_start"
WARM_SHARE = 0.5
"""Of a generation, at most. Chosen: what was proved before must be measured again, but not instead of searching."""

SAMPLING_SHARE = 1 / 3
"""Of the budget goes to the even sample before genetic search takes over (search.md, "What published comparisons say":
model-free genetic search pays once it has a population)."""

POLISH_SHARE = 0.25
"""Of a generation, once there is something to polish. Chosen."""


@dataclass(frozen=True)
class Proposal:
    """One kernel to propose."""

    island: int
    strategy: str
    parents: tuple[UUID, ...]
    kernel: Kernel


@dataclass(frozen=True)
class Proposed:
    """A generation, at least one kernel, at most the size asked for."""

    proposals: tuple[Proposal, ...]


@dataclass(frozen=True)
class Exhausted:
    """There is nothing left to propose, and why."""

    message: str


def propose(brief: Brief, spaces: Spaces) -> Proposed | Exhausted:
    """The generation that `brief` asks for: deterministic in the brief, free of what is known and of repeats."""
    terrains = _terrains(brief, spaces)
    problem = _problem(brief, terrains)
    if problem is not None:
        return Exhausted(problem)
    basket = _Basket(brief.known)
    for island, count in enumerate(shares(brief.size, brief.islands)):
        terrain = terrains[(island + brief.generation) % len(terrains)]
        _fill_island(brief, terrain, island, count, basket)
    if not basket.proposals:
        strategies = ", ".join(brief.goal.search.strategies)
        return Exhausted(f"{strategies}: every kernel they reach is proposed already ({len(brief.tried)} tried)")
    return Proposed(tuple(basket.proposals))


def shares(size: int, islands: int) -> tuple[int, ...]:
    """`size` split over islands, the first ones getting the odd ones."""
    return tuple(size // islands + (island < size % islands) for island in range(islands))


def plan(brief: Brief, terrain: Terrain, count: int) -> tuple[tuple[str, int], ...]:
    """Strategies in the order they fill an island's share, each with the most it may add."""
    selected = brief.goal.search.strategies
    polish = 0 if brief.best is None else count if brief.last_before_finals else math.ceil(count * POLISH_SHARE)
    wanted = (("polish", polish), (_explorer(brief, terrain), count))
    first = tuple((name, quota) for name, quota in wanted if name in selected and quota)
    return (*first, *((name, count) for name in selected))


def _explorer(brief: Brief, terrain: Terrain) -> str:
    if terrain.small:
        return "enumerate"
    sampling = len(brief.tried) < brief.goal.budget.candidates * SAMPLING_SHARE
    return "latin_hypercube" if sampling else "genetic"


class _Basket:
    """Collects fresh kernels of one generation."""

    def __init__(self, known: frozenset[str]) -> None:
        self.proposals: list[Proposal] = []
        self._seen = set(known)

    def add(self, ideas: Iterable[Idea], terrain: Terrain, island: int, strategy: str, quota: int) -> int:
        """Up to `quota` fresh kernels are in; how many."""
        added = 0
        if quota <= 0:
            return added
        for idea in ideas:
            kernel = terrain.kernel(idea.genome)
            if kernel.fingerprint in self._seen:
                continue
            self._seen.add(kernel.fingerprint)
            name = f"{strategy}/{idea.operator}" if idea.operator else strategy
            self.proposals.append(Proposal(island, name, idea.parents, kernel))
            added += 1
            if added == quota:
                break
        return added


def _fill_island(brief: Brief, terrain: Terrain, island: int, count: int, basket: _Basket) -> None:
    rng = np.random.default_rng((brief.seed, brief.generation, island))
    left = count
    left -= basket.add(_warm(brief, terrain), terrain, island, WARM_START, math.ceil(count * WARM_SHARE))
    for name, most in plan(brief, terrain, count):
        if left <= 0:
            return
        quota = min(left, most)
        ideas = STRATEGIES[name](brief, terrain, island, rng, quota)
        left -= basket.add(ideas, terrain, island, name, quota)


def _warm(brief: Brief, terrain: Terrain) -> Iterator[Idea]:
    """Proven genomes of earlier goals that are valid here. Their sources are rendered anew for this machine."""
    for warm in brief.warm:
        genome: Genome = warm.kernel.genome
        if warm.kernel.language == terrain.language and terrain.allows(genome):
            yield Idea(genome, (warm.candidate_id,))


def _terrains(brief: Brief, spaces: Spaces) -> tuple[Terrain, ...]:
    limits = brief.goal.search.space
    found = (terrain_for(brief.task, limits, language, spaces) for language in brief.task.languages)
    return tuple(terrain for terrain in found if terrain is not None)


def _problem(brief: Brief, terrains: Sequence[Terrain]) -> str | None:
    """What a person must mend before anything can be proposed, or None."""
    languages = ", ".join(brief.task.languages)
    if not terrains:
        return f"no design space for {brief.task.workload} in {languages}"
    unknown = [name for name in brief.goal.search.strategies if name not in STRATEGIES]
    if unknown:
        return f"search.strategies: no strategy {', '.join(unknown)}; there are {', '.join(STRATEGIES)}"
    named = set(brief.goal.search.space.include) | set(brief.goal.search.space.exclude)
    strangers = sorted(named - {name for terrain in terrains for name in terrain.tunables})
    if strangers:
        return f"search.space: no tunable {', '.join(strangers)} in any space of {brief.task.workload}"
    return None
