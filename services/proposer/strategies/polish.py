"""Polish: every point at radius 1 around the best. It mattered more than the surrogate (Helion #3518)."""

from collections.abc import Iterator

import numpy as np

from services.evidence.brief import Brief
from services.proposer.strategies.strategy import Idea
from services.proposer.terrain import Terrain


def propose(brief: Brief, terrain: Terrain, island: int, rng: np.random.Generator, count: int) -> Iterator[Idea]:
    """The neighbours of the island's best, then of the goal's best, then down the island's elite.

    With nothing measured here yet it starts from random points, so that a goal may ask for polish alone.
    """
    centres = [*brief.elites[island][:1], *([brief.best] if brief.best else []), *brief.elites[island][1:]]
    within = {tried.id: tried for tried in centres if terrain.allows(tried.genome)}
    for centre in within.values():
        neighbours = terrain.neighbours(centre.genome)
        for index in rng.permutation(len(neighbours)):
            yield Idea(neighbours[int(index)], (centre.id,))
    if not within:
        drawn = (terrain.random(rng) for _ in range(4 * count))
        yield from (Idea(genome) for genome in drawn if genome is not None)
