"""The bus port: what Assay needs of a message bus. Implemented by `memory_bus.py` and `nats_bus.py`."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from schemas.envelope import Message
from schemas.faults import Bug

FACTS_STREAM = "ASSAY_FACTS"
INTAKE_STREAM = "ASSAY_INTAKE"
PARKED_STREAM = "ASSAY_PARKED"
"""Work messages nobody could handle, with the reason, to be listed and replayed (`parked.py`)."""
STREAM_SUBJECTS = {FACTS_STREAM: "assay.fact.>", INTAKE_STREAM: "assay.intake.>", PARKED_STREAM: "assay.parked.>"}
"""What each stream takes. They must not overlap (event-backbone.md, 10065)."""
GOALS_BUCKET = "assay_goals"
"""Goal state for workers: key goal id, value JSON `{"state", "position"}`. Absent means work."""
PRESENCE_BUCKET = "assay_presence"
"""Key `<route>.<host>.<copy>`, bucket TTL. Updated by revision (event-backbone.md: a per-key TTL is lost on update)."""
REPLAY_PREFIX = "assay.replay"
"""History re-emitted for listeners: taken by no stream."""
FULL = 0.8
"""Of a stream: from here on nothing new is begun, so that terminal facts have room (architecture.md)."""
PACE_NEEDS_S = 3600.0
"""Chosen: less than an hour of facts says nothing about a day."""
DAY_S = 86400.0


@dataclass(frozen=True)
class PubAck:
    """The stream has the message, on disk."""

    seq: int
    duplicate: bool


@dataclass(frozen=True)
class Sequenced:
    """A message and its place in its stream."""

    message: Message
    seq: int


@dataclass(frozen=True)
class StreamState:
    messages: int
    bytes: int
    max_bytes: int
    first_seq: int
    last_seq: int
    epoch: str
    """Random uuid in the stream's metadata: a recreated stream is another epoch."""
    first_at: datetime | None = None
    """When its oldest message came; None when it is empty, or not told."""
    language: frozenset[str] = frozenset()
    """The fact types that the factory of this stream speaks; empty where nobody has said."""
    follows: str = ""
    """The epoch after which an operator let the log go on with this stream (`assay epoch open`), and why."""
    reason: str = ""

    @property
    def fill(self) -> float:
        """How full the stream is, from 0 to 1."""
        return self.bytes / self.max_bytes if self.max_bytes > 0 else 0.0

    def days_left(self, now: datetime) -> float | None:
        """Days until the stream is FULL at its pace so far; None when it has no limit, or under an hour of facts."""
        age_s = (now - self.first_at).total_seconds() if self.first_at else 0.0
        if self.max_bytes <= 0 or age_s < PACE_NEEDS_S or not self.bytes:
            return None
        room = max(0.0, FULL * self.max_bytes - self.bytes)
        return room / (self.bytes / age_s) / DAY_S


class Delivery(Protocol):
    """One message handed to one copy. Correctness rests on ids, never on these acks."""

    @property
    def message(self) -> Message: ...
    @property
    def seq(self) -> int: ...
    @property
    def num_delivered(self) -> int: ...
    async def in_progress(self) -> None: ...
    async def ack(self) -> None:
        """Acknowledge and wait for the server's word (`ack_sync`)."""
        ...

    async def term(self) -> None: ...


class Queue(Protocol):
    """A durable pull consumer shared by copies."""

    async def fetch(self, timeout_s: float) -> Delivery | None:
        """The next delivery, or None when there was none in time (0: at once).

        Raises Transient when the bus is away or the queue was deleted.
        """
        ...


class Bucket(Protocol):
    """A key-value view. Values are bytes; revision grows with every write of any key."""

    async def get(self, key: str) -> tuple[bytes, int] | None: ...
    async def put(self, key: str, value: bytes) -> int: ...
    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """The new revision, or None when `revision` (0: must not exist) is no longer the last."""
        ...

    async def delete(self, key: str) -> None: ...
    async def keys(self) -> tuple[str, ...]: ...


class Bus(Protocol):
    async def publish(self, message: Message, event_id: UUID) -> PubAck:
        """`message` is in its stream exactly once. Retries the same id with backoff until a PubAck; never gives up.

        A refusal that no retry can mend (no permission, over the payload limit) raises NotAllowed or Poison.
        """
        ...

    async def emit(self, message: Message) -> None:
        """`message` went to whoever listens now; no stream keeps it. For replays: any other subject raises Bug."""
        ...

    async def queue(self, stream: str, name: str) -> Queue:
        """Binds to a durable that already exists. Raises Transient when it does not (yet)."""
        ...

    def read(self, stream: str, from_seq: int, batch: int = 500) -> AsyncIterator[tuple[Sequenced, ...]]:
        """Batches in stream order without gaps, from `from_seq`, for ever; empty when nothing came, or the bus is away.

        AckNone pull consumer, reopened at the next sequence on a stall (architecture.md, Recorder).
        """
        ...

    async def create_queue(self, stream: str, name: str, filters: tuple[str, ...], ack_wait_s: float) -> None:
        """The durable exists with these filters. Idempotent; changes an existing one's filters."""
        ...

    async def bucket(self, name: str) -> Bucket: ...
    async def state(self, stream: str) -> StreamState: ...
    def connected(self) -> bool:
        """False once the connection is closed for good: liveness fails."""
        ...

    async def close(self) -> None: ...


def require_replay_subject(subject: str) -> None:
    """Raises Bug unless `subject` is one that only replays use: nothing live may be re-emitted by accident."""
    if not subject.startswith(f"{REPLAY_PREFIX}."):
        raise Bug(f"{subject} is no replay's subject: they begin with {REPLAY_PREFIX}.")


def queue_name(service: str, route: str | None) -> str:
    """`compiler-cpu_1a2b3c4d`, or `proposer` for work that any copy may do."""
    return service if route is None else f"{service}-{route}"
