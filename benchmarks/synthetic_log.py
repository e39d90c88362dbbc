"""A log of any length that is made while it is read: whole goals, ids derived as in production, one gapless chain."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from uuid import UUID

from schemas.envelope import Message
from schemas.framing import frame
from schemas.ids import answer_id, due_id
from services.evidence.admission import chained, read
from services.evidence.chain import GENESIS, link
from services.evidence.log import Head, Incoming, LeftOut, Row
from services.evidence.memory_log import MemoryLog
from tests.fixtures.facts import BEGIN, EPOCH, id_of, story

CANDIDATES = 100
NAME = "g{:07d}"
ORIGIN = "22222222-2222-4222-8222-222222222222"
SLOTS = ("propose", "compile", "verify", "measure")


@dataclass(frozen=True)
class _Place:
    """One fact of a goal: how its id is derived, and from which fact before it."""

    cause: int | None
    slot: str
    ordinal: int = 0
    candidate: int | None = None
    """Where its candidate was proposed."""


class SyntheticLog(MemoryLog):
    """The log of `events` facts. Nothing of it is kept."""

    def __init__(self, events: int) -> None:
        super().__init__(origin=ORIGIN)
        self._events = events
        self._end: Head | None = None

    async def head(self) -> Head:
        """Found by making the whole log once, unread."""
        if self._end is None:
            previous = GENESIS
            for position, message in self._numbered():
                previous = link(previous, position, ORIGIN, EPOCH, position, BEGIN, frame(message))
            self._end = Head(self._events, EPOCH, self._events, previous)
        return self._end

    async def walk(self, upto: int, *, content: bool = True) -> AsyncIterator[Row | LeftOut]:
        del content
        for row in self._made():
            if row.position <= upto:
                yield row

    def _made(self) -> Iterator[Row]:
        head = Head(0, EPOCH, 0, GENESIS)
        for position, message in self._numbered():
            arrival = read(Incoming(message, EPOCH, position))
            (row,) = chained(head, ORIGIN, (arrival,), BEGIN)
            head = Head(position, EPOCH, position, row.hash)
            yield row

    def _numbered(self) -> Iterator[tuple[int, Message]]:
        goals = (self._goal(NAME.format(number)) for number in count())
        return zip(range(1, self._events + 1), chain.from_iterable(goals), strict=False)

    def _goal(self, name: str) -> Iterator[Message]:
        ids: list[UUID] = []
        for place, message in zip(self._places, self._template, strict=True):
            cause = ids[place.cause] if place.cause is not None else None
            if place.slot in SLOTS and cause is not None:
                ids.append(answer_id(cause, place.slot, place.ordinal))
            else:
                ids.append(due_id(name, place.slot))
            yield _renamed(message, name, ids, self._old, place)

    @cached_property
    def _template(self) -> tuple[Message, ...]:
        return story(NAME.format(0), candidates=CANDIDATES)

    @cached_property
    def _old(self) -> tuple[UUID, ...]:
        return tuple(id_of(message) for message in self._template)

    @cached_property
    def _places(self) -> tuple[_Place, ...]:
        """As `story` tells a goal."""
        places = [_Place(None, "accept"), _Place(0, "generation")]
        for ordinal in range(CANDIDATES):
            first = len(places)
            places.append(_Place(1, "propose", ordinal))
            last = "verify" if ordinal == CANDIDATES - 1 else "measure"
            for slot in SLOTS[1 : SLOTS.index(last) + 1]:
                places.append(_Place(len(places) - 1, slot, candidate=first))
        return (*places, _Place(0, "completed"))


def _renamed(message: Message, name: str, ids: list[UUID], old: tuple[UUID, ...], place: _Place) -> Message:
    """`message` of the template, about the goal `name`."""
    body = message.body.replace(NAME.format(0).encode(), name.encode())
    if place.candidate is not None:
        body = body.replace(str(old[place.candidate]).encode(), str(ids[place.candidate]).encode())
    headers = {**message.headers, "ce-id": str(ids[-1]), "ce-subject": name}
    if place.cause is not None and "ce-causationid" in headers:
        headers["ce-causationid"] = str(ids[place.cause])
    return replace(message, subject=message.subject.replace(NAME.format(0), name), headers=headers, body=body)
