"""Latin hypercube: a sample that visits every level of every tunable evenly (McKay, Beckman, Conover 1979)."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernel_lab.spaces.space import Variant
from schemas.work import Genome
from services.evidence.brief import Brief
from services.proposer.strategies.strategy import Idea
from services.proposer.terrain import Terrain

ROUNDS = 8
"""Fresh hypercubes before giving up on new points. Chosen: later rounds only replace what was known."""

REPAIRS = 32
"""Redraws of single genes before an invalid point is dropped. Chosen."""


def propose(brief: Brief, terrain: Terrain, island: int, rng: np.random.Generator, count: int) -> Iterator[Idea]:
    """Hypercubes of `count` points, split evenly over the variants; invalid points are moved to valid ones near by."""
    del brief
    variants = terrain.variants
    if not variants:
        return
    for round_ in range(ROUNDS):
        turned = [variants[(index + island + round_) % len(variants)] for index in range(len(variants))]
        shares = [count // len(turned) + (index < count % len(turned)) for index in range(len(turned))]
        cubes = [hypercube(terrain, variant, rng, share) for variant, share in zip(turned, shares, strict=True)]
        for genome in _interleaved(cubes):
            valid = repaired(terrain, genome, rng)
            if valid is not None:
                yield Idea(valid)


def hypercube(terrain: Terrain, variant: Variant, rng: np.random.Generator, count: int) -> list[Genome]:
    """`count` genomes; every tunable takes each of its levels as evenly as `count` allows. Constraints are not met."""
    genomes: list[Genome] = [{"variant": variant.name} for _ in range(count)]
    for tunable in variant.tunables:
        values = terrain.values(tunable.name, tunable.values)
        if not values:
            return []
        strata = (rng.permutation(count) + rng.random(count)) / max(1, count)
        for genome, position in zip(genomes, strata, strict=True):
            genome[tunable.name] = values[min(int(position * len(values)), len(values) - 1)]
    return genomes


def repaired(terrain: Terrain, genome: Genome, rng: np.random.Generator) -> Genome | None:
    """`genome` itself when it is valid, else a valid one reached by redrawing single genes, or None."""
    variant = terrain.space.variants[str(genome["variant"])]
    moved = dict(genome)
    for _ in range(REPAIRS):
        if terrain.allows(moved):
            return moved
        if not variant.tunables:
            return None
        tunable = variant.tunables[int(rng.integers(len(variant.tunables)))]
        values = terrain.values(tunable.name, tunable.values)
        moved[tunable.name] = values[int(rng.integers(len(values)))]
    return None


def _interleaved(cubes: Sequence[Sequence[Genome]]) -> Iterator[Genome]:
    for row in range(max(map(len, cubes), default=0)):
        yield from (cube[row] for cube in cubes if row < len(cube))
