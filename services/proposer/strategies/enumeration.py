"""Enumerate: every point of a small space, in an order whose every beginning is spread over the whole."""

from collections.abc import Iterator

import numpy as np

from services.evidence.brief import Brief
from services.proposer.strategies.strategy import Idea
from services.proposer.terrain import Terrain


def propose(brief: Brief, terrain: Terrain, island: int, rng: np.random.Generator, count: int) -> Iterator[Idea]:
    """Every point: this island's share first, then the shares of the others. Nothing where there are too many."""
    del rng, count
    order = spread(len(terrain.points))
    for turn in range(brief.islands):
        for index in order[(island + turn) % brief.islands :: brief.islands]:
            yield Idea(terrain.points[index])


def spread(size: int) -> tuple[int, ...]:
    """0 … size-1 in bit-reversed order: the van der Corput sequence in base 2, without the values past the end."""
    bits = max(1, (size - 1).bit_length())
    reversed_bits = (int(f"{value:0{bits}b}"[::-1], 2) for value in range(1 << bits))
    return tuple(index for index in reversed_bits if index < size)
