"""The recorder: the facts stream is copied into the log, in order and without gaps, by the one copy that leads."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schemas.envelope import Recorded
from schemas.faults import Broken
from services.evidence.continuation import why_not
from services.evidence.leadership import Leadership
from services.evidence.log import Appended, Head, Incoming, Log
from services.evidence.rows import facts_of
from services.runtime.bus import FACTS_STREAM, Bus, Sequenced, StreamState

BATCH_MESSAGES = 500
"""architecture.md, Exactly-once effect: batches of up to 500."""


@dataclass(frozen=True)
class Recording:
    """One batch that is in the log now."""

    appended: Appended
    lag: int
    """Messages of the stream that are not recorded yet."""

    @cached_property
    def facts(self) -> tuple[Recorded[Any], ...]:
        """The new rows that this Assay can parse, in position order, for the curator's fold."""
        return facts_of(self.appended.rows)

    @property
    def unread(self) -> dict[str, int]:
        """Facts that this Assay cannot parse, by type: a newer one wrote them. They are kept, and no fold sees them."""
        seen = {recorded.position for recorded in self.facts}
        unseen = (row.type for row in self.appended.rows if row.event_id is not None and row.position not in seen)
        return dict(Counter(type_ or "" for type_ in unseen))

    @property
    def unparseable(self) -> int:
        """Rows kept as raw only."""
        return sum(row.event_id is None for row in self.appended.rows)


def _unobserved(_recording: Recording) -> None:
    """Nobody counts."""


async def record(
    bus: Bus, log: Log, leadership: Leadership, observe: Callable[[Recording], None] = _unobserved
) -> AsyncGenerator[Recording, None]:
    """Everything in the stream is recorded, batch by batch, for as long as this copy leads and is iterated.

    Acquire leadership and fold the log first; the first recording follows the head found then. Each recording is
    committed before it is yielded. Raises Deposed when another copy may lead, Broken when the stream is not the one
    the log follows or has lost messages, Transient when Postgres or the bus is away: then lead, fold and record again.
    """
    await leadership.confirm()
    head = await log.head()
    _require_continuation(head, await bus.state(FACTS_STREAM))
    async with aclosing(_one_ahead(bus.read(FACTS_STREAM, head.stream_seq + 1, BATCH_MESSAGES))) as batches:
        async for batch in batches:
            await leadership.confirm()
            state = await bus.state(FACTS_STREAM)  # after the batch: a stream recreated before it shows its new epoch
            _require_continuation(head, state)
            if not batch:
                continue
            appended = await log.append([Incoming(one.message, state.epoch, one.seq) for one in batch])
            head = appended.head
            recording = Recording(appended, max(0, state.last_seq - head.stream_seq))
            observe(recording)
            yield recording


def _require_continuation(head: Head, state: StreamState) -> None:
    """The stream still has everything after `head`."""
    objection = why_not(head, state)
    if objection is not None:
        raise Broken(objection)


async def _one_ahead(batches: AsyncIterator[tuple[Sequenced, ...]]) -> AsyncGenerator[tuple[Sequenced, ...], None]:
    """`batches`, the next one being fetched while the last one is recorded."""
    coming = asyncio.ensure_future(anext(batches, None))
    try:
        while (batch := await coming) is not None:
            coming = asyncio.ensure_future(anext(batches, None))
            yield batch
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        if isinstance(batches, AsyncGenerator):
            await batches.aclose()
