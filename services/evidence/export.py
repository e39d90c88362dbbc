"""Evidence on the move: a log, or part of one, as lines that prove themselves.

One JSON object a line, ascending: the header, the duplicates, then events and what is left out between them, then the
end with a digest over everything before it. An event holds subject, headers and body exactly as recorded (or `raw` in
base64 where they are no text), so the chain can be recomputed from the file alone. What is left out is named by its
positions and by the chain's hash after it: whoever has those rows can check that they are the ones.
"""

import base64
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from schemas.envelope import Message
from schemas.events import KeyCertified
from schemas.framing import frame_kept, unframe
from schemas.model import Model
from services.evidence.log import Duplicate, Head, LeftOut, Log, Row
from services.evidence.rows import derive
from services.evidence.verify import PROGRESS_ROWS, Progress, unwatched

VERSION = 1
"""Of the lines. A greater one was written by a newer Assay."""

Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Position = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Selection:
    """Which rows of a log travel. The certificates always do: without them nobody could say who stated the others."""

    goal_id: str | None = None
    types: tuple[str, ...] = ()
    """With or without version: `candidate.measured` or `candidate.measured.v1`."""
    after: int = 0
    upto: int | None = None

    def takes(self, row: Row) -> bool:
        """`row` travels."""
        if row.type == KeyCertified.TYPE:
            return True
        inside = row.position > self.after and (self.upto is None or row.position <= self.upto)
        wanted = not self.types or row.type in self.types or (row.type or "").rpartition(".")[0] in self.types
        return inside and wanted and self.goal_id in (None, row.goal_id)


class HeadLine(Model):
    """Where the exported log ended."""

    position: Count
    epoch: str
    stream_seq: Count
    hash: Hash


class Header(Model):
    kind: Literal["assay-export"] = "assay-export"
    version: Literal[1] = 1
    assay: str
    """Which Assay wrote it."""
    origin: str
    exported_at: datetime
    partial: bool
    goal_id: str | None = None
    types: tuple[str, ...]
    after: int
    upto: int | None = None
    head: HeadLine
    imports: tuple[str, ...]
    """Other logs of which rows stand among these, under their own origin."""


class DuplicateLine(Model):
    kind: Literal["duplicate"] = "duplicate"
    epoch: str
    stream_seq: Count
    event_id: str
    body_sha256: str
    repeats: str
    """`same_body` or `divergent`."""


class EventLine(Model):
    kind: Literal["event"] = "event"
    position: Position
    origin: str | None = None
    """Absent: the header's."""
    epoch: str
    stream_seq: Count
    recorded_at: datetime
    hash: Hash
    subject: str | None = None
    headers: dict[str, str] | None = None
    body: str | None = None
    raw: str | None = None
    """Base64 of what could not be said in subject, headers and body."""


class LeftOutLine(Model):
    kind: Literal["left-out"] = "left-out"
    first: Position
    last: Position
    hash: Hash
    """The chain's after `last`."""


class End(Model):
    kind: Literal["end"] = "end"
    events: Count
    left_out: Count
    sha256: Hash
    """Over every line before this one, line feeds included."""


Line = Annotated[Header | DuplicateLine | EventLine | LeftOutLine | End, Field(discriminator="kind")]
LINE: TypeAdapter[Any] = TypeAdapter(Line)


async def export(
    log: Log, selection: Selection, now: datetime, assay: str, progress: Progress = unwatched
) -> AsyncIterator[Model]:
    """The lines, one after the other: nothing but the current page is held in memory."""
    digest = hashlib.sha256()
    events = left_out = 0
    async for line in _lines(log, selection, now, assay, progress):
        digest.update(encoded(line))
        events += isinstance(line, EventLine)
        left_out += line.last - line.first + 1 if isinstance(line, LeftOutLine) else 0
        yield line
    yield End(events=events, left_out=left_out, sha256=digest.hexdigest())


def encoded(line: Model) -> bytes:
    """The line as it stands in a file, and in the digest."""
    return line.model_dump_json(exclude_none=True).encode() + b"\n"


async def _lines(log: Log, selection: Selection, now: datetime, assay: str, progress: Progress) -> AsyncIterator[Model]:
    head, origin = await log.head(), await log.origin()
    partial = selection != Selection() or await log.partial()
    yield Header(
        assay=assay,
        origin=origin,
        exported_at=now,
        partial=partial,
        goal_id=selection.goal_id,
        types=selection.types,
        after=selection.after,
        upto=selection.upto,
        head=HeadLine(position=head.position, epoch=head.epoch, stream_seq=head.stream_seq, hash=head.hash.hex()),
        imports=tuple(sorted(one.origin for one in await log.imports())),
    )
    for duplicate in await log.duplicates():
        if duplicate.epoch != head.epoch or duplicate.stream_seq <= head.stream_seq:
            yield _duplicate_line(duplicate)
    async for line in _rows(log, selection, head, origin, progress):
        yield line


async def _rows(log: Log, selection: Selection, head: Head, origin: str, progress: Progress) -> AsyncIterator[Model]:
    gap: LeftOut | None = None
    async for one in log.walk(head.position):
        if isinstance(one, LeftOut):
            gap = LeftOut(gap.first if gap else one.first, one.last, one.hash)
            continue
        if not selection.takes(one):
            gap = LeftOut(gap.first if gap else one.position, one.position, one.hash)
        else:
            if gap:
                yield _left_out_line(gap)
            gap = None
            yield _event_line(one, origin)
        if one.position % PROGRESS_ROWS == 0:
            progress(one.position, head.position)
    if gap:
        yield _left_out_line(gap)


def _duplicate_line(one: Duplicate) -> DuplicateLine:
    return DuplicateLine(
        epoch=one.epoch,
        stream_seq=one.stream_seq,
        event_id=str(one.event_id),
        body_sha256=one.body_sha256,
        repeats=one.kind,
    )


def _left_out_line(one: LeftOut) -> LeftOutLine:
    return LeftOutLine(first=one.first, last=one.last, hash=one.hash.hex())


def _event_line(row: Row, origin: str) -> EventLine:
    return EventLine(
        position=row.position,
        origin=None if row.origin == origin else row.origin,
        epoch=row.epoch,
        stream_seq=row.stream_seq,
        recorded_at=row.recorded_at,
        hash=row.hash.hex(),
        **_content(row.raw),
    )


def _content(raw: bytes) -> dict[str, Any]:
    """Readable where nothing is lost by it."""
    message = unframe(raw)
    try:
        body = message.body.decode()
        "".join((message.subject, *message.headers, *message.headers.values())).encode()
    except UnicodeError:
        return {"raw": base64.b64encode(raw).decode()}
    if frame_kept(message) != raw:
        return {"raw": base64.b64encode(raw).decode()}
    return {"subject": message.subject, "headers": dict(message.headers), "body": body}


def row_of(line: EventLine, origin: str) -> Row:
    """The row that `line` was made of. Raises ValueError when it holds no message."""
    raw = _raw(line)
    return Row(
        position=line.position,
        origin=line.origin or origin,
        epoch=line.epoch,
        stream_seq=line.stream_seq,
        recorded_at=line.recorded_at,
        raw=raw,
        hash=bytes.fromhex(line.hash),
        **vars(derive(raw)),
    )


def _raw(line: EventLine) -> bytes:
    if line.raw is not None:
        return base64.b64decode(line.raw, validate=True)
    if line.subject is None or line.headers is None or line.body is None:
        raise ValueError("an event has subject, headers and body, or raw")
    return frame_kept(Message(line.subject, dict(sorted(line.headers.items())), line.body.encode()))
