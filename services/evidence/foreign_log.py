"""A log that was imported, read as it stood where it was recorded: its own positions, times and chain."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from schemas.envelope import Recorded
from schemas.events import Fact
from schemas.faults import Bug, Misconfigured
from services.evidence import imports_sql as sql
from services.evidence.log import Appended, Duplicate, Head, Import, Incoming, LeftOut, Row
from services.evidence.postgres_log import PAGE_ROWS, PostgresLog, row_of
from services.evidence.postgres_sql import Where
from services.evidence.rows import recorded
from services.evidence.stored_types import stored_types


class ForeignLog:
    """The log of `origin` as far as it was imported into `home`. Make it with `foreign_log`."""

    def __init__(self, home: PostgresLog, imported: Import) -> None:
        self._home = home
        self._imported = imported

    async def origin(self) -> str:
        return self._imported.origin

    async def head(self) -> Head:
        return self._imported.head

    async def walk(self, upto: int, *, content: bool = True) -> AsyncIterator[Row | LeftOut]:
        """Its rows, and what lies between them where only a part was imported."""
        del content  # a copy is seldom as large as a log
        last = 0
        async for record in self._pages(Where(upto), 0):
            row = _row(record)
            if row.position > last + 1:
                yield LeftOut(last + 1, row.position - 1, record["previous"])
            yield row
            last = row.position
        head = self._imported.head
        if last < head.position <= upto:
            yield LeftOut(last + 1, head.position, head.hash)

    async def rows(self, after: int = 0, upto: int | None = None) -> AsyncIterator[Row]:
        async for record in self._pages(Where(upto), after):
            yield _row(record)

    async def read(
        self,
        after: int = 0,
        upto: int | None = None,
        goal_id: str | None = None,
        types: tuple[type[Fact], ...] = (),
    ) -> AsyncIterator[Recorded[Any]]:
        async for record in self._pages(Where(upto, goal_id, stored_types(types), facts_only=True), after):
            fact = recorded(record["position"], record["raw"], record["recorded_at"])
            if fact is not None:
                yield fact

    async def get(self, event_id: UUID) -> Recorded[Any] | None:
        found = await self._found(event_id)
        return recorded(found["position"], found["raw"], found["recorded_at"]) if found else None

    async def position_of(self, event_id: UUID) -> int | None:
        found = await self._found(event_id)
        return found["position"] if found else None

    async def census(self, upto: int | None = None) -> Mapping[str | None, int]:
        async with self._home.connection("counting an imported log") as connection:
            found = await connection.fetch(sql.CENSUS, UUID(self._imported.origin), upto)
        return {record["type"]: record["count"] for record in found}

    async def duplicates(self) -> tuple[Duplicate, ...]:
        async with self._home.connection("reading an imported log") as connection:
            found = await connection.fetch(sql.DUPLICATES, UUID(self._imported.origin))
        return tuple(Duplicate(**record) for record in found)

    async def partial(self) -> bool:
        return self._imported.partial

    async def imports(self) -> tuple[Import, ...]:
        """What the other log had imported itself does not travel on."""
        return ()

    async def refuses(self, data: str) -> bool:
        return await self._home.refuses(data)

    async def append(self, batch: Sequence[Incoming]) -> Appended:
        raise Bug(f"{len(batch)} messages cannot be recorded in the log of {self._imported.origin}: it is a copy")

    async def open_epoch(self, head: Head, epoch: str, stream_seq: int) -> Head:  # noqa: ARG002  the port asks for it
        raise Bug(f"epoch {epoch} cannot be opened in the log of {self._imported.origin}: it is a copy")

    async def close(self) -> None:
        await self._home.close()

    async def _found(self, event_id: UUID) -> asyncpg.Record | None:
        async with self._home.connection("reading an imported log") as connection:
            return await connection.fetchrow(sql.GET, UUID(self._imported.origin), event_id)

    async def _pages(self, where: Where, after: int) -> AsyncIterator[asyncpg.Record]:
        while True:
            query, arguments = sql.page(self._imported.origin, where, after, PAGE_ROWS)
            async with self._home.connection("reading an imported log") as connection:
                records = await connection.fetch(query, *arguments)
            for record in records:
                yield record
            if len(records) < PAGE_ROWS:
                return
            after = records[-1]["position"]


async def foreign_log(home: PostgresLog, origin: str) -> ForeignLog:
    """The imported log of `origin`, or of the only one that begins so. Raises Misconfigured, listing what there is."""
    known = await home.imports()
    matching = [one for one in known if one.origin.startswith(origin.lower())]
    if len(matching) != 1:
        there = ", ".join(one.origin for one in known) or "none: nothing was imported"
        raise Misconfigured(f"{origin!r} names {len(matching)} imported logs; there are: {there}")
    return ForeignLog(home, matching[0])


def _row(record: asyncpg.Record) -> Row:
    return row_of({name: value for name, value in record.items() if name != "previous"})
