"""The log in Postgres, over asyncpg. SQL lives in `postgres_sql.py`, the schema in `infra/sql/`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from schemas.envelope import Recorded
from schemas.events import Fact
from schemas.faults import Misconfigured
from services.evidence import imports_sql
from services.evidence import postgres_sql as sql
from services.evidence.admission import Arrival, admit, advanced, chained, fresh, read, reopened
from services.evidence.log import Appended, Duplicate, Head, Import, Incoming, LeftOut, Row
from services.evidence.postgres_border import Unstorable, storing, translated
from services.evidence.rows import blanked, recorded
from services.evidence.stored_types import stored_types

SCHEMA_VERSION = 2
"""The newest step in `infra/sql/`; a test holds the two together."""
PAGE_ROWS = 1000
"""Chosen: a page of 4 KB facts is 4 MB."""
SLICE_ROWS = 64
"""Chosen: 64 facts fit the socket's buffer (212 kB), so Postgres has them all while the next slice is read."""
POOL_CONNECTIONS = 4
"""Chosen: one appends, the others read."""
CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 60.0
SERVER_SETTINGS = {"idle_in_transaction_session_timeout": "30s"}
"""Chosen: a recorder frozen inside an append gives the head's lock back."""

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

_Insert: TypeAlias = Callable[[Connection, tuple[Row, ...]], Coroutine[Any, Any, tuple[Row, ...]]]


class Role(StrEnum):
    """Who connects (infra/sql/roles.sql)."""

    RECORDER = "assay_recorder"
    READER = "assay_reader"


class PostgresLog:
    """The log in the database at `dsn`. Connects when first used, and again whenever Postgres comes back."""

    def __init__(
        self, dsn: str, role: Role | None = None, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._dsn = dsn
        self._role = role
        self._clock = clock
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    async def origin(self) -> str:
        async with self.connection("reading the origin") as connection:
            _head, origin = _head_and_origin(await connection.fetchrow(sql.HEAD))
            return origin

    async def head(self) -> Head:
        async with self.connection("reading the head") as connection:
            head, _origin = _head_and_origin(await connection.fetchrow(sql.HEAD))
            return head

    async def append(self, batch: Sequence[Incoming]) -> Appended:
        try:
            return await self._append(batch, _insert)
        except Unstorable:
            return await self._append(batch, _insert_each_alone)

    async def open_epoch(self, head: Head, epoch: str, stream_seq: int) -> Head:
        async with self.connection("opening an epoch") as connection, connection.transaction():
            found, _origin = _head_and_origin(await connection.fetchrow(sql.LOCK_HEAD))
            moved = reopened(found, head, epoch, stream_seq)
            await connection.execute(sql.ADVANCE_HEAD, moved.position, moved.epoch, moved.stream_seq, moved.hash)
            return moved

    async def read(
        self,
        after: int = 0,
        upto: int | None = None,
        goal_id: str | None = None,
        types: tuple[type[Fact], ...] = (),
    ) -> AsyncIterator[Recorded[Any]]:
        where = sql.Where(upto, goal_id, stored_types(types), facts_only=True)
        async for records in self._pages(sql.FACT_COLUMNS, where, after):
            for record in records:
                fact = recorded(record["position"], record["raw"], record["recorded_at"])
                if fact is not None:
                    yield fact

    async def rows(self, after: int = 0, upto: int | None = None) -> AsyncIterator[Row]:
        async for records in self._pages(sql.ROW_COLUMNS, sql.Where(upto), after):
            for record in records:
                yield row_of(record)

    async def walk(self, upto: int, *, content: bool = True) -> AsyncIterator[Row | LeftOut]:
        columns, made = (sql.ROW_COLUMNS, row_of) if content else (sql.LINK_COLUMNS, _link_of)
        async for records in self._pages(columns, sql.Where(upto), 0):
            for record in records:
                yield made(record)

    async def get(self, event_id: UUID) -> Recorded[Any] | None:
        async with self.connection("reading an event") as connection:
            found = await connection.fetchrow(sql.GET, event_id)
        return recorded(found["position"], found["raw"], found["recorded_at"]) if found else None

    async def position_of(self, event_id: UUID) -> int | None:
        async with self.connection("reading an event") as connection:
            position: int | None = await connection.fetchval(sql.GET, event_id, column=0)
            return position

    async def census(self, upto: int | None = None) -> Mapping[str | None, int]:
        async with self.connection("counting the log") as connection:
            return {record["type"]: record["count"] for record in await connection.fetch(sql.CENSUS, upto)}

    async def duplicates(self) -> tuple[Duplicate, ...]:
        async with self.connection("reading duplicates") as connection:
            return tuple(Duplicate(**record) for record in await connection.fetch(sql.DUPLICATES))

    async def partial(self) -> bool:
        return False

    async def imports(self) -> tuple[Import, ...]:
        async with self.connection("reading what was imported") as connection:
            found = await connection.fetch(imports_sql.IMPORTS)
        heads = (Head(one["position"], one["epoch"], one["stream_seq"], one["hash"]) for one in found)
        return tuple(Import(str(one["origin"]), head, one["partial"]) for one, head in zip(found, heads, strict=True))

    async def refuses(self, data: str) -> bool:
        """True when Postgres cannot store `data`, so that a row is rightly blank."""
        async with self.connection("asking for a verdict on one body") as connection:
            try:
                with storing():
                    await connection.fetchval("SELECT $1::text::jsonb IS NULL", data)
            except Unstorable:
                return True
            return False

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()  # a close would wait for a server that may be gone
            self._pool = None

    async def require_schema(self) -> None:
        """The database has the schema this code knows. Raises Misconfigured when it is older or newer."""
        async with self.connection("reading the schema version") as connection:
            found: int = await connection.fetchval("SELECT max(version) FROM schema_version")
        if found != SCHEMA_VERSION:
            raise Misconfigured(
                f"the log has schema version {found} and this Assay knows {SCHEMA_VERSION}: "
                f"{'upgrade Assay' if found > SCHEMA_VERSION else 'run the bootstrap job'}"
            )

    async def _append(self, batch: Sequence[Incoming], insert: "_Insert") -> Appended:
        async with self.appending() as (connection, head, origin):
            return await _Appending(connection, insert, head, origin, self._clock()).run(batch)

    @asynccontextmanager
    async def appending(self) -> AsyncIterator[tuple[Connection, Head, str]]:
        """One transaction under the recorder's lock: nobody else appends meanwhile. Gives head and origin."""
        async with self.connection("appending") as connection, connection.transaction():
            head, origin = _head_and_origin(await connection.fetchrow(sql.LOCK_HEAD))
            yield connection, head, origin

    @asynccontextmanager
    async def connection(self, doing: str) -> AsyncIterator[Connection]:
        with translated(doing):
            pool = await self._open()
            async with pool.acquire(timeout=CONNECT_TIMEOUT_S) as connection:
                yield connection

    async def _open(self) -> "asyncpg.Pool[asyncpg.Record]":
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=POOL_CONNECTIONS,
                    user=self._role.value if self._role else None,
                    timeout=CONNECT_TIMEOUT_S,
                    command_timeout=COMMAND_TIMEOUT_S,
                    server_settings=SERVER_SETTINGS,
                )
            return self._pool

    async def _pages(self, columns: str, where: sql.Where, after: int) -> AsyncIterator[list[asyncpg.Record]]:
        """Keyset pages: each is one short query, so no snapshot is held while the reader works."""
        coming = asyncio.create_task(self._page(columns, where, after))
        try:
            while records := await coming:
                whole = len(records) == PAGE_ROWS
                if whole:  # the next page is on its way while this one is read
                    coming = asyncio.create_task(self._page(columns, where, records[-1]["position"]))
                yield records
                if not whole:
                    return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    async def _page(self, columns: str, where: sql.Where, after: int) -> list[asyncpg.Record]:
        query, arguments = sql.page(columns, where, after, PAGE_ROWS)
        async with self.connection("reading the log") as connection:
            return await connection.fetch(query, *arguments)


async def connect_log(dsn: str, role: Role | None = None) -> PostgresLog:
    """A log that answers and has the right schema. `role` replaces the user named in `dsn`."""
    log = PostgresLog(dsn, role)
    await log.require_schema()
    return log


class _Appending:
    """One append, inside its transaction and under the head's lock.

    A slice is read and hashed while Postgres stores the slice before it: on two cores that is half of the throughput.
    """

    def __init__(self, connection: Connection, insert: _Insert, head: Head, origin: str, now: datetime) -> None:
        self._connection = connection
        self._insert = insert
        self._head = head
        self._origin = origin
        self._now = now
        self._rows: list[Row] = []
        self._duplicates: list[Duplicate] = []
        self._storing: asyncio.Task[tuple[Row, ...]] | None = None

    async def run(self, batch: Sequence[Incoming]) -> Appended:
        """`batch` is in the tables and the head is past it."""
        unseen = fresh(self._head, batch)
        try:
            for start in range(0, len(unseen), SLICE_ROWS):
                await self._store(tuple(read(incoming) for incoming in unseen[start : start + SLICE_ROWS]))
            await self._stored()
        finally:
            if self._storing is not None:  # the connection must be idle before the transaction ends
                await asyncio.gather(self._storing, return_exceptions=True)
        await _insert_duplicates(self._connection, self._duplicates)
        head = self._head
        await self._connection.execute(sql.ADVANCE_HEAD, head.position, head.epoch, head.stream_seq, head.hash)
        return Appended(tuple(self._rows), tuple(self._duplicates), head)

    async def _store(self, arrived: tuple[Arrival, ...]) -> None:
        await self._stored()
        admitted, repeated = admit(arrived, await _known(self._connection, arrived))
        rows = chained(self._head, self._origin, admitted, self._now)
        self._head = advanced(self._head, arrived, rows)
        self._duplicates += repeated
        self._storing = asyncio.create_task(self._insert(self._connection, rows))
        await asyncio.sleep(0)  # the statement is on its way before the next slice is read

    async def _stored(self) -> None:
        if self._storing is not None:
            storing_now, self._storing = self._storing, None
            self._rows += await storing_now


async def _known(connection: Connection, arrived: Sequence[Arrival]) -> dict[UUID, bytes]:
    """Those ids of `arrived` that are recorded, with their recorded raw."""
    ids = [arrival.derived.event_id for arrival in arrived if arrival.derived.event_id is not None]
    found = await connection.fetch(sql.KNOWN, ids)
    return {record["event_id"]: record["raw"] for record in found}


async def _insert(connection: Connection, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """`rows` are in the table. Raises Unstorable, and the transaction is lost, when a value cannot be stored."""
    with storing():
        await connection.execute(sql.INSERT, *sql.columns_of(rows))
    return rows


async def insert_rows(connection: Connection, rows: tuple[Row, ...]) -> None:
    """`rows` are in the table; those that Postgres refuses are there blank."""
    try:
        async with connection.transaction():
            await _insert(connection, rows)
    except Unstorable:
        await _insert_each_alone(connection, rows)


async def _insert_each_alone(connection: Connection, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """`rows` are in the table; those that Postgres refuses are there blank."""
    return tuple([await _insert_alone(connection, row) for row in rows])


async def _insert_alone(connection: Connection, row: Row) -> Row:
    try:
        async with connection.transaction():
            await _insert(connection, (row,))
        return row
    except Unstorable:
        await _insert(connection, (blanked(row),))
        return blanked(row)


async def _insert_duplicates(connection: Connection, duplicates: Sequence[Duplicate]) -> None:
    if duplicates:
        await connection.executemany(
            sql.INSERT_DUPLICATE,
            [(one.epoch, one.stream_seq, one.event_id, one.body_sha256, one.kind) for one in duplicates],
        )


def _head_and_origin(record: asyncpg.Record | None) -> tuple[Head, str]:
    """The head and the origin that every hash names."""
    if record is None:
        raise Misconfigured("the log has no head; run the bootstrap job")
    head = Head(record["position"], record["epoch"], record["stream_seq"], record["hash"])
    return head, str(record["origin"])


def row_of(record: "Mapping[str, Any] | asyncpg.Record") -> Row:
    """The row in a record of its columns."""
    return Row(**{**record, "origin": _text(record["origin"])})


_UNREAD = (None, None)
_UNREAD_TOO = (None,) * 9


def _link_of(record: asyncpg.Record) -> Row:
    """A row of which nothing but LINK_COLUMNS was read."""
    position, origin, epoch, stream_seq, recorded_at, raw, hash_, subject = record
    return Row(position, _text(origin), epoch, stream_seq, recorded_at, raw, hash_, *_UNREAD, subject, *_UNREAD_TOO)


@lru_cache(maxsize=16)  # a log has few origins, and a row has one of them
def _text(origin: UUID) -> str:
    return str(origin)
