"""What one append does, decided without a database: skip, refuse a gap, tell duplicates apart, chain the rest."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from schemas.faults import Broken
from schemas.framing import frame_kept, kept, unframe
from services.evidence.chain import link
from services.evidence.log import Duplicate, Head, Incoming, Row
from services.evidence.rows import Derived, derive_from


@dataclass(frozen=True)
class Arrival:
    """A message that the log has not seen yet, read once."""

    incoming: Incoming
    raw: bytes
    derived: Derived


def fresh(head: Head, batch: Sequence[Incoming]) -> tuple[Incoming, ...]:
    """The part of `batch` after `head`. Raises Broken when a sequence is missing or of another epoch."""
    unseen = tuple(incoming for incoming in batch if not _was_recorded(head, incoming))
    for expected, incoming in enumerate(unseen, start=head.stream_seq + 1):
        if incoming.stream_seq != expected:
            raise Broken(
                f"stream sequence {expected} is missing: the log ends at {head.stream_seq} and the next message "
                f"is {incoming.stream_seq}; a stream that lost messages must be opened as a new epoch"
            )
    return unseen


def read(incoming: Incoming) -> Arrival:
    """`incoming` as bytes to keep and the columns they give."""
    message = kept(incoming.message)
    return Arrival(incoming, frame_kept(message), derive_from(message))


def admit(arrived: Iterable[Arrival], known: Mapping[UUID, bytes]) -> tuple[tuple[Arrival, ...], tuple[Duplicate, ...]]:
    """What becomes rows, and what repeats an id. `known`: recorded ids among the arrivals, with their raw."""
    seen = dict(known)
    admitted: list[Arrival] = []
    duplicates: list[Duplicate] = []
    for arrival in arrived:
        event_id = arrival.derived.event_id
        if event_id is not None and event_id in seen:
            duplicates.append(_duplicate(arrival, event_id, seen[event_id]))
            continue
        admitted.append(arrival)
        if event_id is not None:
            seen[event_id] = arrival.raw
    return tuple(admitted), tuple(duplicates)


def chained(head: Head, origin: str, admitted: Iterable[Arrival], now: datetime) -> tuple[Row, ...]:
    """`admitted` as the rows after `head`, all recorded `now`."""
    previous, rows = head.hash, []
    for position, arrival in enumerate(admitted, start=head.position + 1):
        incoming = arrival.incoming
        previous = link(previous, position, origin, incoming.epoch, incoming.stream_seq, now, arrival.raw)
        rows.append(
            Row(
                position=position,
                origin=origin,
                epoch=incoming.epoch,
                stream_seq=incoming.stream_seq,
                recorded_at=now,
                raw=arrival.raw,
                hash=previous,
                **vars(arrival.derived),
            )
        )
    return tuple(rows)


def advanced(head: Head, arrived: Sequence[Arrival], rows: Sequence[Row]) -> Head:
    """The head after `arrived` was recorded as `rows` and duplicates."""
    if not arrived:
        return head
    last = arrived[-1].incoming
    moved = replace(head, epoch=last.epoch, stream_seq=last.stream_seq)
    return replace(moved, position=rows[-1].position, hash=rows[-1].hash) if rows else moved


def reopened(found: Head, expected: Head, epoch: str, stream_seq: int) -> Head:
    """The head of a log that goes on with another epoch. Raises Broken when it moved meanwhile."""
    if found != expected:
        raise Broken(f"the log moved to {found.position} while an epoch was opened at {expected.position}")
    return replace(found, epoch=epoch, stream_seq=stream_seq)


def _was_recorded(head: Head, incoming: Incoming) -> bool:
    if head.epoch not in ("", incoming.epoch):
        raise Broken(
            f"the stream is epoch {incoming.epoch} and the log follows {head.epoch}: the stream was recreated; "
            f"open the new epoch deliberately"
        )
    return incoming.stream_seq <= head.stream_seq


def _duplicate(arrival: Arrival, event_id: UUID, first: bytes) -> Duplicate:
    body = arrival.incoming.message.body
    kind = "same_body" if unframe(first).body == body else "divergent"
    incoming = arrival.incoming
    return Duplicate(incoming.epoch, incoming.stream_seq, event_id, hashlib.sha256(body).hexdigest(), kind)
