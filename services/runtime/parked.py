"""Messages that nobody could handle, kept whole with the reason, to be listed and replayed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID, uuid5

from schemas.envelope import Message
from schemas.faults import Bug
from schemas.ids import NAMESPACE, is_token
from schemas.model import clip
from services.runtime.bus import PARKED_STREAM, Bus

PARKED_PREFIX = "assay.parked"
SUBJECT = "assay-parked-subject"
STREAM = "assay-parked-stream"
SEQ = "assay-parked-seq"
REASON = "assay-parked-reason"
REASON_LIMIT_BYTES = 2048
"""Headers must stay small: the whole message counts against the payload limit."""
SILENCE = 3
"""Empty batches after which a listing ends although fewer came than were counted: some were dropped meanwhile."""
OWN_HEADERS = (SUBJECT, STREAM, SEQ, REASON)


@dataclass(frozen=True)
class Parked:
    """One parked message, as it was."""

    seq: int
    """In the parked stream."""
    subject: str
    """In the parked stream: its own, unless an older Assay parked it."""
    service: str
    reason: str
    stream: str
    stream_seq: int
    message: Message


async def park(bus: Bus, service: str, message: Message, stream: str, seq: int, reason: str) -> None:
    """`message` is in the parked stream, once per service and sequence."""
    one_line = " ".join(clip(reason, REASON_LIMIT_BYTES).split())
    headers = {**message.headers, SUBJECT: message.subject, STREAM: stream, SEQ: str(seq), REASON: one_line}
    subject = f"{PARKED_PREFIX}.{service}.{stream}.{seq}"  # its own, so that this one message can be dropped
    await bus.publish(Message(subject, headers, message.body), _id(service, stream, seq))


async def parked(bus: Bus) -> AsyncIterator[Parked]:
    """Everything that is parked now, oldest first."""
    left = (await bus.state(PARKED_STREAM)).messages
    silent = 0
    if left == 0:
        return
    async for batch in bus.read(PARKED_STREAM, 1):
        for found in batch:
            yield _unpacked(found.message, found.seq)
        left -= len(batch)
        silent = 0 if batch else silent + 1
        if left <= 0 or silent == SILENCE:
            return
        if not batch:
            await bus.state(PARKED_STREAM)  # silent because it is away: Transient


async def replay(bus: Bus, found: Parked, event_id: UUID) -> None:
    """The message is published again under its own subject, as `event_id`: a fresh one, or the window swallows it."""
    await bus.publish(found.message, event_id)


def _unpacked(message: Message, seq: int) -> Parked:
    if SUBJECT not in message.headers:
        raise Bug(f"{PARKED_STREAM} message {seq} has no {SUBJECT} header")
    headers = {name: value for name, value in message.headers.items() if name not in OWN_HEADERS}
    return Parked(
        seq=seq,
        subject=message.subject,
        service=message.subject.split(".")[2],
        reason=message.headers[REASON],
        stream=message.headers[STREAM],
        stream_seq=int(message.headers[SEQ]),
        message=Message(message.headers[SUBJECT], headers, message.body),
    )


def _id(service: str, stream: str, seq: int) -> UUID:
    assert is_token(service)
    return uuid5(NAMESPACE, f"parked|{service}|{stream}|{seq}")
