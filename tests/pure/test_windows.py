"""The rule over windows: errors that are each small enough must not all be large."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.verify.checks import Checks
from kernel_lab.verify.compare import Within, against_bound
from kernel_lab.verify.draws import Draw, Prepared, distribution_named, prepare
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.kda import PEAK, RELATIVE
from kernel_lab.workloads.windows import over_windows, window_of, window_rms
from kernel_lab.workloads.workload import Buffer, Windows
from schemas.enums import Reason

KDA = WORKLOADS["kda_decode"]
AXES = {"B": 3, "H": 2, "K": 20, "V": 31}


def drawn(distribution: str = "normal") -> Prepared:
    known = distribution_named(KDA, distribution)
    assert known is not None
    return prepare(KDA, known, Draw(distribution, dict(AXES), 5))


def exact(prepared: Prepared) -> dict[str, np.ndarray]:
    return {name: want.copy() for name, want in prepared.reference.items()}


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**32))
def test_window_rms_is_the_rms_of_each_block(rows: int, columns: int, tall: int, wide: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((rows + 1, columns + 1))
    extents = (tall, wide)
    found = window_rms(values, extents)
    for at in np.ndindex(*found.shape):
        block = values[window_of(at, extents, values.shape)]
        assert found[at] == pytest.approx(np.sqrt(np.mean(block**2)))
        assert np.all(over_windows(found, extents, values.shape)[window_of(at, extents, values.shape)] == found[at])


def test_squares_that_would_overflow_or_vanish_still_have_a_root() -> None:
    for magnitude in (1e300, 1e-300):
        assert window_rms(np.full((4, 4), magnitude), (2, 4))[0, 0] == pytest.approx(magnitude, rel=1e-12)
    assert window_rms(np.zeros((2, 2)), (1, 2)).tolist() == [[0.0], [0.0]]


def test_a_window_is_whole_along_axes_that_are_not_named_and_never_longer_than_its_axis() -> None:
    windows = Windows({"B": 1, "T": 64, "H": 1}, 8.0)
    buffer = Buffer("o", ("B", "T", "H", "V"))
    assert windows.extents(buffer, {"B": 2, "T": 100, "H": 3, "V": 7}) == (1, 64, 1, 7)
    assert windows.extents(buffer, {"B": 0, "T": 10, "H": 3, "V": 7}) == (1, 10, 1, 7)


@pytest.mark.parametrize("output", ["o", "s"])
def test_errors_that_are_all_just_inside_their_own_bound_are_past_that_of_their_window(output: str) -> None:
    prepared = drawn()
    got = exact(prepared)
    got[output][1] += 0.5 * prepared.bound[output][1]
    said = against_bound(prepared, got, 1.0)
    assert isinstance(said, Finding)
    assert said.reason is Reason.OUT_OF_BOUND
    assert f"RMS error of {output}[1:2, " in said.message
    assert said.worst is not None
    assert said.worst.margin == pytest.approx(0.5 * PEAK)
    assert isinstance(against_bound(prepared, got, 0.51 * PEAK), Within)
    assert isinstance(against_bound(prepared, got, 1.0, Checks(windows=False)), Within)


def test_one_error_of_that_size_is_allowed_and_one_past_its_own_bound_is_not() -> None:
    prepared = drawn()
    got = exact(prepared)
    got["s"][0, 0, 3, 4] += 0.99 * prepared.bound["s"][0, 0, 3, 4]
    assert isinstance(against_bound(prepared, got, 1.0), Within)
    got["s"][0, 0, 3, 4] += 0.02 * prepared.bound["s"][0, 0, 3, 4]
    assert isinstance(against_bound(prepared, got, 1.0), Finding)


@pytest.mark.parametrize("distribution", [d.name for d in KDA.distributions if d.name not in ("signed_zero", "offset")])
def test_the_bound_of_kda_is_a_hundred_thousandth_of_the_heads_rms(distribution: str) -> None:
    prepared = drawn(distribution)
    rms = window_rms(prepared.reference["s"], (1, 1, 20, 31))
    allowed = window_rms(prepared.bound["s"], (1, 1, 20, 31)) / PEAK
    tight = 1.01 if distribution != "subnormal" else 10.0
    assert np.all(allowed >= RELATIVE * rms * 0.999)
    assert np.all(allowed <= tight * RELATIVE * rms)
