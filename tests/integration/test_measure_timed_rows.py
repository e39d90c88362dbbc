"""V8 looks at some rows only where rows are independent, and still sees what a cheat would leave out."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernel_lab.measure import timed_rows
from kernel_lab.measure.contents import Watched
from kernel_lab.measure.timed_rows import row_axis, verify_watched
from kernel_lab.runner.memory import MemfdArena
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Arrays
from schemas.enums import Reason

RMS_NORM = WORKLOADS["rms_norm"]
AXES = {"T": 2048, "H": 1024}
"""Twice as many elements as are compared."""


def watched() -> Watched:
    arena = MemfdArena(np.random.default_rng(1))
    inputs = RMS_NORM.distributions[0].draw(AXES, np.random.Generator(np.random.PCG64(5)))
    old = RMS_NORM.distributions[0].draw(AXES, np.random.Generator(np.random.PCG64(6)))
    buffers = arena.buffers(RMS_NORM, {"T": 1, "H": 1}, "natural")
    return Watched(buffers, inputs, RMS_NORM.distributions[0].name, 5, {"y": answer(old)})


def answer(inputs: Arrays) -> NDArray[np.float32]:
    return RMS_NORM.index_order_f32(inputs, AXES, RMS_NORM.scalars)["y"].astype(np.float32)


def right(made: Watched) -> NDArray[np.float32]:
    return answer(made.inputs)


def finding(made: Watched, y: NDArray[np.float32]) -> Reason | None:
    found = verify_watched(RMS_NORM, AXES, made, {"y": y}, np.random.default_rng(2), 1.0)
    return found.reason if found else None


def test_only_declared_rows_are_taken_apart() -> None:
    assert row_axis(RMS_NORM) == "T"
    assert row_axis(WORKLOADS["reduce_sum"]) is None


@pytest.mark.parametrize("name", [name for name, workload in WORKLOADS.items() if row_axis(workload)])
def test_rows_of_every_workload_are_taken_from_everything_that_has_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of several: what a serving shape is too large to be compared whole."""
    monkeypatch.setattr(timed_rows, "CHECKED_ELEMENTS", 1)
    workload, axes = WORKLOADS[name], dict(WORKLOADS[name].shapes["small"][-1].axes)
    inputs = workload.distributions[0].draw(axes, np.random.Generator(np.random.PCG64(5)))
    outputs = {
        one: np.asarray(y, np.float32) for one, y in workload.index_order_f32(inputs, axes, workload.scalars).items()
    }
    held = {one: np.full_like(y, np.nan) for one, y in outputs.items()}
    buffers = MemfdArena(np.random.default_rng(1)).buffers(workload, axes, "natural")
    made = Watched(buffers, inputs, workload.distributions[0].name, 5, held)
    assert verify_watched(workload, axes, made, outputs, np.random.default_rng(2), 1.0) is None
    wrong = {one: 2 * y + 1 for one, y in outputs.items()}
    assert verify_watched(workload, axes, made, wrong, np.random.default_rng(2), 1.0) is not None


def test_right_rows_pass() -> None:
    made = watched()
    assert finding(made, right(made)) is None


@pytest.mark.parametrize("left", [np.s_[777], np.s_[777, 5:], np.s_[777, 5]])
def test_what_was_left_alone_is_seen_wherever_it_is(left: tuple[slice, ...]) -> None:
    made = watched()
    y = right(made)
    y[left] = made.held["y"][left]
    assert finding(made, y) is Reason.OUT_OF_BOUND


@pytest.mark.parametrize("every", [1, 16])
def test_wrong_rows_are_found_and_the_finding_is_about_the_whole(every: int) -> None:
    made = watched()
    y = right(made)
    y[::every] *= np.float32(1.01)
    found = verify_watched(RMS_NORM, AXES, made, {"y": y}, np.random.default_rng(2), 1.0)
    assert found is not None
    assert found.reason is Reason.OUT_OF_BOUND
    assert found.counterexample is not None
    assert (found.counterexample.axes, found.counterexample.seed) == (AXES, 5)
