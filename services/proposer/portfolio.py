"""The portfolio: which strategies fill a generation, and in what shares (search.md)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from kernel_lab.spaces.installed import Spaces
from schemas.work import Genome, Kernel
from services.evidence.brief import Brief
from services.evidence.search_history import standing
from services.proposer.adoption import adopted, relaunches
from services.proposer.strategies import STRATEGIES
from services.proposer.strategies.strategy import Idea
from services.proposer.terrain import Terrain, terrain_for

WARM_START = "warm_start"
WARM_SHARE = 0.5
"""Of a generation, at most. Chosen: what was proved before must be measured again, but not instead of searching."""

SAMPLING_SHARE = 1 / 3
"""Of the budget goes to the even sample before genetic search takes over (search.md, "What published comparisons say":
model-free genetic search pays once it has a population)."""

HINT_SHARE = 0.5
"""Of a generation goes to the region that a person's hint names. Chosen: advice is followed, and may be wrong."""

RELAUNCH = "relaunch"
RELAUNCH_SHARE = 0.125
"""Of a generation, at most, goes to submitted sources with other launch data. Chosen."""

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
    brief = adopted(brief, terrains)
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


@dataclass(frozen=True)
class _Offer:
    """A kernel that somebody would like to see judged."""

    kernel: Kernel
    parents: tuple[UUID, ...]
    strategy: str


class _Basket:
    """Collects fresh kernels of one generation."""

    def __init__(self, known: frozenset[str]) -> None:
        self.proposals: list[Proposal] = []
        self._seen = set(known)

    def add(self, offers: Iterable[_Offer], island: int, quota: int) -> int:
        """Up to `quota` fresh kernels are in; how many."""
        added = 0
        if quota <= 0:
            return added
        for offer in offers:
            if offer.kernel.fingerprint in self._seen:
                continue
            self._seen.add(offer.kernel.fingerprint)
            self.proposals.append(Proposal(island, offer.strategy, offer.parents, offer.kernel))
            added += 1
            if added == quota:
                break
        return added


def _fill_island(brief: Brief, terrain: Terrain, island: int, count: int, basket: _Basket) -> None:
    rng = np.random.default_rng((brief.seed, brief.generation, island))
    left = count
    left -= basket.add(_warm(brief, terrain), island, math.ceil(count * WARM_SHARE))
    left -= basket.add(_relaunched(brief, terrain), island, min(left, math.ceil(count * RELAUNCH_SHARE)))
    if brief.hint is not None and brief.hint.include:
        focus = terrain.narrowed(brief.hint.include)
        left -= _fill(brief, focus, island, min(left, math.ceil(count * HINT_SHARE)), basket, rng)
    _fill(brief, terrain, island, left, basket, rng)


def _fill(brief: Brief, terrain: Terrain, island: int, count: int, basket: _Basket, rng: np.random.Generator) -> int:
    """Up to `count` kernels of `terrain` are in, by the goal's strategies; how many."""
    left = count
    for name, most in plan(brief, terrain, count):
        if left <= 0:
            break
        quota = min(left, most)
        ideas = STRATEGIES[name](brief, terrain, island, rng, quota)
        left -= basket.add(_offers(ideas, terrain, name), island, quota)
    return count - left


def _offers(ideas: Iterable[Idea], terrain: Terrain, strategy: str) -> Iterator[_Offer]:
    for idea in ideas:
        name = f"{strategy}/{idea.operator}" if idea.operator else strategy
        yield _Offer(terrain.kernel(idea.genome), idea.parents, name)


def _warm(brief: Brief, terrain: Terrain) -> Iterator[_Offer]:
    """Proven kernels of earlier goals that are valid here: points are rendered anew for this machine, what had been
    submitted is taken as it is."""
    for warm in brief.warm:
        genome: Genome = warm.kernel.genome
        if warm.kernel.language != terrain.language:
            continue
        if terrain.allows(genome):
            yield _Offer(terrain.kernel(genome), (warm.candidate_id,), WARM_START)
        elif not genome and terrain.takes(warm.kernel):
            yield _Offer(terrain.aimed(warm.kernel), (warm.candidate_id,), WARM_START)


def _relaunched(brief: Brief, terrain: Terrain) -> Iterator[_Offer]:
    """Submissions that are no point of the space, with other launch data: the best first."""
    for tried in sorted((tried for tried in brief.tried if tried.search_ratio is not None), key=standing):
        if tried.submitted is not None and not tried.genome and tried.language == terrain.language:
            for kernel in relaunches(tried.submitted, terrain):
                yield _Offer(kernel, (tried.id,), RELAUNCH)


def _terrains(brief: Brief, spaces: Spaces) -> tuple[Terrain, ...]:
    found = (terrain_for(brief.task, brief.limits, language, spaces) for language in brief.task.languages)
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
