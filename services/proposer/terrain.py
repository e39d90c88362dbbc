"""A design space as one goal may use it: narrowed, on its machine, with kernels instead of genomes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kernel_lab.spaces.fingerprint import fingerprint
from kernel_lab.spaces.installed import Spaces
from kernel_lab.spaces.space import VARIANT, Space, Surroundings, Variant
from schemas.enums import Language
from schemas.goal import SpaceLimits
from schemas.steering import narrowed
from schemas.work import MAX_SOURCE_BYTES, Gene, Genome, Kernel, Task

SMALL_SPACE = 300
"""Valid points up to which a space is enumerated (search.md)."""

ENUMERABLE = 20_000
"""Valid points beyond which a space is only sampled. Chosen: listing this many takes well under a second."""


@dataclass(frozen=True)
class Terrain:
    """Where a goal searches, in one language."""

    space: Space
    around: Surroundings
    limits: SpaceLimits
    language: Language
    target: str
    """What fingerprints are taken for: the route."""

    @cached_property
    def small(self) -> bool:
        """Cheap enough to try every point."""
        return self.space.count(self.around, self.limits, SMALL_SPACE + 1) <= SMALL_SPACE

    @cached_property
    def points(self) -> tuple[Genome, ...]:
        """Every valid genome in the space's order; empty when there are too many to list."""
        too_many = self.space.count(self.around, self.limits, ENUMERABLE + 1) > ENUMERABLE
        return () if too_many else self.space.points(self.around, self.limits)

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The variants that the limits leave."""
        names = self.values(VARIANT, tuple(self.space.variants))
        return tuple(self.space.variants[str(name)] for name in names)

    @cached_property
    def tunables(self) -> frozenset[str]:
        """Every name that a limit may use."""
        return frozenset({VARIANT, *(t.name for variant in self.space.variants.values() for t in variant.tunables)})

    def values(self, name: str, values: tuple[Gene, ...]) -> tuple[Gene, ...]:
        """The values of a tunable that the goal's limits leave."""
        return tuple(value for value in values if self._within_limits(name, value))

    def allows(self, genome: Genome) -> bool:
        """`genome` is complete, within the limits and valid here."""
        within = all(self._within_limits(name, gene) for name, gene in genome.items())
        return within and self.space.is_valid(genome, self.around)

    def neighbours(self, genome: Genome) -> tuple[Genome, ...]:
        """Every valid genome at radius 1."""
        return self.space.neighbours(genome, self.around, self.limits)

    def random(self, rng: np.random.Generator) -> Genome | None:
        """A valid genome, each variant equally likely; None in an empty space."""
        return self.space.sample(rng, self.around, self.limits)

    def kernel(self, genome: Genome) -> Kernel:
        """The source and launch data that `genome` stands for."""
        rendered = self.space.render(genome, self.around)
        return Kernel(
            language=self.language,
            source=rendered.source,
            flags=rendered.flags,
            threads=rendered.threads,
            variant=str(genome[VARIANT]),
            genome=genome,
            fingerprint=fingerprint(rendered.source, rendered.flags, rendered.threads, self.target),
        )

    def narrowed(self, region: Mapping[str, tuple[Gene, ...]]) -> "Terrain":
        """The part of this terrain inside `region`."""
        return replace(self, limits=narrowed(self.limits, region))

    def takes(self, kernel: Kernel) -> bool:
        """`kernel` may be proposed here, whatever its source: goal and machine allow its launch data."""
        fits = len(kernel.source.encode()) <= MAX_SOURCE_BYTES and (kernel.threads or 1) <= self.around.threads
        return fits and not set(kernel.flags) & set(self.around.forbid)

    def aimed(self, kernel: Kernel) -> Kernel:
        """The same kernel, told apart as one for this target."""
        mark = fingerprint(kernel.source, kernel.flags, kernel.threads, self.target)
        return kernel.model_copy(update={"fingerprint": mark})

    def genome_of(self, kernel: Kernel) -> Genome | None:
        """The point that renders to `kernel`; None when there is none, or too many points to look at."""
        for genome in self.points:
            rendered = self.space.render(genome, self.around)
            launched_alike = (rendered.flags, rendered.threads) == (kernel.flags, kernel.threads)
            if launched_alike and self.kernel(genome).fingerprint == kernel.fingerprint:
                return genome
        return None

    def _within_limits(self, name: str, gene: Gene) -> bool:
        included, excluded = self.limits.include.get(name), self.limits.exclude.get(name, ())
        return (included is None or _is_in(gene, included)) and not _is_in(gene, excluded)


def terrain_for(task: Task, limits: SpaceLimits, language: Language, spaces: Spaces) -> Terrain | None:
    """The terrain of a task in one language, or None when nobody wrote a space for it."""
    space = spaces.get((task.workload, language))
    if space is None:
        return None
    quota = task.machine.threads
    around = Surroundings(
        vector_bits=task.machine.vector_bits,
        threads=min(task.constraints.max_threads or quota, quota),
        deterministic=task.constraints.deterministic,
        forbid=task.constraints.forbid,
    )
    return Terrain(space, around, limits, language, task.route)


def _is_in(gene: Gene, values: Iterable[Gene]) -> bool:
    """Membership that tells `true` from 1."""
    return any(type(gene) is type(value) and gene == value for value in values)
