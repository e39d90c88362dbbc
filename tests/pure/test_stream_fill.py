"""How full a stream is, and for how many days there is room."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.console.commands.factory import stream_text
from services.runtime.bus import FULL, StreamState

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def state(size: int = 100, days: float = 10.0) -> StreamState:
    return StreamState(5, size, 1000, 1, 5, "epoch", NOW - timedelta(days=days))


def test_days_left_are_the_room_up_to_full_over_the_pace_so_far() -> None:
    assert state(size=100, days=10).days_left(NOW) == pytest.approx((FULL * 1000 - 100) / 10)


def test_a_stream_past_full_has_no_days_left() -> None:
    assert state(size=900).days_left(NOW) == 0.0


@pytest.mark.parametrize(
    "unknown",
    [state(days=0.01), state(size=0), replace(state(), max_bytes=-1), replace(state(), first_at=None)],
    ids=["young", "empty", "unlimited", "not told"],
)
def test_days_left_are_unknown_rather_than_guessed(unknown: StreamState) -> None:
    assert unknown.days_left(NOW) is None


def said(fill: float, days: float | None) -> str:
    return stream_text({"facts": 7, "bytes": 1e6, "fill": fill, "full_at": FULL, "days_left": days})


def test_a_person_is_told_the_days_the_doubt_or_the_refusal() -> None:
    assert "10.00 % full; 12 days left until 80 %" in said(0.1, 12.3)
    assert "unknown" in said(0.1, None)
    assert "new goals are refused" in said(0.8, 0.0)
