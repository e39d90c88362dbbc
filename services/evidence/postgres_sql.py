"""Every statement the log sends, and the order of its columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.evidence.log import Row

HEAD = "SELECT origin, position, epoch, stream_seq, hash FROM head WHERE id = 1"
HEAD_POSITION = "SELECT position FROM head WHERE id = 1"
LOCK_HEAD = f"{HEAD} FOR UPDATE"
ADVANCE_HEAD = "UPDATE head SET position = $1, epoch = $2, stream_seq = $3, hash = $4 WHERE id = 1"
KNOWN = "SELECT event_id, raw FROM events WHERE origin = (SELECT origin FROM head) AND event_id = ANY($1::uuid[])"
GET = "SELECT position, raw, recorded_at FROM events WHERE origin = (SELECT origin FROM head) AND event_id = $1"
CENSUS = """
SELECT type, count(*) AS count FROM events
WHERE origin = (SELECT origin FROM head) AND ($1::bigint IS NULL OR position <= $1) GROUP BY type
"""
DUPLICATES = "SELECT epoch, stream_seq, event_id, body_sha256, kind FROM duplicates ORDER BY epoch, stream_seq"
INSERT_DUPLICATE = "INSERT INTO duplicates (epoch, stream_seq, event_id, body_sha256, kind) VALUES ($1, $2, $3, $4, $5)"

ROW_TYPES = {
    "position": "bigint",
    "origin": "uuid",
    "epoch": "text",
    "stream_seq": "bigint",
    "event_id": "uuid",
    "type": "text",
    "subject": "text",
    "source": "text",
    "goal_id": "text",
    "candidate_id": "uuid",
    "generation": "bigint",
    "island": "bigint",
    "correlation_id": "uuid",
    "causation_id": "uuid",
    "occurred_at": "timestamptz",
    "recorded_at": "timestamptz",
    "raw": "bytea",
    "data": "jsonb",
    "hash": "bytea",
}
FACT_COLUMNS = "position, raw, recorded_at"
ROW_COLUMNS = ", ".join(ROW_TYPES)
LINK_COLUMNS = "position, origin, epoch, stream_seq, recorded_at, raw, hash, subject"
"""What a row's hash is over (chain.py), and its subject; the other columns are not read."""
INSERT = (
    f"INSERT INTO events ({ROW_COLUMNS}) SELECT * FROM unnest("  # noqa: S608  constant text only
    + ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(ROW_TYPES.values(), start=1))
    + ")"
)


def columns_of(rows: Sequence[Row]) -> list[list[Any]]:
    """The arrays that INSERT takes."""
    return [[getattr(row, name) for row in rows] for name in ROW_TYPES]


@dataclass(frozen=True)
class Where:
    """Which rows a reader wants."""

    upto: int | None = None
    goal_id: str | None = None
    types: tuple[str, ...] = ()
    facts_only: bool = False
    """Only parsed facts of this log's own: a fold of what was imported as well would mix two factories."""


def page(columns: str, where: Where, after: int, limit: int) -> tuple[str, list[Any]]:
    """The next `limit` rows past `after`. Only the conditions asked for, so that each gets its own index."""
    conditions, arguments = ["position > $1"], [after]
    wanted: tuple[tuple[str, Any], ...] = (
        ("position <= ", where.upto),
        ("goal_id = ", where.goal_id),
        ("type = ANY", list(where.types) or None),
    )
    for condition, value in wanted:
        if value is not None:
            arguments.append(value)
            conditions.append(f"{condition}(${len(arguments)})")
    if where.facts_only:
        conditions.append("event_id IS NOT NULL AND origin = (SELECT origin FROM head)")
    arguments.append(limit)
    query = (
        f"SELECT {columns} FROM events WHERE {' AND '.join(conditions)} "  # noqa: S608  constant text only
        f"ORDER BY position LIMIT ${len(arguments)}"
    )
    return query, arguments
