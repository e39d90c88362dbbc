"""Is a view what its log says? Rebuilt from nothing beside the live one, and compared row by row."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, assert_never

from services.evidence.log import Log
from services.evidence.past import Progress, read_world
from services.evidence.standings import leaderboard
from services.evidence.view_rows import MemoryViews, Row
from services.evidence.views import PostgresViews, Snapshot


class Projection(StrEnum):
    """What a person reads instead of facts."""

    GOALS = "goals"
    CANDIDATES = "candidates"
    LEADERBOARD = "leaderboard"
    """The one query, held against a fold that answers the same question."""


KEYS: Mapping[Projection, tuple[str, ...]] = {
    Projection.GOALS: ("goal_id",),
    Projection.CANDIDATES: ("candidate_id",),
    Projection.LEADERBOARD: ("goal_id", "candidate_id"),
}


@dataclass(frozen=True)
class Difference:
    """One value that the live view shows and the log does not say. `column` is None for a whole row."""

    row: str
    column: str | None
    live: Any
    rebuilt: Any


@dataclass(frozen=True)
class Checked:
    """What was compared, at one position."""

    projection: Projection
    position: int
    rows: int
    differences: tuple[Difference, ...]


async def check_projection(log: Log, views: PostgresViews, projection: Projection, progress: Progress) -> Checked:
    """`projection` as it is live, held against the log up to the position that the views have reached."""
    async with views.snapshot() as live:
        rebuilt = await _rebuilt(log, projection, live.position, progress)
        rows, differences = 0, list[Difference]()
        async for row in _live(live, projection):
            rows += 1
            key = _key(projection, row)
            differences += differing(key, row, rebuilt.pop(key, None))
        for key, missing in rebuilt.items():
            differences += differing(key, None, missing)
    return Checked(projection, live.position, rows, tuple(differences))


def differing(key: str, live: Row | None, rebuilt: Row | None) -> Iterator[Difference]:
    """Where the two rows differ; a row that only one side has is one difference."""
    if live is None or rebuilt is None:
        yield Difference(key, None, live, rebuilt)
        return
    for column in dict.fromkeys((*live, *rebuilt)):
        if live.get(column) != rebuilt.get(column):
            yield Difference(key, column, live.get(column), rebuilt.get(column))


def _live(snapshot: Snapshot, projection: Projection) -> AsyncIterator[Row]:
    match projection:
        case Projection.GOALS:
            return snapshot.goals()
        case Projection.CANDIDATES:
            return snapshot.candidates()
        case Projection.LEADERBOARD:
            return snapshot.leaderboard()
        case _:
            assert_never(projection)


async def _rebuilt(log: Log, projection: Projection, position: int, progress: Progress) -> dict[str, Row]:
    if projection is Projection.LEADERBOARD:
        standings = await leaderboard(log, upto=position)
        return _by_key(projection, (asdict(standing) for standing in standings))
    views = (await read_world(log, position, progress)).views if position else MemoryViews()
    return _by_key(projection, views.goals() if projection is Projection.GOALS else views.candidates())


def _by_key(projection: Projection, rows: Iterable[Row]) -> dict[str, Row]:
    return {_key(projection, row): row for row in rows}


def _key(projection: Projection, row: Row) -> str:
    return " ".join(str(row[name]) for name in KEYS[projection])
