"""Taking in a copy of another log: under its own origin, through the same lock as the recorder, each row once."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from schemas.faults import Broken
from services.evidence import imports_sql as sql
from services.evidence import postgres_sql
from services.evidence.chain import GENESIS, link
from services.evidence.log import Head, LeftOut, Log, Row
from services.evidence.postgres_log import Connection, PostgresLog, insert_rows
from services.evidence.verify import Progress, unwatched

BATCH_ROWS = 500
"""As many as the recorder takes at once, so that neither waits long for the other."""


@dataclass(frozen=True)
class Copied:
    """A row of another log, and the hash that it follows there."""

    row: Row
    previous: bytes


@dataclass(frozen=True)
class TakenIn:
    """What an import did."""

    origin: str
    new: int
    known: int
    """Rows that were here already, exactly so."""
    own: bool = False
    """The copy is of this very log: nothing is imported, and every row agrees."""


async def take_in(log: PostgresLog, other: Log, now: datetime, progress: Progress = unwatched) -> TakenIn:
    """Every row of `other` is in `log`, under its own origin. Verify `other` first.

    A second import of the same changes nothing; one that was interrupted is gone on with. Raises Broken when `log`
    holds another history under that origin: then one of the two was rewritten.
    """
    origin, head = await other.origin(), await other.head()
    if origin == await log.origin():
        return await _compared(log, other, head)
    new = known = 0
    async for batch in _batches(other, head):
        added = await _take_batch(log, origin, batch, now)
        new, known = new + added, known + len(batch) - added
        progress(batch[-1].row.position, head.position)
    await _conclude(log, other, head, now)
    return TakenIn(origin, new, known)


async def _batches(other: Log, head: Head) -> AsyncIterator[list[Copied]]:
    """The rows of the other log's own origin, with their predecessors' hashes."""
    origin, previous, batch = await other.origin(), GENESIS, list[Copied]()
    async for one in other.walk(head.position):
        if isinstance(one, Row) and one.origin == origin:
            batch.append(Copied(one, previous))
        previous = one.hash
        if len(batch) == BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


async def _compared(log: PostgresLog, other: Log, head: Head) -> TakenIn:
    """`other` is a copy of `log`: every row of it is here. Raises Broken when one is not, or is another one."""
    same = 0
    async with aclosing(_links(log)) as here:
        async for one in other.walk(head.position):
            if isinstance(one, LeftOut):
                continue
            found = await _at(here, one.position)
            if found is None or found.hash != one.hash:
                raise Broken(f"position {one.position} of this log is not what the copy of it says: one was rewritten")
            same += 1
    return TakenIn(await log.origin(), 0, same, own=True)


async def _links(log: PostgresLog) -> AsyncGenerator[Row, None]:
    head = await log.head()
    async for one in log.walk(head.position, content=False):
        if isinstance(one, Row):
            yield one


async def _at(rows: AsyncGenerator[Row, None], position: int) -> Row | None:
    """The row at `position`, which lies past all that were read before; None when it is not there."""
    async for row in rows:
        if row.position >= position:
            return row if row.position == position else None
    return None


async def _take_batch(log: PostgresLog, origin: str, batch: Sequence[Copied], now: datetime) -> int:
    """Those rows of `batch` that were not here are here now. Returns how many."""
    async with log.appending() as (connection, head, _own):
        fresh = await _unknown(connection, origin, batch)
        if not fresh:
            return 0
        rows = _chained(head, fresh, now)
        await insert_rows(connection, rows)
        await connection.execute(sql.INSERT_IMPORTED, *_imported_columns(rows, fresh))
        last = rows[-1]
        await connection.execute(postgres_sql.ADVANCE_HEAD, last.position, head.epoch, head.stream_seq, last.hash)
        return len(rows)


async def _unknown(connection: Connection, origin: str, batch: Sequence[Copied]) -> list[Copied]:
    found = await connection.fetch(sql.KNOWN_HERE, UUID(origin), [one.row.position for one in batch])
    known = {record["origin_position"]: record["hash"] for record in found}
    for one in batch:
        if known.get(one.row.position, one.row.hash) != one.row.hash:
            raise Broken(
                f"position {one.row.position} of log {origin} was imported before with another hash: "
                "one of the two copies was rewritten"
            )
    return [one for one in batch if one.row.position not in known]


def _chained(head: Head, fresh: Sequence[Copied], now: datetime) -> tuple[Row, ...]:
    """`fresh` as rows of this log: recorded here now, chained to what stands here."""
    previous, rows = head.hash, []
    for position, copied in enumerate(fresh, start=head.position + 1):
        row = copied.row
        previous = link(previous, position, row.origin, row.epoch, row.stream_seq, now, row.raw)
        rows.append(replace(row, position=position, recorded_at=now, hash=previous))
    return tuple(rows)


def _imported_columns(rows: Sequence[Row], fresh: Sequence[Copied]) -> list[list[object]]:
    there = [one.row for one in fresh]
    return [
        [row.position for row in rows],
        [UUID(row.origin) for row in there],
        [row.position for row in there],
        [row.recorded_at for row in there],
        [one.previous for one in fresh],
        [row.hash for row in there],
    ]


async def _conclude(log: PostgresLog, other: Log, head: Head, now: datetime) -> None:
    """Where the other log ended, and its duplicates, are known here too."""
    origin = UUID(await other.origin())
    async with log.appending() as (connection, _head, _own):
        known = await connection.fetchval(sql.IMPORT_AT, origin, head.position)
        if known is not None and known != head.hash:
            raise Broken(f"log {origin} ended at {head.position} with another hash when it was imported before")
        await connection.execute(sql.INSERT_IMPORT, origin, head.position, head.hash, head.epoch, head.stream_seq, now)
        duplicates = [
            (origin, one.epoch, one.stream_seq, one.event_id, one.body_sha256, one.kind)
            for one in await other.duplicates()
        ]
        await connection.executemany(sql.INSERT_DUPLICATE, duplicates)
