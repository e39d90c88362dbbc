"""The bus in one process: the same behaviour as NATS JetStream, for tests and for `kernel_lab` notebooks."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from schemas.envelope import Message
from schemas.faults import Poison, Transient
from services.runtime.bus import (
    FACTS_STREAM,
    GOALS_BUCKET,
    INTAKE_STREAM,
    PARKED_STREAM,
    PRESENCE_BUCKET,
    STREAM_SUBJECTS,
    PubAck,
    Sequenced,
    StreamState,
    require_replay_subject,
)
from services.runtime.subjects import matches

MAX_PAYLOAD_BYTES = 1024 * 1024
IDLE_BATCH_S = 0.5
Clock = Callable[[], float]


@dataclass
class _Stream:
    subjects: tuple[str, ...]
    epoch: str
    follows: str = ""
    messages: list[Message] = field(default_factory=list)
    seq_of: dict[UUID, int] = field(default_factory=dict)
    queues: dict[str, "_Consumer"] = field(default_factory=dict)


@dataclass
class _Pending:
    deliveries: int
    due_at: float


@dataclass
class _Consumer:
    filters: tuple[str, ...]
    ack_wait_s: float
    next_seq: int = 1
    pending: dict[int, _Pending] = field(default_factory=dict)


class MemoryBus:
    """A `Bus`. `go_away` makes it behave like a bus whose server is down."""

    def __init__(self, clock: Clock = time.monotonic, max_bytes: int = 2**30) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._closed = False
        self.emitted: list[Message] = []
        """What listeners of replays would have heard."""
        self._streams = {name: _Stream((subjects,), str(uuid4())) for name, subjects in STREAM_SUBJECTS.items()}
        self._buckets = {GOALS_BUCKET: MemoryBucket(self), PRESENCE_BUCKET: MemoryBucket(self)}
        self._news = asyncio.Condition()
        self._back = asyncio.Event()
        self._back.set()

    @property
    def away(self) -> bool:
        """The bus behaves as when its server is down."""
        return not self._back.is_set()

    def recreate(self, stream: str, follows: str = "") -> None:
        """What an accident can do to a real bus: another stream stands there, empty. `follows`: it may be recorded."""
        self._streams[stream] = _Stream((STREAM_SUBJECTS[stream],), str(uuid4()), follows)

    def go_away(self) -> None:
        """Everything fails or waits from now on."""
        self._back.clear()

    def come_back(self) -> None:
        """Everything works again."""
        self._back.set()

    async def publish(self, message: Message, event_id: UUID) -> PubAck:
        if len(message.body) > MAX_PAYLOAD_BYTES:
            raise Poison(f"{message.subject}: {len(message.body)} bytes; the bus carries {MAX_PAYLOAD_BYTES}")
        stream = self._stream_of(message.subject)
        await self._back.wait()
        if event_id in stream.seq_of:
            return PubAck(stream.seq_of[event_id], duplicate=True)
        stream.messages.append(Message(message.subject, dict(message.headers), message.body))
        stream.seq_of[event_id] = len(stream.messages)
        await self._tell()
        return PubAck(len(stream.messages), duplicate=False)

    async def emit(self, message: Message) -> None:
        require_replay_subject(message.subject)
        await self._back.wait()
        self.emitted.append(message)

    async def queue(self, stream: str, name: str) -> "MemoryQueue":
        self.answer()
        if name not in self._streams[stream].queues:
            raise Transient(f"{stream} has no queue {name} yet")
        return MemoryQueue(self, stream, name)

    async def read(self, stream: str, from_seq: int, batch: int = 500) -> AsyncIterator[tuple[Sequenced, ...]]:
        next_seq = max(from_seq, 1)
        while True:
            messages = self._streams[stream].messages[next_seq - 1 : next_seq - 1 + batch] if not self.away else []
            found = tuple(Sequenced(message, seq) for seq, message in enumerate(messages, next_seq))
            next_seq += len(found)
            if not found:
                await self.news(IDLE_BATCH_S)
            yield found

    async def create_queue(self, stream: str, name: str, filters: tuple[str, ...], ack_wait_s: float) -> None:
        self.answer()
        queues = self._streams[stream].queues
        if name in queues:
            queues[name].filters, queues[name].ack_wait_s = filters, ack_wait_s
        else:
            queues[name] = _Consumer(filters, ack_wait_s)

    async def delete_queue(self, stream: str, name: str) -> None:
        """What an operator can do to a real bus: the durable is gone."""
        del self._streams[stream].queues[name]

    async def bucket(self, name: str) -> "MemoryBucket":
        return self._buckets[name]

    async def state(self, stream: str) -> StreamState:
        self.answer()
        found = self._streams[stream]
        size = sum(len(message.body) for message in found.messages)
        return StreamState(
            len(found.messages), size, self._max_bytes, 1, len(found.messages), found.epoch, follows=found.follows
        )

    def connected(self) -> bool:
        return not self._closed

    async def close(self) -> None:
        self._closed = True

    def answer(self) -> None:
        """The bus is there. Raises Transient when it is not."""
        if self.away or self._closed:
            raise Transient("the bus is away")

    async def news(self, timeout_s: float) -> None:
        """Something was published, or the time is up."""
        try:
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait()
        except TimeoutError:
            pass

    def messages(self, stream: str) -> tuple[Message, ...]:
        """All that was published, for tests."""
        return tuple(self._streams[stream].messages)

    def take(self, stream: str, name: str) -> "MemoryDelivery | None":
        """The next message due on a queue, if any."""
        self.answer()
        consumer = self._streams[stream].queues.get(name)
        if consumer is None:
            raise Transient(f"queue {name} of {stream} was deleted")
        seq = self._overdue(consumer) or self._fresh(self._streams[stream], consumer)
        if seq is None:
            return None
        before = consumer.pending.get(seq, _Pending(0, 0.0))
        consumer.pending[seq] = _Pending(before.deliveries + 1, self._clock() + consumer.ack_wait_s)
        return MemoryDelivery(self, consumer, self._streams[stream].messages[seq - 1], seq, before.deliveries + 1)

    def postpone(self, consumer: _Consumer, seq: int) -> None:
        """`seq` was heard of: its ack_wait starts anew."""
        if seq in consumer.pending:
            consumer.pending[seq].due_at = self._clock() + consumer.ack_wait_s

    def _overdue(self, consumer: _Consumer) -> int | None:
        now = self._clock()
        return next((seq for seq, pending in consumer.pending.items() if pending.due_at <= now), None)

    @staticmethod
    def _fresh(stream: _Stream, consumer: _Consumer) -> int | None:
        for message in itertools.islice(stream.messages, consumer.next_seq - 1, None):
            consumer.next_seq += 1
            if any(matches(pattern, message.subject) for pattern in consumer.filters):
                return consumer.next_seq - 1
        return None

    def _stream_of(self, subject: str) -> _Stream:
        for stream in self._streams.values():
            if any(matches(pattern, subject) for pattern in stream.subjects):
                return stream
        raise Poison(f"no stream takes {subject}; there are {FACTS_STREAM}, {INTAKE_STREAM} and {PARKED_STREAM}")

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()


@dataclass(frozen=True)
class MemoryQueue:
    _bus: MemoryBus
    _stream: str
    _name: str

    async def fetch(self, timeout_s: float) -> "MemoryDelivery | None":
        deadline = time.monotonic() + timeout_s
        while True:
            delivery = self._bus.take(self._stream, self._name)
            left_s = deadline - time.monotonic()
            if delivery is not None or left_s <= 0:
                return delivery
            await self._bus.news(min(left_s, 0.02))


@dataclass(frozen=True)
class MemoryDelivery:
    _bus: MemoryBus
    _consumer: _Consumer
    message: Message
    seq: int
    num_delivered: int

    async def in_progress(self) -> None:
        self._bus.answer()
        self._bus.postpone(self._consumer, self.seq)

    async def ack(self) -> None:
        self._bus.answer()
        self._consumer.pending.pop(self.seq, None)

    async def term(self) -> None:
        await self.ack()


class MemoryBucket:
    """A `Bucket` without a TTL: tests delete what shall have expired."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._revision = 0
        self._values: dict[str, tuple[bytes, int]] = {}

    async def get(self, key: str) -> tuple[bytes, int] | None:
        self._bus.answer()
        return self._values.get(key)

    async def put(self, key: str, value: bytes) -> int:
        self._bus.answer()
        self._revision += 1
        self._values[key] = (value, self._revision)
        return self._revision

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        _, last = self._values.get(key, (b"", 0))
        return await self.put(key, value) if last == revision else None

    async def delete(self, key: str) -> None:
        self._bus.answer()
        self._values.pop(key, None)

    async def keys(self) -> tuple[str, ...]:
        self._bus.answer()
        return tuple(sorted(self._values))
