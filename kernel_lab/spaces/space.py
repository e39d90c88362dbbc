"""What a design space is: variants of one operation in one language, each a parametrised source generator. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from schemas.goal import SpaceLimits
from schemas.work import Gene, Genome

VARIANT = "variant"
"""The gene that every genome holds."""


@dataclass(frozen=True)
class Tunable:
    """A typed choice. `values` is ordered: neighbours in it are neighbours for mutation and polish."""

    name: str
    values: tuple[Gene, ...]
    meaning: str


@dataclass(frozen=True)
class Surroundings:
    """What a space may depend on besides the genome."""

    vector_bits: int
    threads: int
    """The goal's max_threads clipped to the machine's quota."""
    deterministic: bool
    forbid: tuple[str, ...]


@dataclass(frozen=True)
class Rendered:
    """A genome as source plus launch data."""

    source: str
    flags: tuple[str, ...]
    threads: int


def _always(_genome: Genome, _around: Surroundings) -> bool:
    return True


@dataclass(frozen=True)
class Variant:
    """One algorithm: differs from its siblings in passes or loop structure, not only in tunables."""

    name: str
    summary: str
    tunables: tuple[Tunable, ...]
    valid: Callable[[Genome, Surroundings], bool]
    """Constraint over a complete genome; cheap, total."""
    render: Callable[[Genome, Surroundings], Rendered]
    possible: Callable[[Genome, Surroundings], bool] = _always
    """Whether a genome whose first tunables are set may still become valid: prunes while a space is built."""


@dataclass(frozen=True)
class Space:
    """Every variant of `workload` in `language`. A genome always holds the gene `variant`."""

    workload: str
    language: str
    variants: Mapping[str, Variant]

    def points(self, around: Surroundings, limits: SpaceLimits) -> tuple[Genome, ...]:
        """Every valid genome, in a fixed order (built by constraint propagation, not enumerate-and-filter)."""
        return tuple(self.walk(around, limits))

    def walk(self, around: Surroundings, limits: SpaceLimits) -> Iterator[Genome]:
        """Every valid genome, lazily, in the order of `points`."""
        for variant in self._variants(limits):
            yield from _completions(variant, _choices(variant, limits), around)

    def count(self, around: Surroundings, limits: SpaceLimits, at_most: int) -> int:
        """How many valid genomes there are; `at_most` when there are that many or more."""
        return sum(1 for _ in islice(self.walk(around, limits), at_most))

    def sample(self, rng: np.random.Generator, around: Surroundings, limits: SpaceLimits) -> Genome | None:
        """One random valid genome without enumerating the space; None when there is none."""
        variants = self._variants(limits)
        for at in rng.permutation(len(variants)):
            variant = variants[int(at)]
            shuffled = tuple(_shuffled(values, rng) for values in _choices(variant, limits))
            found = next(_completions(variant, shuffled, around), None)
            if found is not None:
                return found
        return None

    def neighbours(self, genome: Genome, around: Surroundings, limits: SpaceLimits) -> tuple[Genome, ...]:
        """Every valid genome at radius 1: one tunable moved one step, or the same tunables under a sibling variant.

        Where a step breaks a constraint, the other tunables move as little as makes it hold again.
        """
        found: list[Genome] = []
        for variant, wanted, pinned in self._steps(genome, limits):
            ordered = tuple(_nearest_first(t, wanted, pinned, limits) for t in variant.tunables)
            nearest = next(_completions(variant, ordered, around), None)
            if nearest is not None and nearest != genome and nearest not in found:
                found.append(nearest)
        return tuple(found)

    def is_valid(self, genome: Genome, around: Surroundings) -> bool:
        """`genome` names a variant, sets exactly its tunables to known values, and meets its constraints."""
        variant = self.variants.get(str(genome.get(VARIANT)))
        if variant is None or set(genome) != {VARIANT, *(t.name for t in variant.tunables)}:
            return False
        return all(_holds(t.values, genome[t.name]) for t in variant.tunables) and variant.valid(genome, around)

    def render(self, genome: Genome, around: Surroundings) -> Rendered:
        """Source and launch data of a valid genome. Raises ValueError for an invalid one."""
        if not self.is_valid(genome, around):
            raise ValueError(f"not a valid genome of {self.workload}/{self.language} here: {genome}")
        return self.variants[str(genome[VARIANT])].render(genome, around)

    def _variants(self, limits: SpaceLimits) -> tuple[Variant, ...]:
        allowed = _allowed(VARIANT, tuple(self.variants), limits)
        return tuple(self.variants[str(name)] for name in allowed)

    def _steps(self, genome: Genome, limits: SpaceLimits) -> Iterator[tuple[Variant, Genome, str]]:
        """(variant, wanted genes, the tunable that must have its wanted value)."""
        home = self.variants[str(genome[VARIANT])]
        if home in self._variants(limits):
            for tunable in home.tunables:
                for value in _one_step(tunable, genome[tunable.name]):
                    yield home, genome | {tunable.name: value}, tunable.name
        for sibling in self._variants(limits):
            if sibling.name != home.name:
                yield sibling, genome, VARIANT


def _allowed(name: str, values: tuple[Gene, ...], limits: SpaceLimits) -> tuple[Gene, ...]:
    if name not in limits.include and name not in limits.exclude:
        return values
    included = limits.include.get(name, values)
    excluded = limits.exclude.get(name, ())
    return tuple(value for value in values if _holds(included, value) and not _holds(excluded, value))


def _choices(variant: Variant, limits: SpaceLimits) -> tuple[tuple[Gene, ...], ...]:
    return tuple(_allowed(t.name, t.values, limits) for t in variant.tunables)


def _holds(values: tuple[Gene, ...], value: Gene) -> bool:
    """Membership that tells True from 1."""
    return any(type(value) is type(one) and value == one for one in values)


def _completions(
    variant: Variant, choices: tuple[tuple[Gene, ...], ...], around: Surroundings, genome: Genome | None = None
) -> Iterator[Genome]:
    """Valid genomes in lexicographic order of `choices`, cut wherever a constraint is already broken."""
    genome = genome or {VARIANT: variant.name}
    depth = len(genome) - 1
    if depth == len(choices):
        if variant.valid(genome, around):
            yield dict(genome)
        return
    name = variant.tunables[depth].name
    for value in choices[depth]:
        longer = genome | {name: value}
        if variant.possible(longer, around):
            yield from _completions(variant, choices, around, longer)


def _one_step(tunable: Tunable, value: Gene) -> tuple[Gene, ...]:
    at = tunable.values.index(value)
    return tunable.values[max(at - 1, 0) : at] + tunable.values[at + 1 : at + 2]


def _nearest_first(tunable: Tunable, wanted: Genome, pinned: str, limits: SpaceLimits) -> tuple[Gene, ...]:
    """Allowed values of `tunable` by distance from the wanted one; the pinned tunable has no choice."""
    allowed = _allowed(tunable.name, tunable.values, limits)
    value = wanted.get(tunable.name)
    if value is None or not _holds(tunable.values, value):
        return allowed
    if tunable.name == pinned:
        return (value,) if _holds(allowed, value) else ()
    at = tunable.values.index(value)
    return tuple(sorted(allowed, key=lambda other: abs(tunable.values.index(other) - at)))


def _shuffled(values: tuple[Gene, ...], rng: np.random.Generator) -> tuple[Gene, ...]:
    return tuple(values[int(at)] for at in rng.permutation(len(values)))
