"""What a design space is: variants of one operation in one language, each a parametrised source generator. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schemas.goal import SpaceLimits
from schemas.work import Gene, Genome


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


@dataclass(frozen=True)
class Variant:
    """One algorithm: differs from its siblings in passes or loop structure, not only in tunables."""

    name: str
    summary: str
    tunables: tuple[Tunable, ...]
    valid: Callable[[Genome, Surroundings], bool]
    """Constraint over a complete genome; cheap, total."""
    render: Callable[[Genome, Surroundings], Rendered]


@dataclass(frozen=True)
class Space:
    """Every variant of `workload` in `language`. A genome always holds the gene `variant`."""

    workload: str
    language: str
    variants: Mapping[str, Variant]

    def points(self, around: Surroundings, limits: SpaceLimits) -> tuple[Genome, ...]:
        """Every valid genome, in a fixed order (built by constraint propagation, not enumerate-and-filter)."""
        raise NotImplementedError

    def neighbours(self, genome: Genome, around: Surroundings, limits: SpaceLimits) -> tuple[Genome, ...]:
        """Every valid genome at radius 1: one tunable moved one step, or the same tunables under a sibling variant."""
        raise NotImplementedError

    def render(self, genome: Genome, around: Surroundings) -> Rendered:
        """Source and launch data of a valid genome. Raises ValueError for an invalid one."""
        raise NotImplementedError
