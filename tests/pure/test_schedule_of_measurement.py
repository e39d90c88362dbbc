"""The schedule interleaves, randomises and renews, and is decided by its generator alone."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.measure.schedule import (
    HOPELESS_FROM,
    ROTATION_CAP_BYTES,
    plan_pair,
    rotation,
    thread_counts,
    worth_timing,
)
from schemas.enums import Regime

seeds = st.integers(min_value=0, max_value=2**32)


@given(seeds, st.integers(1, 5), st.integers(1, 8))
def test_a_pair_has_every_quad_of_every_shape_and_one_is_verified(seed: int, shapes: int, quads: int) -> None:
    plan = plan_pair(np.random.default_rng(seed), shapes, quads)
    assert Counter(q.shape for q in plan) == dict.fromkeys(range(shapes), quads)
    assert sum(q.verified_sample is not None for q in plan) == 1
    assert plan == plan_pair(np.random.default_rng(seed), shapes, quads)


@given(seeds)
def test_every_quad_is_abba(seed: int) -> None:
    for quad in plan_pair(np.random.default_rng(seed), 2, 6):
        assert quad.order[0] == quad.order[3] == quad.first
        assert quad.order[1] == quad.order[2] != quad.first


def test_the_first_arm_and_the_renewal_of_data_are_both_mixed() -> None:
    rng = np.random.default_rng(5)
    plans = [quad for _ in range(50) for quad in plan_pair(rng, 1, 6)]
    assert 0.35 < sum(q.first == "candidate" for q in plans) / len(plans) < 0.65
    assert {q.refresh for q in plans} == {"same_pointers", "new_pointers"}
    assert {q.verified_sample for q in plans} == {None, 0, 1}


def test_a_cold_sample_rotates_past_twice_the_cache() -> None:
    assert rotation(10 << 20, 15 << 20, 32 << 20, Regime.COLD) == 8
    assert rotation(65 << 20, 97 << 20, 32 << 20, Regime.COLD) == 1
    assert rotation(10 << 20, 15 << 20, 32 << 20, Regime.HOT) == 1
    assert rotation(0, 0, 32 << 20, Regime.COLD) >= 1


@given(st.integers(1, 2**31), st.integers(1, 2**31))
def test_a_rotation_stays_under_its_cap(set_bytes: int, llc_bytes: int) -> None:
    pairs = rotation(set_bytes, 2 * set_bytes, llc_bytes, Regime.COLD)
    assert pairs == 1 or pairs * 2 * set_bytes <= ROTATION_CAP_BYTES


def test_thread_counts_end_with_the_quota() -> None:
    assert thread_counts(1) == (1,)
    assert thread_counts(2) == (1, 2)
    assert thread_counts(6) == (1, 2, 4, 6)


def test_whatever_may_be_the_fastest_is_timed_again_and_one_disturbed_sample_loses_nobody() -> None:
    slow = HOPELESS_FROM * 1.1
    taken = {"best": [1.0, 9.0, 1.1], "close": [2.9, 2.9], "disturbed": [99.0], "hopeless": [slow, slow], "new": []}
    assert worth_timing(taken) == ("best", "close", "disturbed", "new")
    assert worth_timing({"once": [slow, 1.2], "best": [1.0, 1.0]}) == ("once", "best")
    assert worth_timing({"a": [], "b": []}) == ("a", "b")
    assert worth_timing({}) == ()
