"""What every design space in the table must keep."""

import re
from pathlib import Path

import numpy as np
import pytest

from kernel_lab.spaces import SPACES
from kernel_lab.spaces.launch import Launch, parse_launch
from kernel_lab.spaces.space import Space, Surroundings
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Language
from schemas.goal import SpaceLimits
from schemas.work import MAX_SOURCE_BYTES

AROUND = Surroundings(vector_bits=512, threads=2, deterministic=False, forbid=())
ANYTHING = SpaceLimits()
TABLE = pytest.mark.parametrize("space", SPACES.values(), ids=lambda s: f"{s.workload}-{s.language}")
REAL = pytest.mark.parametrize(
    "space", [s for s in SPACES.values() if s.language != Language.NULL], ids=lambda s: f"{s.workload}-{s.language}"
)


@TABLE
def test_a_space_stands_under_its_workload_and_language(space: Space) -> None:
    assert SPACES[space.workload, space.language] is space
    assert space.workload in WORKLOADS
    assert space.language in {language.value for language in Language}


@TABLE
def test_a_genome_renders_to_the_same_bytes_each_time(space: Space) -> None:
    genome = space.sample(np.random.default_rng(1), AROUND, ANYTHING)
    assert genome is not None
    first, again = space.render(genome, AROUND), space.render(dict(genome), AROUND)
    assert first == again
    assert len(first.source.encode()) < MAX_SOURCE_BYTES


@TABLE
def test_sampling_is_deterministic_and_gives_valid_genomes(space: Space) -> None:
    first = [space.sample(rng, AROUND, ANYTHING) for rng in [np.random.default_rng(3)] for _ in range(20)]
    again = [space.sample(rng, AROUND, ANYTHING) for rng in [np.random.default_rng(3)] for _ in range(20)]
    assert first == again
    assert all(genome is not None and space.is_valid(genome, AROUND) for genome in first)
    assert len({str(genome) for genome in first}) > 10


@TABLE
def test_neighbours_are_valid_distinct_and_never_the_genome_itself(space: Space) -> None:
    genome = space.sample(np.random.default_rng(5), AROUND, ANYTHING)
    assert genome is not None
    near = space.neighbours(genome, AROUND, ANYTHING)
    assert near
    assert all(space.is_valid(other, AROUND) for other in near)
    assert genome not in near
    assert len({str(sorted(other.items())) for other in near}) == len(near)


@REAL
def test_a_space_has_two_variants_and_some_hundred_to_some_thousand_points(space: Space) -> None:
    assert len(space.variants) >= 2
    assert 300 <= space.count(AROUND, ANYTHING, 20_000) <= 8_000


@REAL
def test_the_documentation_says_where_each_variant_wins_or_that_it_never_did(space: Space) -> None:
    page = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert [name for name in space.variants if f"| {space.workload} | {name} | " not in page] == []


@REAL
def test_every_point_is_valid_and_renders_a_source_of_its_own(space: Space) -> None:
    points = space.points(AROUND, ANYTHING)
    assert all(space.is_valid(genome, AROUND) for genome in points)
    some = points[:: max(1, len(points) // 200)]
    sources = {space.render(genome, AROUND).source for genome in some}
    assert len(sources) == len(some)


@REAL
def test_the_first_line_of_a_source_carries_its_launch_data(space: Space) -> None:
    for seed in range(10):
        genome = space.sample(np.random.default_rng(seed), AROUND, ANYTHING)
        assert genome is not None
        rendered = space.render(genome, AROUND)
        assert parse_launch(rendered.source) == Launch(rendered.flags, rendered.threads)


@REAL
def test_streaming_stores_are_a_choice_wherever_memory_limits_and_much_is_written(space: Space) -> None:
    workload = WORKLOADS[space.workload]
    axes = workload.shapes["serving"][-1].axes
    limited_by_arithmetic = workload.flops(axes) > 20 * workload.bytes_moved(axes)
    if limited_by_arithmetic or workload.bytes_written(axes) < workload.bytes_read(axes) // 10:
        return
    sources = [space.render(genome, AROUND).source for genome in space.points(AROUND, ANYTHING)[::50]]
    streams = [re.search(r"(?<!void )\bstream\(", source) is not None for source in sources]
    assert set(streams) == {True, False}


@REAL
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_space_has_points_on_every_machine_and_stays_within_it(space: Space, bits: int, threads: int) -> None:
    around = Surroundings(bits, threads, deterministic=False, forbid=())
    for genome in space.points(around, ANYTHING)[::37]:
        assert int(genome["vector_bits"]) <= bits
        assert 1 <= space.render(genome, around).threads <= threads


@REAL
def test_a_deterministic_goal_gets_no_reduction_that_depends_on_threads(space: Space) -> None:
    around = Surroundings(512, 2, deterministic=True, forbid=())
    points = space.points(around, ANYTHING)
    assert points
    assert not any("reduction(" in space.render(genome, around).source for genome in points[::7])


@REAL
def test_forbidden_flags_are_not_used(space: Space) -> None:
    around = Surroundings(512, 2, deterministic=False, forbid=("-funroll-loops",))
    assert space.points(around, ANYTHING)
    assert not any("-funroll-loops" in space.render(g, around).flags for g in space.points(around, ANYTHING)[::7])


def test_the_null_space_is_sampled_without_being_enumerated() -> None:
    space = SPACES["rms_norm", Language.NULL.value]
    assert space.count(AROUND, ANYTHING, 1_000) == 1_000
    sizes = [len(tunable.values) for variant in space.variants.values() for tunable in variant.tunables]
    assert np.prod(sizes) >= 1_000_000
    drawn = {str(space.sample(np.random.default_rng(seed), AROUND, ANYTHING)) for seed in range(200)}
    assert len(drawn) == 200
