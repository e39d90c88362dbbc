"""The bus on NATS JetStream. The only adapter, with `nats_link.py` beneath it and `nats_reader.py` beside it."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from nats.aio.msg import Msg

from schemas.envelope import Message
from schemas.faults import Poison, Transient
from services.runtime.bus import PubAck, Sequenced, StreamState, require_replay_subject
from services.runtime.nats_link import Inbox, Link, Refused, message_of, parse_answer
from services.runtime.nats_reader import Reader
from services.runtime.settings import Settings

MESSAGE_ID = "Nats-Msg-Id"
LANGUAGE = "language"
"""Of a stream's metadata: the fact types that its factory speaks, separated by blanks."""
BACKOFF_FIRST_S = 0.05
BACKOFF_LIMIT_S = 2.0
GRACE_S = 5.0
"""How much longer than the server a pull waits, so that the server's word always comes first. Chosen: a machine that
stands still for some seconds is no server that is away."""
LOST_QUEUE_PAUSE_S = 1.0
"""A deleted consumer fails at once, every time: pause here, or a retrying caller spins (event-backbone.md)."""

NOTHING_NOW = ("404", "408")
"""Statuses of a pull that found nothing: no messages, and request expired (ADR-13)."""
PAYLOAD_TOO_LARGE = 10054
STREAM_NOT_FOUND = 10059
WRONG_LAST_SEQUENCE = (10071, 10164)


class NatsBus:
    """A `Bus`. Make it with `open`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @classmethod
    async def open(cls, settings: Settings, name: str) -> "NatsBus":
        """Connected as service `name`. Waits for the server; raises NotAllowed on bad credentials."""
        return cls(await Link.open(settings, name))

    async def publish(self, message: Message, event_id: UUID) -> PubAck:
        headers = {**message.headers, MESSAGE_ID: str(event_id)}
        pause_s = BACKOFF_FIRST_S
        while True:
            await self._link.up()
            try:
                reply = await self._link.request(message.subject, message.body, headers)
                ack = parse_answer(message.subject, reply.data)
                return PubAck(ack["seq"], bool(ack.get("duplicate", False)))
            except Transient as fault:
                _reject_hopeless(message, fault)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, BACKOFF_LIMIT_S)

    async def emit(self, message: Message) -> None:
        require_replay_subject(message.subject)
        await self._link.up()
        await self._link.send(message.subject, message.body, headers=message.headers)

    async def queue(self, stream: str, name: str) -> "NatsQueue":
        await self._link.api(f"CONSUMER.INFO.{stream}.{name}")
        return NatsQueue(self._link, stream, name, await self._link.inbox())

    def read(self, stream: str, from_seq: int, batch: int = 500) -> AsyncIterator[tuple[Sequenced, ...]]:
        return Reader(self._link, stream, from_seq, batch).batches()

    async def create_queue(self, stream: str, name: str, filters: tuple[str, ...], ack_wait_s: float) -> None:
        config = {
            "durable_name": name,
            "name": name,
            "filter_subjects": list(filters),
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(ack_wait_s * 1e9),
            "max_deliver": -1,
            "replay_policy": "instant",
        }
        await self._link.api(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})

    async def bucket(self, name: str) -> "NatsBucket":
        await self._link.api(f"STREAM.INFO.KV_{name}")
        return NatsBucket(self._link, name)

    async def state(self, stream: str) -> StreamState:
        info = await self._link.api(f"STREAM.INFO.{stream}")
        state, config = info["state"], info["config"]
        metadata = config.get("metadata", {})
        return StreamState(
            messages=state["messages"],
            bytes=state["bytes"],
            max_bytes=config["max_bytes"],
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
            epoch=metadata.get("epoch", ""),
            first_at=datetime.fromisoformat(state["first_ts"]) if state["messages"] else None,
            language=frozenset(metadata.get(LANGUAGE, "").split()),
            follows=metadata.get("follows", ""),
            reason=metadata.get("reason", ""),
        )

    def connected(self) -> bool:
        return self._link.open_for_good

    async def close(self) -> None:
        await self._link.close()


@dataclass(frozen=True)
class NatsQueue:
    """One message per pull: prefetching would defeat scaling, and nats-py's batch fetch can stall (#933, #986)."""

    _link: Link
    _stream: str
    _name: str
    _inbox: Inbox

    async def fetch(self, timeout_s: float) -> "NatsDelivery | None":
        late = self._inbox.pop()
        if late is not None and not _status(late):
            return _delivery(self._link, late)
        pull: dict[str, Any] = {"batch": 1}
        pull |= {"expires": int(timeout_s * 1e9)} if timeout_s > 0 else {"no_wait": True}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        await self._link.send(subject, json.dumps(pull).encode(), reply=self._inbox.subject)
        answer = await self._inbox.get(timeout_s + GRACE_S)
        if answer is None:
            raise Transient(f"{self._stream}/{self._name}: the server does not answer pulls")
        return await self._read(answer)

    async def _read(self, answer: Msg) -> "NatsDelivery | None":
        status = _status(answer)
        if not status:
            return _delivery(self._link, answer)
        if status in NOTHING_NOW:
            return None
        await asyncio.sleep(LOST_QUEUE_PAUSE_S)
        description = (answer.headers or {}).get("Description", "the queue is gone")
        raise Transient(f"{self._stream}/{self._name}: {status} {description}")


@dataclass(frozen=True)
class NatsDelivery:
    _link: Link
    message: Message
    seq: int
    num_delivered: int
    _reply: str

    async def in_progress(self) -> None:
        await self._link.send(self._reply, b"+WPI")

    async def ack(self) -> None:
        await self._link.request(self._reply, b"+ACK")

    async def term(self) -> None:
        await self._link.request(self._reply, b"+TERM")


@dataclass(frozen=True)
class NatsBucket:
    """A KV bucket, spoken to directly: a worker then needs two permissions instead of nats-py's five (ADR-8)."""

    _link: Link
    _name: str

    async def get(self, key: str) -> tuple[bytes, int] | None:
        reply = await self._link.request(f"$JS.API.DIRECT.GET.KV_{self._name}.{self._subject(key)}")
        headers = reply.headers or {}
        if headers.get("Status") == "404" or headers.get("KV-Operation") or headers.get("Nats-Marker-Reason"):
            return None
        if "Nats-Sequence" not in headers:
            raise Transient(f"bucket {self._name}: {headers.get('Description', 'no answer')}")
        return reply.data, int(headers["Nats-Sequence"])

    async def put(self, key: str, value: bytes) -> int:
        return await self._write(key, value, {})

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        try:
            return await self._write(key, value, {"Nats-Expected-Last-Subject-Sequence": str(revision)})
        except Refused as refused:
            if refused.err_code not in WRONG_LAST_SEQUENCE:
                raise
        marker = await self._marker(key) if revision == 0 else None
        return await self.update(key, value, marker) if marker else None

    async def delete(self, key: str) -> None:
        await self._write(key, b"", {"KV-Operation": "DEL"})

    async def keys(self) -> tuple[str, ...]:
        prefix = self._subject("")
        info = await self._link.api(f"STREAM.INFO.KV_{self._name}", {"subjects_filter": f"{prefix}>"})
        named = sorted(subject.removeprefix(prefix) for subject in info["state"].get("subjects") or {})
        return tuple([key for key in named if await self.get(key) is not None])

    async def _marker(self, key: str) -> int | None:
        """The revision of the marker that says `key` was deleted: to such a key revision 0 applies too."""
        reply = await self._link.request(f"$JS.API.DIRECT.GET.KV_{self._name}.{self._subject(key)}")
        headers = reply.headers or {}
        return int(headers["Nats-Sequence"]) if headers.get("KV-Operation") == "DEL" else None

    async def _write(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        subject = self._subject(key)
        reply = await self._link.request(subject, value, headers)
        revision: int = parse_answer(subject, reply.data)["seq"]
        return revision

    def _subject(self, key: str) -> str:
        return f"$KV.{self._name}.{key}"


def _delivery(link: Link, message: Msg) -> NatsDelivery:
    metadata = message.metadata
    return NatsDelivery(link, message_of(message), metadata.sequence.stream, metadata.num_delivered, message.reply)


def _status(message: Msg) -> str:
    return str((message.headers or {}).get("Status", "")) if not message.data else ""


def _reject_hopeless(message: Message, fault: Transient) -> None:
    if isinstance(fault, Refused) and fault.err_code == PAYLOAD_TOO_LARGE:
        raise Poison(f"{message.subject}: {len(message.body)} bytes are more than the stream takes") from fault
