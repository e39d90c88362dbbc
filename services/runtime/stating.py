"""Drafts become envelopes: the host adds who, when, and the trace. Pure but for the clock and ids it is given."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from schemas.envelope import Draft, Envelope, Message, encode
from schemas.events import Fact
from services.runtime.bus import Bus, PubAck
from services.runtime.metrics import Metrics

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
"""W3C Trace Context, version 00: `00-<trace id>-<span id>-<flags>`."""


def unsigned(message: Message) -> Message:
    """`message` as it is: for whoever has no key, such as a test."""
    return message


@dataclass(frozen=True)
class Stamp:
    """Who states and signs, what time it is, and where fresh trace ids come from."""

    source: str
    """`assay/<service>/<copy>`."""
    now: Callable[[], datetime]
    token_hex: Callable[[int], str]
    sign: Callable[[Message], Message] = unsigned

    def answering(self, draft: Draft[Any], cause: Envelope[Any]) -> Envelope[Any]:
        """`draft` as a consequence of `cause`: same goal, same trace, a new span."""
        root = cause.correlation_id or cause.id
        return self.stating(draft, root, cause.traceparent)

    def stating(
        self, draft: Draft[Any], correlation_id: UUID | None = None, traceparent: str | None = None
    ) -> Envelope[Any]:
        """`draft`, stated now. Without a `traceparent` it begins a trace."""
        return Envelope(
            id=draft.id,
            fact=draft.fact,
            source=self.source,
            time=self.now(),
            causation_id=draft.causation_id,
            correlation_id=correlation_id,
            traceparent=self._span(traceparent),
        )

    def _span(self, parent: str | None) -> str:
        parts = (parent or "").split("-")
        known = len(parts) == 4 and len(parts[1]) == 2 * TRACE_ID_BYTES
        trace = parts[1] if known else self.token_hex(TRACE_ID_BYTES)
        return f"00-{trace}-{self.token_hex(SPAN_ID_BYTES)}-01"


async def publish(bus: Bus, stamp: Stamp, envelope: Envelope[Fact], metrics: Metrics) -> PubAck:
    """`envelope` is in the fact stream, signed, once, and counted."""
    ack = await bus.publish(stamp.sign(encode(envelope)), envelope.id)
    metrics.published.labels(envelope.fact.TYPE, str(ack.duplicate).lower()).inc()
    return ack
