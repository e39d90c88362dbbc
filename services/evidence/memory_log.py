"""The log in memory: the same decisions as `postgres_log.py`, for tests and notebooks."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from schemas.envelope import Recorded
from schemas.events import Fact
from services.evidence.admission import Arrival, admit, advanced, chained, fresh, read, reopened
from services.evidence.chain import GENESIS
from services.evidence.log import Appended, Duplicate, Head, Import, Incoming, LeftOut, Row
from services.evidence.rows import recorded
from services.evidence.stored_types import stored_types


class MemoryLog:
    """A log that lives as long as this object."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC), origin: str | None = None) -> None:
        self._clock = clock
        self._origin = origin or str(uuid4())
        self._head = Head(0, "", 0, GENESIS)
        self._rows: list[Row] = []
        self._duplicates: list[Duplicate] = []
        self._by_id: dict[UUID, Row] = {}

    async def origin(self) -> str:
        return self._origin

    async def head(self) -> Head:
        return self._head

    async def append(self, batch: Sequence[Incoming]) -> Appended:
        arrived = tuple(read(incoming) for incoming in fresh(self._head, batch))
        admitted, duplicates = admit(arrived, self._known(arrived))
        rows = chained(self._head, self._origin, admitted, self._clock())
        self._by_id |= {row.event_id: row for row in rows if row.event_id is not None}
        self._rows += rows
        self._duplicates += duplicates
        self._head = advanced(self._head, arrived, rows)
        return Appended(rows, duplicates, self._head)

    async def open_epoch(self, head: Head, epoch: str, stream_seq: int) -> Head:
        self._head = reopened(self._head, head, epoch, stream_seq)
        return self._head

    async def read(
        self,
        after: int = 0,
        upto: int | None = None,
        goal_id: str | None = None,
        types: tuple[type[Fact], ...] = (),
    ) -> AsyncIterator[Recorded[Any]]:
        wanted = stored_types(types)
        async for row in self.rows(after, upto):
            if row.event_id is None or (goal_id is not None and row.goal_id != goal_id):
                continue
            if wanted and row.type not in wanted:
                continue
            fact = recorded(row.position, row.raw, row.recorded_at)
            if fact is not None:
                yield fact

    async def rows(self, after: int = 0, upto: int | None = None) -> AsyncIterator[Row]:
        for row in self._rows[after:upto]:
            yield row

    async def walk(self, upto: int, *, content: bool = True) -> AsyncIterator[Row | LeftOut]:
        del content  # nothing is gained by leaving it out
        async for row in self.rows(upto=upto):
            yield row

    async def get(self, event_id: UUID) -> Recorded[Any] | None:
        row = self._by_id.get(event_id)
        return recorded(row.position, row.raw, row.recorded_at) if row else None

    async def position_of(self, event_id: UUID) -> int | None:
        row = self._by_id.get(event_id)
        return row.position if row else None

    async def census(self, upto: int | None = None) -> Mapping[str | None, int]:
        return Counter(row.type for row in self._rows[:upto])

    async def duplicates(self) -> tuple[Duplicate, ...]:
        return tuple(self._duplicates)

    async def partial(self) -> bool:
        return False

    async def imports(self) -> tuple[Import, ...]:
        """Memory takes nothing in."""
        return ()

    async def refuses(self, data: str) -> bool:  # noqa: ARG002  the port asks for it
        """Memory stores anything."""
        return False

    def _known(self, arrived: Sequence[Arrival]) -> dict[UUID, bytes]:
        ids = (arrival.derived.event_id for arrival in arrived)
        return {event_id: self._by_id[event_id].raw for event_id in ids if event_id in self._by_id}

    async def close(self) -> None:
        """Nothing is held."""
