"""The pieces of the bound."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.bounds import SUBNORMAL_SPACING, half_ulp, softmax_bound, sum_bound

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**120), max_value=2.0**120)


@given(FINITE)
def test_half_ulp_is_half_the_float32_spacing(value: float) -> None:
    spacing = float(np.spacing(np.abs(np.float32(value))))
    assert half_ulp(np.array([value]))[0] == spacing / 2


@given(st.floats(min_value=-1e30, max_value=1e30))
def test_rounding_to_float32_once_is_within_half_an_ulp(value: float) -> None:
    rounded = float(np.float32(value))
    assert abs(rounded - value) <= half_ulp(np.array([value]))[0]


def test_half_ulp_of_zero_is_half_a_subnormal_spacing() -> None:
    assert half_ulp(np.array([0.0]))[0] == SUBNORMAL_SPACING / 2


def test_a_sequential_sum_of_two_to_the_26_positives_breaks_the_bound() -> None:
    terms = 2**26
    exact = np.array([terms * 0.5])
    stagnated = 2.0**24  # where a float32 accumulator stops growing by terms below 1
    assert abs(stagnated - exact[0]) > sum_bound(exact, exact, terms)[0]


def test_an_exponential_flushed_to_zero_breaks_the_softmax_bound() -> None:
    exact = np.exp(np.array([-90.0]))
    assert exact[0] < 2.0**-126
    assert exact[0] > softmax_bound(exact, np.array([90.0]), 64)[0]


def test_a_norm_that_flushes_subnormal_results_breaks_its_bound() -> None:
    workload, axes = WORKLOADS["rms_norm"], {"T": 4, "H": 64}
    inputs = workload.distributions[5].draw(axes, np.random.default_rng(1))
    exact = workload.reference(inputs, axes, workload.scalars)
    bound = workload.bound(inputs, axes, workload.scalars, exact)
    flushed = np.where(np.abs(exact["y"]) < 2.0**-126, 0.0, exact["y"])
    assert workload.distributions[5].name == "subnormal"
    assert not np.all(np.abs(flushed - exact["y"]) <= bound["y"])


def test_an_online_softmax_in_float32_is_within_the_bound() -> None:
    workload, axes = WORKLOADS["softmax"], {"R": 8, "C": 300}
    for distribution in workload.distributions:
        inputs = distribution.draw(axes, np.random.default_rng(3))
        x = inputs["x"].astype(np.float32)
        top, total = np.full((8, 1), -np.inf, np.float32), np.zeros((8, 1), np.float32)
        for start in range(0, 300, 32):
            block = x[:, start : start + 32]
            higher = np.maximum(top, block.max(axis=1, keepdims=True))
            total = total * np.exp(top - higher) + np.exp(block - higher).sum(axis=1, keepdims=True)
            top = higher
        exact = workload.reference(inputs, axes, {})
        bound = workload.bound(inputs, axes, {}, exact)
        assert np.all(np.abs(np.exp(x - top) * (np.float32(1) / total) - exact["y"]) <= bound["y"]), distribution.name
