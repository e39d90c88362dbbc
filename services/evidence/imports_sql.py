"""What the log sends to take in copies of other logs, and to read them as they stood there."""

from typing import Any

from services.evidence.postgres_sql import ROW_TYPES, Where

KNOWN_HERE = """
SELECT origin_position, hash FROM imported WHERE origin = $1 AND origin_position = ANY($2::bigint[])
"""
INSERT_IMPORTED = """
INSERT INTO imported (position, origin, origin_position, recorded_at, previous, hash)
SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::timestamptz[], $5::bytea[], $6::bytea[])
"""
INSERT_IMPORT = """
INSERT INTO imports (origin, head_position, head_hash, epoch, stream_seq, imported_at)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING
"""
IMPORT_AT = "SELECT head_hash FROM imports WHERE origin = $1 AND head_position = $2"
INSERT_DUPLICATE = """
INSERT INTO imported_duplicates (origin, epoch, stream_seq, event_id, body_sha256, kind)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING
"""
IMPORTS = """
WITH ends AS (
    SELECT origin, head_position AS position, epoch, stream_seq, head_hash AS hash, true AS finished FROM imports
    UNION ALL (
        SELECT DISTINCT ON (i.origin) i.origin, i.origin_position, e.epoch, e.stream_seq, i.hash, false
        FROM imported i JOIN events e ON e.position = i.position ORDER BY i.origin, i.origin_position DESC
    )
)
SELECT DISTINCT ON (origin) origin, position, epoch, stream_seq, hash,
       NOT finished OR position > (SELECT count(*) FROM imported WHERE imported.origin = ends.origin) AS partial
FROM ends ORDER BY origin, position DESC, finished DESC
"""
"""Where each other log ended when it was last exported; while its first import goes on, or was cut short, the last row
that is here."""
DUPLICATES = """
SELECT epoch, stream_seq, event_id, body_sha256, kind FROM imported_duplicates WHERE origin = $1
ORDER BY epoch, stream_seq
"""
GET = """
SELECT i.origin_position AS position, e.raw, i.recorded_at
FROM events e JOIN imported i ON i.position = e.position WHERE e.origin = $1 AND e.event_id = $2
"""
CENSUS = """
SELECT e.type, count(*) FROM imported i JOIN events e ON e.position = i.position
WHERE i.origin = $1 AND ($2::bigint IS NULL OR i.origin_position <= $2) GROUP BY e.type
"""
THERE = {"position": "i.origin_position", "recorded_at": "i.recorded_at", "hash": "i.hash"}
"""What a row was in the other log; every other column is the same here and there."""
COLUMNS = ", ".join(f"{THERE.get(name, f'e.{name}')} AS {name}" for name in ROW_TYPES) + ", i.previous AS previous"


def page(origin: str, where: Where, after: int, limit: int) -> tuple[str, list[Any]]:
    """The next `limit` rows of `origin` past its position `after`."""
    conditions, arguments = ["i.origin = $1", "i.origin_position > $2"], [origin, after]
    wanted: tuple[tuple[str, Any], ...] = (
        ("i.origin_position <= ", where.upto),
        ("e.goal_id = ", where.goal_id),
        ("e.type = ANY", list(where.types) or None),
    )
    for condition, value in wanted:
        if value is not None:
            arguments.append(value)
            conditions.append(f"{condition}(${len(arguments)})")
    if where.facts_only:
        conditions.append("e.event_id IS NOT NULL")
    arguments.append(limit)
    query = (
        f"SELECT {COLUMNS} FROM imported i JOIN events e ON e.position = i.position "  # noqa: S608  constant text only
        f"WHERE {' AND '.join(conditions)} ORDER BY i.origin_position LIMIT ${len(arguments)}"
    )
    return query, arguments
