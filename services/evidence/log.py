"""The log port: the append-only evidence memory. Implemented by `memory_log.py` and `postgres_log.py`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from schemas.envelope import Message, Recorded
from schemas.events import Fact


@dataclass(frozen=True)
class Head:
    """Where the log ends, and what stream sequence it has recorded up to."""

    position: int
    epoch: str
    stream_seq: int
    hash: bytes


@dataclass(frozen=True)
class Incoming:
    """One stream message on its way into the log."""

    message: Message
    epoch: str
    stream_seq: int


@dataclass(frozen=True)
class Row:
    """One event as stored. `raw` is the truth; every other column is derived from it and re-derived by `verify`."""

    position: int
    origin: str
    epoch: str
    stream_seq: int
    recorded_at: datetime
    raw: bytes
    hash: bytes
    event_id: UUID | None
    """None when `raw` could not be parsed: kept, counted, and no fold sees it."""
    type: str | None
    subject: str
    source: str | None
    goal_id: str | None
    candidate_id: UUID | None
    generation: int | None
    island: int | None
    correlation_id: UUID | None
    causation_id: UUID | None
    occurred_at: datetime | None
    data: str | None
    """The JSON body as text, as Postgres' jsonb gives it back."""


@dataclass(frozen=True)
class LeftOut:
    """Neighbouring rows that a partial copy of a log does not hold."""

    first: int
    last: int
    hash: bytes
    """The chain's after `last`: it commits to everything left out, and whoever has those rows can check them."""


@dataclass(frozen=True)
class Duplicate:
    epoch: str
    stream_seq: int
    event_id: UUID
    body_sha256: str
    kind: str
    """`same_body` or `divergent`."""


@dataclass(frozen=True)
class Appended:
    """What one transaction did."""

    rows: tuple[Row, ...]
    duplicates: tuple[Duplicate, ...]
    head: Head


@dataclass(frozen=True)
class Import:
    """A copy of another log, or of a part of it, that was taken in here."""

    origin: str
    head: Head
    """Where the other log ended when it was exported."""
    partial: bool


class Log(Protocol):
    """Only the librarian appends; proposer, librarian and console read."""

    async def origin(self) -> str:
        """Which log this is: the identity that its own rows carry."""
        ...

    async def head(self) -> Head: ...

    async def append(self, batch: Sequence[Incoming]) -> Appended:
        """`batch` is recorded: one transaction that locks head, asserts contiguity, inserts, advances head.

        Sequences at or below head are skipped (a replay after a crash). Raises Broken on a gap, Transient when the
        database is away. A row that cannot be parsed or stored is kept raw and never fails its batch.
        """
        ...

    async def open_epoch(self, head: Head, epoch: str, stream_seq: int) -> Head:
        """The log goes on with the messages of `epoch` after `stream_seq`: it holds what it held, and its head says so.

        Raises Broken when the head is no longer `head`.
        """
        ...

    def read(
        self,
        after: int = 0,
        upto: int | None = None,
        goal_id: str | None = None,
        types: tuple[type[Fact], ...] = (),
    ) -> AsyncIterator[Recorded[Any]]:
        """Parsed facts of this log's own origin with `after < position <= upto`, ascending.

        Unparseable rows are skipped, and so is what was imported from elsewhere: nobody's folds mix two factories.
        """
        ...

    def rows(self, after: int = 0, upto: int | None = None) -> AsyncIterator[Row]:
        """Stored rows of every origin, ascending, for `verify` and export."""
        ...

    def walk(self, upto: int, *, content: bool = True) -> AsyncIterator[Row | LeftOut]:
        """`rows`, and what lies between them when this is a partial copy.

        Without `content` a row may come with only what its hash is over: that is read several times faster.
        """
        ...

    async def get(self, event_id: UUID) -> Recorded[Any] | None:
        """The fact of that id; None when it is not recorded, or not in a form this Assay can parse."""
        ...

    async def position_of(self, event_id: UUID) -> int | None:
        """Where that id is recorded, parseable or not."""
        ...

    async def census(self, upto: int | None = None) -> Mapping[str | None, int]:
        """How many rows of this log's own there are of each type string; None stands for rows that are no fact."""
        ...

    async def duplicates(self) -> tuple[Duplicate, ...]: ...
    async def partial(self) -> bool:
        """This is a copy that does not hold every row up to its head."""
        ...

    async def imports(self) -> tuple[Import, ...]:
        """The other logs of which rows were imported here, one entry each."""
        ...

    async def refuses(self, data: str) -> bool:
        """True when the store cannot hold `data` as JSON, so that its row is rightly blank."""
        ...

    async def close(self) -> None: ...
