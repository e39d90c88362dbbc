"""Genetic search on islands: neighbour mutation, crossover and fresh blood, chosen by a bandit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

import numpy as np

from kernel_lab.spaces.space import VARIANT
from schemas.work import Genome
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
    brood = _Brood(terrain, rng)
    for _ in range(TRIES_PER_CHILD * count):
        if not elite and not migrants:
            idea = brood.leap(())
        else:
            operator = bandit.choose().removeprefix(f"{NAME}/")
            idea = OPERATORS[operator](brood, [_parent(elite, migrants, rng) for _ in range(2)])
        if idea is not None:
            yield idea


def _parent(elite: Parents, migrants: Parents, rng: np.random.Generator) -> Tried:
    """A parent, the fitter the likelier: the square of a uniform draw favours the front of the ranking."""
    from_archive = not elite or (bool(migrants) and rng.random() < ARCHIVE_SHARE)
    if from_archive:
        return migrants[int(rng.integers(len(migrants)))]
    return elite[int(len(elite) * rng.random() ** 2)]


class _Brood:
    """The children of one generation. A neighbour is a child once: a second time it would only cost a look."""

    def __init__(self, terrain: Terrain, rng: np.random.Generator) -> None:
        self._terrain = terrain
        self._rng = rng
        self._unborn: dict[UUID, list[Genome]] = {}

    def mutate(self, parents: Parents) -> Idea | None:
        """A neighbour of the first parent, or None when all have been children."""
        parent = parents[0]
        if parent.id not in self._unborn:
            neighbours = self._terrain.neighbours(parent.genome)
            self._unborn[parent.id] = [neighbours[int(at)] for at in self._rng.permutation(len(neighbours))]
        unborn = self._unborn[parent.id]
        return Idea(unborn.pop(), (parent.id,), "mutation") if unborn else None

    def cross(self, parents: Parents) -> Idea | None:
        """Uniform crossover: the first parent's variant, each shared gene from either parent. None when not valid."""
        first, second = parents[0].genome, parents[1].genome
        child = {
            name: second[name] if name != VARIANT and name in second and self._rng.random() < 0.5 else gene
            for name, gene in first.items()
        }
        ids = tuple(dict.fromkeys(parent.id for parent in parents))
        return Idea(child, ids, "crossover") if self._terrain.allows(child) else None

    def leap(self, parents: Parents) -> Idea | None:
        """A random genome, whatever the parents; None in an empty space."""
        del parents
        genome = self._terrain.random(self._rng)
        return Idea(genome, (), "leap") if genome is not None else None


OPERATORS: Mapping[str, Callable[[_Brood, Parents], Idea | None]] = MappingProxyType(
    {"mutation": _Brood.mutate, "crossover": _Brood.cross, "leap": _Brood.leap}
)
