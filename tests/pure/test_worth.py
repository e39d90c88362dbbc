"""What a search orders candidates by."""

import pytest

from schemas.enums import RatioKind, Verdict
from services.evidence.worth import worth_of
from tests.pure.floor import comparison


@pytest.mark.parametrize("worst", [0.99, 1.0, 1.3])
def test_who_loses_no_shape_by_more_than_the_noise_is_worth_its_ratio(worst: float) -> None:
    assert worth_of(comparison(1.25, worst=worst)) == 1.25


def test_what_a_shape_loses_beyond_the_noise_is_taken_off() -> None:
    assert worth_of(comparison(1.25, worst=0.792)) == pytest.approx(1.25 * 0.8)


def test_there_is_no_worth_without_a_number() -> None:
    """On a machine that is not calibrated every difference is within the noise: δ is 1."""
    nothing = comparison(None, RatioKind.SEARCH, Verdict.UNFIT)
    assert worth_of(nothing.model_copy(update={"delta": 1.0})) is None
