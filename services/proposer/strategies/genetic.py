"""Genetic search on islands: neighbour mutation, crossover and fresh blood, chosen by a bandit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from services.evidence.brief import Brief
from services.evidence.search_history import Tried
from services.proposer.strategies.bandit import Bandit
from services.proposer.strategies.strategy import Idea
from services.proposer.terrain import Terrain

NAME = "genetic"

TRIES_PER_CHILD = 24
"""Ideas per wanted child before giving up. Chosen: near the end of a space most children are known."""

ARCHIVE_SHARE = 0.25
"""Share of parents taken from the whole archive: how islands hear of each other. Chosen."""

Parents = Sequence[Tried]


def propose(brief: Brief, terrain: Terrain, island: int, rng: np.random.Generator, count: int) -> Iterator[Idea]:
    """Children of the island's elite and of the archive; random genomes while nothing has been measured."""
    elite = [tried for tried in brief.elites[island] if terrain.allows(tried.genome)]
    archive = [brief.archive[cell] for cell in sorted(brief.archive)]
    migrants = [tried for tried in archive if terrain.allows(tried.genome)]
    bandit = Bandit([f"{NAME}/{name}" for name in OPERATORS], brief.credit)
    for _ in range(TRIES_PER_CHILD * count):
        if not elite and not migrants:
            idea = _leap((), terrain, rng)
        else:
            operator = bandit.choose().removeprefix(f"{NAME}/")
            parents = [_parent(elite, migrants, rng) for _ in range(2)]
            idea = OPERATORS[operator](parents, terrain, rng)
        if idea is not None:
            yield idea


def _parent(elite: Parents, migrants: Parents, rng: np.random.Generator) -> Tried:
    """A parent, the fitter the likelier: the square of a uniform draw favours the front of the ranking."""
    from_archive = not elite or (bool(migrants) and rng.random() < ARCHIVE_SHARE)
    if from_archive:
        return migrants[int(rng.integers(len(migrants)))]
    return elite[int(len(elite) * rng.random() ** 2)]


def _mutate(parents: Parents, terrain: Terrain, rng: np.random.Generator) -> Idea | None:
    neighbours = terrain.neighbours(parents[0].genome)
    if not neighbours:
        return None
    return Idea(neighbours[int(rng.integers(len(neighbours)))], (parents[0].id,), "mutation")


def _cross(parents: Parents, terrain: Terrain, rng: np.random.Generator) -> Idea | None:
    """Uniform crossover: the first parent's variant, each shared gene from either parent."""
    first, second = parents[0].genome, parents[1].genome
    child = {
        name: second[name] if name != "variant" and name in second and rng.random() < 0.5 else gene
        for name, gene in first.items()
    }
    ids = tuple(dict.fromkeys(parent.id for parent in parents))
    return Idea(child, ids, "crossover") if terrain.allows(child) else None


def _leap(parents: Parents, terrain: Terrain, rng: np.random.Generator) -> Idea | None:
    del parents
    genome = terrain.random(rng)
    return Idea(genome, (), "leap") if genome is not None else None


OPERATORS: Mapping[str, Callable[[Parents, Terrain, np.random.Generator], Idea | None]] = MappingProxyType(
    {"mutation": _mutate, "crossover": _cross, "leap": _leap}
)
