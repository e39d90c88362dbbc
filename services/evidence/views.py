"""The views in Postgres: folds that people read, droppable at any time and rebuilt side by side from the log.

Rows and the checkpoint they stand for are written in one transaction, so a crash repeats a batch and never skips one.
Only the librarian writes here; `goals` and `candidates` serve `goal list|show` and `candidate list|show`.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeAlias
from uuid import UUID

import asyncpg

from schemas.envelope import Recorded
from schemas.faults import Transient
from schemas.ids import GoalId
from services.evidence import views_sql as sql
from services.evidence.candidate_rows import Move, Proposal
from services.evidence.leaderboard import LEADERBOARD
from services.evidence.log import Log
from services.evidence.postgres_border import translated
from services.evidence.postgres_sql import HEAD_POSITION
from services.evidence.standings import Standing
from services.evidence.view_fold import Changes, ViewFold
from services.evidence.view_rows import Row, goal_row

VERSION = 2
"""Raise it when a table or the fold changes: a librarian that finds another version rebuilds."""
REBUILD_BATCH = 2000
"""Facts folded between two writes. Chosen: some ten megabytes."""
READ_OWN_S = 3.0
"""Chosen: views follow within a batch; a librarian that is away must not hold up who reads."""
POLL_S = 0.02
PROPOSAL, MOVE, STANDING = (attrgetter(*kind.__slots__) for kind in (Proposal, Move, Standing))
"""Their columns. `astuple` copies every value deeply: a sixth of a rebuild."""
LIVE, BESIDE = "", "_next"
NO_LIMIT = 2**31

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"


class Views(Protocol):
    """What the librarian keeps up to date after every batch."""

    async def start(self, log: Log) -> None:
        """The views show the log as it stands."""
        ...

    async def apply(self, facts: Sequence[Recorded[Any]], upto: int) -> None:
        """They show it up to position `upto`; `facts` is everything since the last call, or more."""
        ...


class NoViews:
    """For a librarian with nobody to read over its shoulder: tests and simulations."""

    async def start(self, log: Log) -> None: ...
    async def apply(self, facts: Sequence[Recorded[Any]], upto: int) -> None: ...


class PostgresViews:
    """The views in the database at `dsn`, written by the librarian's role and read by any."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._fold = ViewFold()

    async def start(self, log: Log) -> None:
        checkpoint = await self._checkpoint()
        if checkpoint is None:
            await self.rebuild(log)
            return
        self._fold = ViewFold(checkpoint)
        await self._fold.refold(log)
        await self._follow(log, self._fold, LIVE)

    async def apply(self, facts: Sequence[Recorded[Any]], upto: int) -> None:
        changes = self._fold.advance(facts, upto)
        await self._write(changes, LIVE)

    async def rebuild(self, log: Log) -> None:
        """The views are made anew from the log, beside the old ones, and take their place at once."""
        fold = ViewFold()
        async with self._connection("making new views") as connection, connection.transaction():
            await _drop(connection, BESIDE)
            await connection.execute(sql.CREATE.format(suffix=BESIDE))
            await connection.execute(sql.BEGIN.format(suffix=BESIDE), VERSION)
        await self._follow(log, fold, BESIDE)
        async with self._connection("swapping views") as connection, connection.transaction():
            await _drop(connection, LIVE)
            for table in sql.TABLES:
                await connection.execute(sql.RENAME.format(table=table, suffix=BESIDE))
            for index in sql.INDEXES:
                await connection.execute(sql.RENAME_INDEX.format(index=index, suffix=BESIDE))
        self._fold = fold

    async def goals(self, goal_id: GoalId | None = None, limit: int = NO_LIMIT, offset: int = 0) -> tuple[Row, ...]:
        """Rows of views.goals, newest first."""
        rows = await self._rows(sql.GOALS, goal_id, limit, offset)
        return tuple(row | {"rejections": json.loads(row["rejections"])} for row in rows)

    async def candidates(
        self,
        goal_id: GoalId | None = None,
        candidate_id: UUID | None = None,
        limit: int = NO_LIMIT,
        *,
        status: str | None = None,
        offset: int = 0,
    ) -> tuple[Row, ...]:
        """Rows of views.candidates, by generation, best search ratio first."""
        return await self._rows(sql.CANDIDATES, goal_id, candidate_id, status, limit, offset)

    async def candidates_named(self, digits: str, limit: int = NO_LIMIT) -> tuple[Row, ...]:
        """Rows of candidates whose ids begin with `digits`."""
        return await self._rows(sql.CANDIDATES_NAMED, digits, limit)

    async def leaderboard(
        self, goal_id: GoalId | None = None, workload: str | None = None, limit: int = NO_LIMIT
    ) -> tuple[Row, ...]:
        """What LEADERBOARD answers: proven finalists with a hold-out interval, best lower bound first."""
        return await self._rows(LEADERBOARD, goal_id, workload, limit)

    async def catch_up(self, timeout_s: float = READ_OWN_S) -> None:
        """They show all that the log holds now, unless that takes longer than `timeout_s`: then what they have counts.

        A fact is in the log a moment before it is in the views, and whoever was told of it looks at once.
        """
        async with self._connection("reading the log's head") as connection:
            head: int = await connection.fetchval(HEAD_POSITION)
        deadline = time.monotonic() + timeout_s
        while (seen := await self._checkpoint()) is not None and seen < head and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["Snapshot"]:
        """The views as they stand now, however long they are read. Raises Transient when the librarian makes them."""
        async with (
            self._connection("reading a snapshot of the views") as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            found = await connection.fetchrow(sql.CHECKPOINT)
            if found is None or found["version"] != VERSION:
                raise Transient("the views are of another version; the librarian makes them anew when it starts")
            yield Snapshot(connection, found["position"])

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    async def _checkpoint(self) -> int | None:
        """How far the views are; None when one is missing or they are of another version."""
        async with self._connection("reading the views' checkpoint") as connection:
            if not await connection.fetchval(sql.EXIST, sql.TABLES):
                return None
            found = await connection.fetchrow(sql.CHECKPOINT)
        return found["position"] if found and found["version"] == VERSION else None

    async def _follow(self, log: Log, fold: ViewFold, suffix: str) -> None:
        """The tables with `suffix` show the log up to its head."""
        head = (await log.head()).position
        batch: list[Recorded[Any]] = []
        writing = asyncio.create_task(_nothing())
        try:
            async for recorded in log.read(fold.position, head):
                batch.append(recorded)
                if len(batch) == REBUILD_BATCH:
                    changes = fold.advance(batch, recorded.position)
                    await writing
                    writing = asyncio.create_task(self._write(changes, suffix))  # while the next batch is folded
                    batch.clear()
            await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        await self._write(fold.advance(batch, head), suffix)

    async def _write(self, changes: Changes, suffix: str) -> None:
        async with self._connection("writing views") as connection, connection.transaction():
            if changes.goals:
                rows = [goal_row(state) for state in changes.goals.values()]
                await connection.execute(sql.upsert_goals(suffix), *_columns(rows))
            if changes.proposals:
                await connection.execute(sql.insert_candidates(suffix), *_columns(map(PROPOSAL, changes.proposals)))
            if changes.moves:
                moves = [(id_, *MOVE(move)) for id_, move in changes.moves.items()]
                await connection.execute(sql.move_candidates(suffix), *_columns(moves))
            if changes.standings:
                await connection.execute(sql.insert_standings(suffix), *_columns(map(STANDING, changes.standings)))
            if changes.crowned:
                await connection.executemany(sql.CROWN.format(suffix=suffix), changes.crowned)
            await connection.execute(sql.ADVANCE.format(suffix=suffix), changes.position)

    async def _rows(self, query: str, *arguments: Any) -> tuple[Row, ...]:
        async with self._connection("reading views") as connection:
            return tuple(dict(record) for record in await connection.fetch(query, *arguments))

    @asynccontextmanager
    async def _connection(self, doing: str) -> AsyncIterator[Connection]:
        with translated(doing):
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn, min_size=0, max_size=2, timeout=10, command_timeout=60
                )
            async with self._pool.acquire(timeout=10) as connection:
                try:
                    yield connection
                except asyncpg.UndefinedTableError as error:
                    raise Transient(f"{doing}: {error}; the librarian makes missing views anew") from error


@dataclass(frozen=True)
class Snapshot:
    """The views at one moment, inside its transaction."""

    _connection: Connection
    position: int

    async def goals(self) -> AsyncIterator[Row]:
        """Every row of views.goals."""
        async for record in self._connection.cursor(sql.GOALS, None, NO_LIMIT, 0):
            yield dict(record) | {"rejections": json.loads(record["rejections"])}

    async def candidates(self) -> AsyncIterator[Row]:
        """Every row of views.candidates."""
        async for record in self._connection.cursor(sql.CANDIDATES, None, None, None, NO_LIMIT, 0):
            yield dict(record)

    async def leaderboard(self) -> AsyncIterator[Row]:
        """What the leaderboard query answers."""
        async for record in self._connection.cursor(LEADERBOARD, None, None, NO_LIMIT):
            yield dict(record)


async def _nothing() -> None:
    """The write before the first."""


async def _drop(connection: Connection, suffix: str) -> None:
    for table in sql.TABLES:
        await connection.execute(sql.DROP.format(table=table, suffix=suffix))


def _columns(rows: Any) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
