"""What timed calls find in their outputs: never an answer that would do for their own inputs."""

from collections.abc import Iterator

import numpy as np
import pytest

from kernel_lab.measure.contents import LARGE_BYTES, Rotation, pair_bytes
from kernel_lab.measure.schedule import Refresh
from kernel_lab.runner.memory import MemfdArena, MemfdBuffers
from kernel_lab.workloads import WORKLOADS

AXES = {"rms_norm": {"T": 3, "H": 40}, "softmax": {"R": 1, "C": 50}, "reduce_sum": {"N": 64}}


@pytest.fixture
def arena() -> Iterator[MemfdArena]:
    made = MemfdArena(np.random.default_rng(1))
    yield made
    made.close()


def rotation(arena: MemfdArena, name: str, pairs: int, seed: int = 2) -> Rotation:
    return Rotation(arena, WORKLOADS[name], AXES[name], pairs, np.random.default_rng(seed))


def sets_of(data: Rotation) -> list[MemfdBuffers]:
    return [one for one in data.sets if isinstance(one, MemfdBuffers)]


def inputs_of(one: MemfdBuffers) -> dict[str, np.ndarray]:
    return {place.buffer.name: one.view(place.buffer.name) for place in one.places if place.is_input}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("pairs", [1, 2, 5])
@pytest.mark.parametrize("refresh", ["same_pointers", "new_pointers"])
def test_every_call_finds_the_answer_to_other_inputs(
    arena: MemfdArena, name: str, pairs: int, refresh: Refresh
) -> None:
    workload, data = WORKLOADS[name], rotation(arena, name, pairs)
    for _ in range(4):
        data.renew(refresh)
        lap = sets_of(data)
        assert len(lap) == 2 * pairs
        for one in (*lap, *lap):
            want = workload.index_order_f32(inputs_of(one), AXES[name], workload.scalars)
            for output, answer in want.items():
                found = one.output(output)
                assert not np.isclose(found, answer, rtol=1e-6, atol=0).all()
                one.view(output)[...] = answer
    data.close()


def test_the_answer_that_must_be_there_is_that_of_the_call_that_came_last(arena: MemfdArena) -> None:
    data = rotation(arena, "rms_norm", 3)
    lap, watched = sets_of(data), data.watch()
    for turn in range(2 * len(lap)):
        lap[turn % len(lap)].view("y")[...] = turn
        last = watched.last_called((turn + 1) % len(lap))
        if turn >= len(lap):
            called = max(t for t in range(turn + 1) if t % len(lap) in watched.places)
            assert last.buffers is lap[called % len(lap)]
            assert (last.buffers.output("y") == called).all()
    data.close()


@pytest.mark.parametrize("rows", [3, 2048])
def test_both_contents_are_independent_and_a_watched_pair_holds_what_its_seeds_draw(
    arena: MemfdArena, rows: int
) -> None:
    """Large pairs are drawn and filled by two threads, small ones by one."""
    workload, axes = WORKLOADS["rms_norm"], {"T": rows, "H": 1024}
    assert (pair_bytes(workload, axes) >= LARGE_BYTES) == (rows > 3)
    data = Rotation(arena, workload, axes, 2, np.random.default_rng(2))
    first, _, second, _ = ({row.tobytes() for row in inputs_of(one)["x"]} for one in sets_of(data))
    assert len(first) == len(second) == rows
    assert not first & second
    watched = data.watch().contents
    assert watched[0].seed != watched[1].seed
    by_name = {one.name: one for one in workload.distributions}
    for one in watched:
        assert isinstance(one.buffers, MemfdBuffers)
        again = by_name[one.distribution].draw(axes, np.random.Generator(np.random.PCG64(one.seed)))
        for name, found in inputs_of(one.buffers).items():
            np.testing.assert_array_equal(found, again[name])
    data.close()
