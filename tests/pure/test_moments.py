"""Where the log stood at a moment."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from services.evidence.memory_log import MemoryLog
from services.evidence.moments import position_at
from tests.fixtures.facts import BEGIN, incoming, story

HOUR = timedelta(hours=1)


async def log_recorded_at(*moments: timedelta) -> MemoryLog:
    """One fact recorded at each of `moments` after BEGIN."""
    clock = iter(BEGIN + moment for moment in moments)
    log = MemoryLog(clock=lambda: next(clock))
    for one in incoming(story("g", candidates=20)[: len(moments)]):
        await log.append([one])
    return log


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30).map(sorted), st.integers(-1, 21))
async def test_a_moment_is_the_last_position_recorded_by_then(hours: list[int], at: int) -> None:
    log = await log_recorded_at(*(HOUR * hour for hour in hours))
    assert await position_at(log, BEGIN + HOUR * at) == sum(hour <= at for hour in hours)


async def test_an_empty_log_was_always_at_position_0() -> None:
    assert await position_at(MemoryLog(), BEGIN) == 0
