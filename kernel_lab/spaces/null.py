"""The null space: 20^5 genomes that render to a line of text, for load tests of everything around the physics."""

import json

from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from schemas.enums import Language
from schemas.work import Genome

_CHOICES = 20
_GENES = ("a", "b", "c", "d", "e")


def _valid(_genome: Genome, _around: Surroundings) -> bool:
    return True


def _render(genome: Genome, _around: Surroundings) -> Rendered:
    return Rendered(f"null kernel {json.dumps(genome, sort_keys=True)}", (), 1)


def null_space(workload: str) -> Space:
    """3.2 million points for any workload."""
    tunables = tuple(Tunable(name, tuple(range(_CHOICES)), "means nothing") for name in _GENES)
    variant = Variant("null", "No algorithm at all", tunables, _valid, _render)
    return Space(workload, Language.NULL.value, {variant.name: variant})
