"""A stream in order, without gaps: an AckNone consumer that is thrown away and reopened whenever it looks wrong."""

import asyncio
import json
from collections.abc import AsyncIterator

import structlog
from nats.aio.msg import Msg

from schemas.faults import Transient
from services.runtime.bus import Sequenced
from services.runtime.nats_link import Inbox, Link, message_of

PULL_EXPIRES_S = 1.0
IDLE_S = 0.5
"""After this long without a message an empty batch is given."""
ON_ITS_WAY_S = 0.05
"""How long a batch waits for a message that the server has said it has. Chosen: far above a round trip."""
GRACE_S = 2.0
INACTIVE_S = 30.0
"""The server removes a forgotten consumer after this long (chosen)."""
PAUSE_S = 0.5
HEARTBEAT = "100"
QUIET_STATUSES = (HEARTBEAT, "404", "408")

log = structlog.get_logger()


class Stalled(Transient):
    """The consumer skipped, stopped or vanished."""


class Reader:
    """Reads `stream` from `from_seq` for ever. One per reading; not shared."""

    def __init__(self, link: Link, stream: str, from_seq: int, batch: int) -> None:
        self._link = link
        self._stream = stream
        self._next_seq = max(from_seq, 1)
        self._batch = batch
        self._consumer = ""
        self._delivered = 0
        self._asked = False
        self._asked_at = 0.0
        self._left = 0
        self._pending = 0

    async def batches(self) -> AsyncIterator[tuple[Sequenced, ...]]:
        """Batches in stream order; empty when nothing came in time."""
        inbox: Inbox | None = None
        try:
            while True:
                try:
                    inbox = inbox or await self._open()
                    yield await self._next(inbox)
                except Transient as fault:
                    log.warning("stream reader reopens", stream=self._stream, at=self._next_seq, reason=str(fault))
                    await self._discard(inbox)
                    inbox = None
                    await asyncio.sleep(PAUSE_S)
                    yield ()
        finally:
            await self._discard(inbox)

    async def _open(self) -> Inbox:
        """A fresh ephemeral consumer at the next sequence."""
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next_seq,
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            "inactive_threshold": int(INACTIVE_S * 1e9),
            "num_replicas": 1,
            "mem_storage": True,
        }
        made = await self._link.api(f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config})
        self._consumer, self._delivered, self._asked = made["name"], 0, False
        return await self._link.inbox()

    async def _discard(self, inbox: Inbox | None) -> None:
        """The inbox is gone; the server drops the consumer by itself, which needs no permission."""
        if inbox is not None:
            await self._link.drop(inbox)

    async def _next(self, inbox: Inbox) -> tuple[Sequenced, ...]:
        await self._pull(inbox)
        message = await inbox.get(IDLE_S)
        if message is None:
            self._require_life()
        batch: list[Sequenced] = []
        while message is not None:
            batch.extend(self._taken(message))
            message = await self._following(inbox) if len(batch) < self._batch else None
        if batch:  # only now: a batch that stalled half-way is read again from its start
            self._next_seq = batch[-1].seq + 1
        return tuple(batch)

    async def _following(self, inbox: Inbox) -> Msg | None:
        """The next message if it is here, or on its way: far behind, full batches cost a third less than half ones."""
        message = inbox.pop()
        if message is None and self._asked and self._pending:
            message = await inbox.get(ON_ITS_WAY_S)
        return message

    async def _pull(self, inbox: Inbox) -> None:
        """One pull is open. The next is sent when the server has said that this one is over."""
        if self._asked:
            return
        pull = {"batch": self._batch, "expires": int(PULL_EXPIRES_S * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        await self._link.send(subject, json.dumps(pull).encode(), reply=inbox.subject)
        loop = asyncio.get_running_loop()
        self._asked, self._asked_at, self._left = True, loop.time(), self._batch

    def _require_life(self) -> None:
        if self._asked and asyncio.get_running_loop().time() - self._asked_at > PULL_EXPIRES_S + GRACE_S:
            raise Stalled("no word from the server after the pull expired")

    def _taken(self, message: Msg) -> tuple[Sequenced, ...]:
        headers = message.headers or {}
        status = headers.get("Status") if not message.data else None
        if status in QUIET_STATUSES:
            self._asked = self._asked and status == HEARTBEAT
            return ()
        if status is not None:
            raise Stalled(f"{status} {headers.get('Description', '')}")
        metadata = message.metadata
        sequence = metadata.sequence
        if sequence.consumer != self._delivered + 1:
            raise Stalled(f"message {self._delivered + 1} of the consumer is missing")
        self._delivered += 1
        self._pending = metadata.num_pending
        self._left -= 1
        self._asked = self._left > 0
        return (Sequenced(message_of(message), sequence.stream),)
