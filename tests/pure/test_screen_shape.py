"""Which shape a screen looks at."""

from pathlib import Path

import pytest

from kernel_lab.measure.bench import Protocol, Racer
from kernel_lab.measure.pairs import Duel
from kernel_lab.measure.screen import on_one_shape, quads_of_round
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Regime
from schemas.goal import Shape


@pytest.mark.parametrize(
    ("weights", "seen"),
    [
        ({1: 1.0, 16: 1.0, 511: 1.0, 4096: 1.0}, 511),
        ({4096: 1.0, 16: 1.0}, 4096),
        ({16: 3.0, 511: 1.0, 4096: 1.0}, 16),
        ({7: 1.0}, 7),
    ],
    ids=["the middle of equals", "the larger of two", "the one that weighs most", "the only one"],
)
def test_a_screen_looks_at_the_shape_that_weighs_most_or_is_in_the_middle(weights: dict[int, float], seen: int) -> None:
    shapes = tuple(Shape(axes={"T": rows, "H": 64}, weight=weight) for rows, weight in weights.items())
    racers = tuple(Racer(f"best at {rows}", 1, Path("k.so"), "0" * 64) for rows in weights)
    narrow = on_one_shape(Duel(WORKLOADS["rms_norm"], shapes, racers[0], racers, Regime.COLD))
    assert [shape.axes["T"] for shape in narrow.shapes] == [seen]
    assert [racer.name for racer in narrow.baselines] == [f"best at {seen}"]


def test_a_screen_looks_at_a_shape_of_middling_intensity() -> None:
    """One row of gemm moves as many bytes as any, and is unlike the others: it waits for memory."""
    shapes = WORKLOADS["gemm"].shapes["serving"]
    racers = tuple(Racer(f"best at {shape.axes['M']}", 1, Path("k.so"), "0" * 64) for shape in shapes)
    narrow = on_one_shape(Duel(WORKLOADS["gemm"], shapes, racers[0], racers, Regime.COLD))
    assert [shape.axes["M"] for shape in narrow.shapes] == [127]


@pytest.mark.parametrize(
    ("round_", "shapes", "quads"),
    [(1, 1, 6), (1, 2, 3), (1, 4, 2), (2, 1, 6), (2, 4, 6)],
)
def test_a_first_longer_look_shares_its_quads_out_over_all_shapes(round_: int, shapes: int, quads: int) -> None:
    assert quads_of_round(Protocol(), round_, shapes) == quads
