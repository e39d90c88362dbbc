"""An export as a log to read and verify, with no database and no factory."""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from pydantic import ValidationError

from schemas.envelope import Recorded
from schemas.events import Fact
from schemas.faults import Broken, Bug, Fault, Misconfigured
from services.evidence.export import LINE, VERSION, DuplicateLine, End, EventLine, Header, LeftOutLine, row_of
from services.evidence.log import Appended, Duplicate, Head, Import, Incoming, LeftOut, Row
from services.evidence.parquet import is_parquet, texts
from services.evidence.rows import recorded
from services.evidence.stored_types import stored_types

MAX_LINE_BYTES = 4 * 1024 * 1024
"""Chosen: a fact of 512 KiB takes at most 3.1 MiB when every byte of it is escaped."""


class ExportFile:
    """The log in an export. Read from its beginning for every walk; nothing of it is kept but the duplicates."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.header, self._duplicates = _beginning(path)

    async def origin(self) -> str:
        return self.header.origin

    async def head(self) -> Head:
        head = self.header.head
        return Head(head.position, head.epoch, head.stream_seq, bytes.fromhex(head.hash))

    async def walk(self, upto: int, *, content: bool = True) -> AsyncIterator[Row | LeftOut]:
        """Every row and what is left out. Raises Broken, naming the line, when the file is not as it was written."""
        del content  # a line is read whole or not at all
        for number, line in _checked_lines(self._path):
            if isinstance(line, LeftOutLine):
                yield LeftOut(line.first, line.last, bytes.fromhex(line.hash))
            elif isinstance(line, EventLine):
                with _named(self._path, number):
                    row = row_of(line, self.header.origin)
                if row.position <= upto:
                    yield row

    async def rows(self, after: int = 0, upto: int | None = None) -> AsyncIterator[Row]:
        head = await self.head()
        async for one in self.walk(head.position):
            if isinstance(one, Row) and one.position > after and (upto is None or one.position <= upto):
                yield one

    async def read(
        self,
        after: int = 0,
        upto: int | None = None,
        goal_id: str | None = None,
        types: tuple[type[Fact], ...] = (),
    ) -> AsyncIterator[Recorded[Any]]:
        wanted = stored_types(types)
        async for row in self.rows(after, upto):
            if row.event_id is None or row.origin != self.header.origin or goal_id not in (None, row.goal_id):
                continue
            fact = recorded(row.position, row.raw, row.recorded_at) if not wanted or row.type in wanted else None
            if fact is not None:
                yield fact

    async def get(self, event_id: UUID) -> Recorded[Any] | None:
        async for row in self.rows():
            if row.event_id == event_id:
                return recorded(row.position, row.raw, row.recorded_at)
        return None

    async def position_of(self, event_id: UUID) -> int | None:
        async for row in self.rows():
            if row.event_id == event_id:
                return row.position
        return None

    async def census(self, upto: int | None = None) -> Mapping[str | None, int]:
        return Counter([row.type async for row in self.rows(upto=upto)])

    async def duplicates(self) -> tuple[Duplicate, ...]:
        return self._duplicates

    async def partial(self) -> bool:
        return self.header.partial

    async def imports(self) -> tuple[Import, ...]:
        head = await self.head()
        return tuple(Import(origin, head, partial=True) for origin in self.header.imports)

    async def refuses(self, data: str) -> bool:  # noqa: ARG002  the port asks for it
        """A file has no columns that could be blank."""
        return False

    async def append(self, batch: Sequence[Incoming]) -> Appended:
        raise Bug(f"{self._path} is an export: {len(batch)} messages cannot be recorded in it")

    async def open_epoch(self, head: Head, epoch: str, stream_seq: int) -> Head:  # noqa: ARG002  the port asks for it
        raise Bug(f"{self._path} is an export: epoch {epoch} cannot be opened in it")

    async def close(self) -> None:
        """Nothing is held."""


def _beginning(path: Path) -> tuple[Header, tuple[Duplicate, ...]]:
    """The header and the duplicates. Raises Misconfigured for a file that is no export, or another version's."""
    header: Header | None = None
    duplicates = []
    for number, text in _texts(path):
        if header is None:
            header = _header(path, text)
            continue
        line = _parsed(path, number, text)
        if not isinstance(line, DuplicateLine):
            break
        with _named(path, number):
            found = Duplicate(line.epoch, line.stream_seq, UUID(line.event_id), line.body_sha256, line.repeats)
        duplicates.append(found)
    if header is None:
        raise Misconfigured(f"{path} is empty; an export begins with a header")
    return header, tuple(duplicates)


def _header(path: Path, text: bytes) -> Header:
    try:
        return Header.model_validate_json(text)
    except ValidationError as error:
        version = _version(text)
        if version is None:
            raise Misconfigured(f"{path} is no export of Assay: its first line is no header") from error
        if version != VERSION:
            message = f"{path} is an export of version {version} and this Assay reads version {VERSION}"
            raise Misconfigured(f"{message}; use the Assay that wrote it, or a newer one") from error
        raise Broken(f"{path}, line 1: {_first(error)}") from error


def _version(text: bytes) -> object:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_header = isinstance(record, dict) and record.get("kind") == "assay-export"
    return record.get("version", "unknown") if is_header else None


def _checked_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Every line with its number. Raises Broken unless the last one is the end, and its digest that of the rest."""
    digest, events, left_out, end = hashlib.sha256(), 0, 0, None
    for number, text in _texts(path):
        if end is not None:
            raise Broken(f"{path}, line {number}: something follows the end of the export")
        line = _parsed(path, number, text)
        if isinstance(line, End):
            end = line
            continue
        digest.update(text)
        events += isinstance(line, EventLine)
        left_out += line.last - line.first + 1 if isinstance(line, LeftOutLine) else 0
        yield number, line
    if end is None:
        raise Broken(f"{path} is cut off: its last line is not the end of an export; copy it again")
    if (end.events, end.left_out) != (events, left_out):
        raise Broken(f"{path} has {events} events and leaves out {left_out}; its end says {end.events}, {end.left_out}")
    if end.sha256 != digest.hexdigest():
        raise Broken(f"{path} is not as it was written: the digest at its end is another one")


def _parsed(path: Path, number: int, text: bytes) -> Any:
    try:
        return LINE.validate_json(text)
    except ValidationError as error:
        raise Broken(f"{path}, line {number}: {_first(error)}") from error


def _texts(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines with their line feeds."""
    try:
        if is_parquet(path):
            yield from enumerate(texts(path), start=1)
            return
        with path.open("rb") as file:
            yield from enumerate(iter(lambda: _line(path, file), b""), start=1)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from error


def _line(path: Path, file: IO[bytes]) -> bytes:
    text = file.readline(MAX_LINE_BYTES)
    if len(text) == MAX_LINE_BYTES:
        raise Broken(f"{path} has a line of more than {MAX_LINE_BYTES >> 20} MiB: it is no export")
    return text


@contextmanager
def _named(path: Path, number: int) -> Iterator[None]:
    """Inside, what cannot be read is broken evidence of that line."""
    try:
        yield
    except (ValueError, Fault) as error:
        raise Broken(f"{path}, line {number}: {error}") from error


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc']) or '$'}: {first['msg']}"
