"""The world as it was at a position of the log: folded from nothing, in memory, with no effect anywhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas.envelope import Recorded
from schemas.events import FACTS
from schemas.faults import Misconfigured
from schemas.upcasters import UPCASTERS
from services.evidence import routes_state
from services.evidence.log import Log
from services.evidence.moments import position_at, recorded_at
from services.evidence.routes_state import ROUTE_FACTS, RoutesState
from services.evidence.view_rows import MemoryViews

BATCH = 500
"""Facts folded between two words of progress. Chosen."""

Progress = Callable[[int, int], None]
"""Facts folded, and how many there are."""


@dataclass(frozen=True)
class World:
    """What was known at `position`, and not a fact more."""

    position: int
    recorded_at: datetime
    """Of the row at `position`."""
    hash: bytes
    views: MemoryViews
    routes: RoutesState
    unreadable: Mapping[str, int]
    """Rows that took no part, by type: no facts at all, or of a version that this Assay does not know."""


async def position_of(log: Log, wanted: int | datetime | None) -> int:
    """The position that `wanted` means; None means the end. Raises Misconfigured when the log does not reach there."""
    head = (await log.head()).position
    if head == 0:
        raise Misconfigured("the log is empty: there is nothing to replay yet")
    if wanted is None:
        return head
    if isinstance(wanted, datetime):
        found = await position_at(log, wanted)
        if found == 0:
            begins = await recorded_at(log, 1)
            raise Misconfigured(f"{wanted.isoformat()} is before the log's first fact, recorded {begins.isoformat()}")
        return found
    if not 1 <= wanted <= head:
        raise Misconfigured(f"position {wanted} is not in the log, which has positions 1 to {head}")
    return wanted


async def read_world(log: Log, position: int, progress: Progress) -> World:
    """The log up to exactly `position`, folded."""
    views, routes = MemoryViews(), RoutesState()
    batch: list[Recorded[Any]] = []
    async for recorded in log.read(0, position):
        if isinstance(recorded.fact, ROUTE_FACTS):
            routes = routes_state.evolve(routes, recorded)
        batch.append(recorded)
        if len(batch) == BATCH:
            views.apply(batch, recorded.position)
            progress(recorded.position, position)
            batch.clear()
    views.apply(batch, position)
    async for row in log.rows(position - 1, position):
        return World(position, row.recorded_at, row.hash, views, routes, await unreadable(log, position))
    raise LookupError(f"the log has no row {position}")


async def unreadable(log: Log, upto: int) -> Mapping[str, int]:
    """How many rows no fold sees, by type: a newer Assay wrote them, or they are no facts."""
    census = await log.census(upto)
    return {
        type_ or "no fact": count for type_, count in census.items() if type_ not in FACTS and type_ not in UPCASTERS
    }
