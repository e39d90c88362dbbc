"""The bound and the error class: what passes, what does not, and that NaN is never a wildcard."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.verify.checks import ALL_CHECKS
from kernel_lab.verify.compare import Within, against_bound, exactly
from kernel_lab.verify.draws import Draw, Prepared, derived_seed, distribution_named, prepare
from kernel_lab.verify.error_class import POOLED_OUTPUTS, POOLED_TRIALS, Pool, draws_needed
from kernel_lab.verify.finding import Finding
from kernel_lab.verify.rungs.timed_outputs import verify_timed_outputs
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Array
from schemas.enums import Reason, RungStatus
from schemas.verdict import RungResult

RMS_NORM, REDUCE_SUM = WORKLOADS["rms_norm"], WORKLOADS["reduce_sum"]
F32_MAX = np.finfo(np.float32).max


def drawn(workload: str = "rms_norm", seed: int = 3, distribution: str = "normal", **axes: int) -> Prepared:
    known = distribution_named(WORKLOADS[workload], distribution)
    assert known is not None
    return prepare(WORKLOADS[workload], known, Draw(distribution, axes or {"T": 4, "H": 65}, seed))


def told(values: list[float], want: list[float], bound: list[float]) -> Within | Finding:
    """What is said of outputs `values`, when the reference and bound are these."""
    due, allowed = {"y": np.array(want)}, {"y": np.array(bound)}
    workload = replace(REDUCE_SUM, reference=lambda *_: due, bound=lambda *_: allowed)
    prepared = Prepared(workload, Draw("normal", {"N": 1}, 0), {})
    return against_bound(prepared, {"y": np.array(values, np.float32)}, 1.0)


def reason(said: Within | Finding) -> Reason | None:
    return said.reason if isinstance(said, Finding) else None


def test_plain_f32_is_within_the_bound_and_the_worst_element_has_a_margin() -> None:
    said = against_bound(drawn(), drawn().index_order, 1.0)
    assert isinstance(said, Within)
    assert said.worst is not None
    assert said.worst.margin is not None
    assert 0.0 <= said.worst.margin <= 1.0


@given(st.integers(0, 4 * 65 - 1), st.sampled_from([1.01, 2.0, 1e6]))
def test_one_element_past_its_bound_is_found_where_it_is(at: int, times: float) -> None:
    prepared = drawn()
    index = np.unravel_index(at, (4, 65))
    got = prepared.reference["y"].copy()
    got[index] += times * prepared.bound["y"][index]
    said = against_bound(prepared, {"y": got}, 1.0)
    assert isinstance(said, Finding)
    assert said.reason is Reason.OUT_OF_BOUND
    assert said.worst is not None
    assert said.worst.index == index


def test_a_looser_goal_widens_the_bound() -> None:
    prepared = drawn()
    got = {"y": prepared.reference["y"] + 2.0 * prepared.bound["y"]}
    assert reason(against_bound(prepared, got, 1.0)) is Reason.OUT_OF_BOUND
    assert reason(against_bound(prepared, got, 2.5)) is None


@pytest.mark.parametrize(
    ("value", "want", "expected"),
    [
        (np.nan, 1.0, Reason.NON_FINITE),
        (np.inf, 1.0, Reason.NON_FINITE),
        (1.0, np.inf, Reason.NON_FINITE),
        (1.0, np.nan, Reason.NON_FINITE),
        (-np.inf, np.inf, Reason.NON_FINITE),
        (np.nan, np.inf, Reason.NON_FINITE),
        (np.inf, np.inf, None),
        (np.nan, np.nan, None),
        (np.inf, 1e39, None),
        (F32_MAX, 1e39, Reason.NON_FINITE),
    ],
)
def test_nan_and_infinity_are_due_exactly_where_the_reference_has_them(
    value: float, want: float, expected: Reason | None
) -> None:
    assert reason(told([value, 0.0], [want, 0.0], [1e-3, 1e-3])) is expected


def test_next_to_the_largest_float_rounding_decides() -> None:
    want, bound = float(F32_MAX), float(F32_MAX) * 1e-6
    assert reason(told([np.inf], [want], [bound])) is None
    assert reason(told([-np.inf], [want], [bound])) is Reason.NON_FINITE
    assert reason(told([np.nan], [want], [bound])) is Reason.NON_FINITE


def test_a_zero_bound_admits_only_the_exact_value() -> None:
    assert reason(told([1.0], [1.0], [0.0])) is None
    assert reason(told([1.0000001], [1.0], [0.0])) is Reason.OUT_OF_BOUND


def test_an_empty_output_has_no_worst_element() -> None:
    said = told([], [], [])
    assert isinstance(said, Within)
    assert said.worst is None


def test_the_exact_tier_compares_by_value() -> None:
    prepared = drawn("reduce_sum", distribution="integers", N=100)
    right = prepared.reference["y"].astype(np.float32)
    assert exactly(prepared, {"y": right}) is None
    assert exactly(prepared, {"y": -right * 0.0 + right}) is None
    for wrong in (right + 1, right * np.float32(np.nan)):
        finding = exactly(prepared, {"y": wrong})
        assert finding is not None
        assert finding.reason is Reason.NOT_EXACT


def test_minus_zero_is_zero_in_the_exact_tier() -> None:
    prepared = drawn("reduce_sum", distribution="integers", N=0)
    assert exactly(prepared, {"y": np.array([-0.0], np.float32)}) is None


def test_arithmetic_in_a_smaller_format_is_another_error_class() -> None:
    prepared = drawn(T=16, H=512)
    for bits, expected in ((0, None), (11, Reason.ERROR_CLASS)):
        pool = Pool()
        exact = prepared.reference["y"].astype(np.float32)
        pool.add(prepared, {"y": _rounded(exact, bits)})
        found = pool.verdict("normal", 1, 1.0)
        assert (found.reason if found else None) is expected


def test_too_few_outputs_are_luck_and_no_class() -> None:
    prepared = drawn(T=1, H=POOLED_OUTPUTS - 1)
    pool = Pool()
    pool.add(prepared, {"y": prepared.reference["y"].astype(np.float32) + 1})
    assert pool.verdict("normal", 1, 1.0) is None


def test_outputs_that_share_a_sum_are_one_trial_so_the_luck_of_plain_order_refuses_nobody() -> None:
    """Sixteen roundings off in the denominator, where plain index order happened to be right."""
    honest = np.float32(1 + 16 * 2.0**-24)
    pool = Pool()
    for row in range(POOLED_TRIALS):
        prepared = drawn("softmax", row, R=1, C=8192)
        lucky = {"y": prepared.reference["y"].astype(np.float32)}
        prepared.__dict__["index_order"] = lucky
        pool.add(prepared, {"y": lucky["y"] * honest})
        found = pool.verdict("normal", 1, 1.0)
        assert (found is not None) == (row + 1 == POOLED_TRIALS), "twelve such rows are no luck"


def test_draws_needed_for_a_class_count_outputs_and_what_errs_independently() -> None:
    assert draws_needed(WORKLOADS["softmax"], {"R": 1, "C": 8192}) == POOLED_TRIALS
    assert draws_needed(WORKLOADS["softmax"], {"R": 64, "C": 512}) == 1
    assert draws_needed(WORKLOADS["reduce_sum"], {"N": 8192}) == POOLED_OUTPUTS
    assert draws_needed(WORKLOADS["gemv"], {"B": 1, "N": 1000, "K": 10}) == 1


def test_timed_outputs_are_verified_or_become_a_counterexample_that_can_be_drawn_again() -> None:
    prepared = drawn(seed=77)
    right = {"y": prepared.reference["y"].astype(np.float32)}
    result = _timed(prepared, right)
    assert not isinstance(result, Finding)
    assert result.status is RungStatus.PASSED
    stale = {"y": drawn(seed=78).reference["y"].astype(np.float32)}
    finding = _timed(prepared, stale)
    assert isinstance(finding, Finding)
    kept = finding.counterexample
    assert kept is not None
    again = drawn(kept.workload, kept.seed, kept.distribution, **kept.axes)
    assert all(np.array_equal(again.inputs[name], given) for name, given in prepared.inputs.items())


def test_seeds_differ_by_draw_size_and_distribution_and_are_the_same_again() -> None:
    one = derived_seed(9, "normal", {"T": 1, "H": 2}, 0)
    assert one == derived_seed(9, "normal", {"H": 2, "T": 1}, 0)
    others = {
        derived_seed(8, "normal", {"T": 1, "H": 2}, 0),
        derived_seed(9, "large", {"T": 1, "H": 2}, 0),
        derived_seed(9, "normal", {"T": 1, "H": 3}, 0),
        derived_seed(9, "normal", {"T": 1, "H": 2}, 1),
    }
    assert len(others) == 4
    assert one not in others
    assert all(0 <= seed < 2**63 for seed in others)


def test_with_the_bound_switched_off_anything_finite_passes() -> None:
    prepared = drawn()
    wrong = {"y": prepared.reference["y"] + 1.0}
    assert reason(against_bound(prepared, wrong, 1.0, replace(ALL_CHECKS, bound=False))) is None


def _timed(prepared: Prepared, outputs: Mapping[str, Array]) -> RungResult | Finding:
    return verify_timed_outputs(
        RMS_NORM, prepared.draw.axes, prepared.inputs, outputs, distribution="normal", seed=prepared.draw.seed
    )


def _rounded(values: Array, bits: int) -> Array:
    raw = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((raw >> bits) << bits).astype(np.uint32).view(np.float32)
