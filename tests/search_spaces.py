"""Small design spaces, and briefs over them, for tests of strategies."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid5

from kernel_lab.spaces.installed import Spaces
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from schemas.enums import Language
from schemas.goal import Goal, SpaceLimits
from schemas.ids import NAMESPACE
from schemas.work import Genome
from services.evidence.brief import Brief
from services.evidence.search_history import ELITES_PER_ISLAND, Tried, cell_of, rank
from services.proposer.terrain import Terrain, terrain_for
from tests.search_story import MACHINE, WORKLOAD, goal, task


def _fits(genome: Genome, around: Surroundings) -> bool:
    """Wide vectors need unrolling, and threads are what the machine has."""
    assert isinstance(genome["threads"], int)
    wide_without_unroll = genome["vector_bits"] == 512 and genome["unroll"] == 1
    return not wide_without_unroll and genome["threads"] <= around.threads


def _render(genome: Genome, around: Surroundings) -> Rendered:
    del around
    assert isinstance(genome["threads"], int)
    return Rendered(f"void f(void) {{ /* */ int g = {sorted(genome.items())!r}; }}", (), genome["threads"])


def space_of(unrolls: int, extra: int = 1) -> Space:
    """Two variants over the same tunables; `unrolls` and `extra` set how many points there are."""
    tunables = (
        Tunable("vector_bits", (256, 512), "width"),
        Tunable("unroll", tuple(2**power for power in range(unrolls)), "unrolling"),
        Tunable("streaming", (False, True), "stores past the cache"),
        Tunable("threads", (1, 2, 4), "OpenMP threads"),
        Tunable("prefetch", tuple(range(extra)), "distance"),
    )
    variants = [Variant(name, name, tunables, _fits, _render) for name in ("one_pass", "two_pass")]
    return Space(WORKLOAD, Language.C, {variant.name: variant for variant in variants})


SMALL = space_of(unrolls=3)
"""40 valid points."""
LARGE = space_of(unrolls=6, extra=20)
"""1,760 valid points."""


def spaces(space: Space) -> Spaces:
    return {(WORKLOAD, Language.C): space}


def terrain(space: Space, limits: SpaceLimits | None = None) -> Terrain:
    found = terrain_for(task(), limits or SpaceLimits(), Language.C, spaces(space))
    assert found is not None
    return found


def brief(
    tried: Sequence[Tried] = (), of: Goal | None = None, known: frozenset[str] = frozenset(), **changes: Any
) -> Brief:
    """A brief in which `tried` were proposed and settled."""
    searched = of or goal()
    measured = sorted((one for one in tried if one.search_ratio is not None), key=rank)
    archive = {one.cell: one for one in reversed(measured)}
    stated: dict[str, Any] = {
        "goal_id": "g1",
        "goal": searched,
        "task": task(),
        "position": 10,
        "generation": 0,
        "seed": 7,
        "size": 16,
        "tried": tuple(tried),
        "known": known | {one.fingerprint for one in tried},
        "archive": archive,
        "elites": tuple(
            tuple(one for one in measured if one.island == island)[:ELITES_PER_ISLAND]
            for island in range(searched.search.islands)
        ),
        "best": measured[0] if measured else None,
        "credit": (),
        "warm": (),
        "stale_generations": 0,
    }
    return Brief(**(stated | changes))


def tried(place: Terrain, genome: Genome, ratio: float | None, island: int = 0, generation: int = 0) -> Tried:
    """`genome` as a settled candidate."""
    kernel = place.kernel(genome)
    return Tried(
        id=uuid5(NAMESPACE, kernel.fingerprint),
        position=1,
        generation=generation,
        island=island,
        strategy="latin_hypercube",
        language=Language.C,
        genome=genome,
        fingerprint=kernel.fingerprint,
        cell=cell_of(kernel),
        parents=(),
        settled=True,
        search_ratio=ratio,
        worth=ratio,
        worth_more=ratio is not None,
    )


__all__ = ["LARGE", "MACHINE", "SMALL", "brief", "space_of", "spaces", "terrain", "tried"]
