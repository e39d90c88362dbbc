"""Between times and positions: where the log stood at a moment."""

from datetime import datetime

from services.evidence.log import Log


async def position_at(log: Log, moment: datetime) -> int:
    """The last position recorded at or before `moment`; 0 before the first.

    Found by halving, some twenty rows of a million, since the one recorder stamps its batches in order. Where its clock
    was set back, this is one of the places between a row at or before `moment` and a row after it.
    """
    low, high = 0, (await log.head()).position
    while low < high:
        middle = (low + high + 1) // 2
        if await recorded_at(log, middle) <= moment:
            low = middle
        else:
            high = middle - 1
    return low


async def recorded_at(log: Log, position: int) -> datetime:
    """When the row at `position` was recorded. Raises LookupError when it is not there."""
    async for row in log.rows(position - 1, position):
        return row.recorded_at
    raise LookupError(f"the log has no row {position}")
