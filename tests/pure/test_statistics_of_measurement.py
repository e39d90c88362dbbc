"""Verdicts are right about as often as they say, and never forced."""

import math
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.measure import statistics as s
from schemas.enums import Verdict
from schemas.measurement import Interval, Pair, Quad

QUIET = s.Noise(values=tuple([0.004, -0.004] * 15))
"""A machine with a noise floor of 0.4 %."""
times = st.floats(min_value=1.0, max_value=1e9)


def quad(ratio: float, shape: int = 0, dropped: str | None = None) -> Quad:
    return Quad(
        shape=shape, first="candidate", candidate_ns=(100.0, 100.0), baseline_ns=(100 * ratio,) * 2, dropped=dropped
    )


def pair(*ratios: float) -> Pair:
    return Pair(quads=tuple(quad(r) for r in ratios))


def pairs_with_noise(rng: np.random.Generator, gap: float, sigma: float, n: int) -> list[s.PairValue]:
    quads = gap + sigma * rng.standard_normal((n, s.QUADS_PER_PAIR))
    return [s.PairValue(float(m), (float(m),)) for m in np.median(quads, axis=1)]


def run_to_verdict(rng: np.random.Generator, gap: float) -> Verdict:
    """One comparison at 2 % quad noise, looked at 5, 8 and 16 pairs."""
    noise = s.Noise(tuple(v.overall for v in pairs_with_noise(rng, 0.0, 0.02, s.NOISE_PAIRS)))
    values = pairs_with_noise(rng, gap, 0.02, s.LOOKS[-1])
    verdict = Verdict.INCONCLUSIVE
    for look in s.LOOKS:
        verdict = s.conclude_values(values[:look], noise, s.level_per_look()).verdict
        if s.is_decided(verdict):
            break
    return verdict


def test_equal_kernels_at_two_percent_noise_are_called_different_at_most_once_in_a_hundred() -> None:
    rng = np.random.default_rng(1)
    verdicts = [run_to_verdict(rng, 0.0) for _ in range(600)]
    assert sum(v in (Verdict.FASTER, Verdict.SLOWER) for v in verdicts) <= 6


def test_a_true_five_percent_gap_is_found_within_sixteen_pairs() -> None:
    rng = np.random.default_rng(2)
    assert {run_to_verdict(rng, math.log(1.05)) for _ in range(200)} == {Verdict.FASTER}
    assert {run_to_verdict(rng, -math.log(1.05)) for _ in range(200)} == {Verdict.SLOWER}


@given(times, times, times, times)
def test_swapping_the_arms_negates_a_quad(c1: float, c2: float, b1: float, b2: float) -> None:
    one = Quad(shape=0, first="candidate", candidate_ns=(c1, c2), baseline_ns=(b1, b2))
    other = Quad(shape=0, first="candidate", candidate_ns=(b1, b2), baseline_ns=(c1, c2))
    assert s.quad_log_ratio(one) == pytest.approx(-s.quad_log_ratio(other), abs=1e-9)


@given(times, st.floats(min_value=-0.2, max_value=0.2))
def test_a_steady_drift_cancels_inside_a_quad(base: float, drift: float) -> None:
    a, b, c, d = (base * math.exp(drift * i) for i in range(4))
    abba = Quad(shape=0, first="candidate", candidate_ns=(a, d), baseline_ns=(b, c))
    assert s.quad_log_ratio(abba) == pytest.approx(0.0, abs=1e-9)


@given(st.lists(st.floats(min_value=-1, max_value=1), min_size=2, max_size=16))
def test_an_interval_holds_its_estimate_and_mirrors(values: list[float]) -> None:
    up = s.interval_over_pairs(values, 0.99)
    down = s.interval_over_pairs([-v for v in values], 0.99)
    assert up.low <= up.estimate * (1 + 1e-12)
    assert up.estimate <= up.high * (1 + 1e-12)
    assert down.estimate == pytest.approx(1 / up.estimate)


@given(
    st.floats(min_value=0.2, max_value=5), st.floats(min_value=0, max_value=2), st.floats(min_value=0.01, max_value=0.1)
)
def test_the_verdict_of_the_reciprocal_is_mirrored(estimate: float, width: float, delta: float) -> None:
    up = Interval(estimate=estimate, low=estimate / (1 + width), high=estimate * (1 + width), level=0.99)
    down = Interval(estimate=1 / estimate, low=1 / up.high, high=1 / up.low, level=0.99)
    mirror = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    verdict = s.verdict_of(up, (), delta)
    near_an_edge = any(
        abs(x - edge) < 1e-9 for x in (up.low, up.high, estimate) for edge in (1, 1 + delta, 1 / (1 + delta))
    )
    assert near_an_edge or s.verdict_of(down, (), delta) == mirror.get(verdict, verdict)


def test_an_estimate_inside_delta_is_not_faster_even_when_its_interval_clears_one() -> None:
    assert s.verdict_of(Interval(estimate=1.015, low=1.01, high=1.02, level=0.99), (), 0.03) is Verdict.EQUIVALENT
    assert s.verdict_of(Interval(estimate=1.04, low=1.01, high=1.07, level=0.99), (), 0.03) is Verdict.FASTER


def test_a_lower_bound_inside_delta_does_not_forbid_faster() -> None:
    assert s.verdict_of(Interval(estimate=1.05, low=1.001, high=1.1, level=0.99), (), 0.03) is Verdict.FASTER


def test_one_slow_shape_forbids_faster_and_is_named() -> None:
    interval = Interval(estimate=1.2, low=1.15, high=1.25, level=0.99)
    conclusion = s.concluded(interval, (1.5, 0.95), noise_floor=0.005)
    assert conclusion.verdict is Verdict.INCONCLUSIVE
    assert "shape 1" in conclusion.note
    assert s.concluded(interval, (1.5, 0.995), noise_floor=0.005).verdict is Verdict.FASTER


def test_a_pair_is_the_weighted_mean_over_shapes_of_the_median_over_quads() -> None:
    taken = Pair(quads=(quad(1.1), quad(1.2), quad(9.0), quad(2.0, shape=1)))
    value = s.pair_value(taken, (3.0, 1.0))
    assert value is not None
    assert value.overall == pytest.approx((3 * math.log(1.2) + math.log(2.0)) / 4)


def test_a_dropped_quad_does_not_count_and_too_many_make_it_invalid() -> None:
    kept, lost = quad(1.1), quad(50.0, dropped="run delay")
    mostly = [Pair(quads=(kept, kept, kept, lost))] * 5
    assert s.conclude(mostly, (1.0,), QUIET, 0.99).verdict is Verdict.FASTER
    half = [Pair(quads=(kept, lost))] * 5
    conclusion = s.conclude(half, (1.0,), QUIET, 0.99)
    assert (conclusion.verdict, conclusion.interval) == (Verdict.INVALID, None)


def test_a_noisy_or_uncalibrated_machine_gives_no_number() -> None:
    noisy = s.Noise(values=(0.2,) * 30)
    for noise in (noisy, s.Noise(values=(0.001,) * 29)):
        conclusion = s.conclude([pair(1.5)] * 5, (1.0,), noise, 0.99)
        assert (conclusion.verdict, conclusion.interval) == (Verdict.UNFIT, None)
        assert s.conclude_one(pair(1.5), (1.0,), noise, 0.99).interval is None


def test_the_noise_floor_is_p90_of_the_latest_pairs() -> None:
    old = s.Noise().grown([0.5] * s.NOISE_WINDOW)
    assert old.floor == pytest.approx(0.5)
    assert old.grown([0.01] * s.NOISE_WINDOW).floor == pytest.approx(0.01)
    assert s.Noise(tuple(i / 1000 for i in range(31))).floor == pytest.approx(0.027)


def test_delta_is_never_below_one_percent_nor_below_the_noise() -> None:
    assert s.delta_of(0.001) == s.SMALLEST_DELTA
    assert s.delta_of(0.04) == 0.04


def equal(rng: np.random.Generator, quads: int) -> Pair:
    return Pair(quads=tuple(quad(math.exp(0.05 * rng.standard_normal())) for _ in range(quads)))


@pytest.mark.parametrize("quads", [2, s.QUADS_PER_PAIR])
def test_a_look_of_any_length_is_judged_by_the_spread_of_equal_kernels(quads: int) -> None:
    rng = np.random.default_rng(3)
    calls = 0
    for _ in range(500):
        values = (s.pair_value(equal(rng, s.QUADS_PER_PAIR), (1.0,)) for _ in range(60))
        noise = s.Noise(tuple(value.overall for value in values if value))
        one = equal(rng, quads)
        verdict = s.conclude_one(one, (1.0,), noise, s.level_per_look()).verdict
        calls += verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert calls <= 8
    assert s.conclude_one(pair(1.5), (1.0,), QUIET, s.level_per_look()).verdict is Verdict.FASTER


def test_a_race_shares_alpha_among_its_contestants() -> None:
    assert 1 - s.level_per_look(5) == pytest.approx(s.ALPHA / 15)
    assert s.level_per_look(1) < s.level_per_look(5)


def test_numbers_too_good_are_quarantined() -> None:
    assert s.quarantine_note(10.5, 100.0, None) is not None
    assert s.quarantine_note(2.0, 79.0, 100.0) is not None
    assert s.quarantine_note(2.0, 81.0, 100.0) is None
    assert s.quarantine_note(2.0, 1.0, None) is None


@pytest.mark.parametrize(
    ("pairs", "level", "quantile"), [(5, 0.95, 2.776445), (8, 0.99, 3.499483), (16, 0.99, 2.946713)]
)
def test_intervals_use_the_published_table_of_students_t(pairs: int, level: float, quantile: float) -> None:
    values = [0.01 * (-1) ** i for i in range(pairs)]
    half = quantile * stdev(values) / math.sqrt(pairs)
    interval = s.interval_over_pairs(values, level)
    assert math.log(interval.high / interval.low) / 2 == pytest.approx(half, rel=1e-6)
