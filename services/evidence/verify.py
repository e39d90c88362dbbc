"""Does the evidence hold together? Walks the whole log once and names the first break (`assay events verify`)."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from uuid import UUID

from schemas.faults import Broken
from services.evidence.chain import GENESIS, link
from services.evidence.framing import unframe
from services.evidence.log import Duplicate, Head, Log, Row
from services.evidence.paths import Paths, is_submission
from services.evidence.rows import Derived, derive, derived_of
from services.evidence.same_json import same_json

Progress = Callable[[int, int], None]
"""Rows walked, and how many there are."""
PROGRESS_ROWS = 1000
RECENT_IDS = 65_536
"""Chosen: causes are nearly always recent; an older one costs one look-up in the log."""
ANSWERS_TO_REQUESTS = frozenset({"goal.accepted", "goal.refused", "goal.steered", "steer.refused", "candidate.refused"})
"""Their cause is a raw request on the intake stream, which the log holds inside the fact."""


class BreakKind(StrEnum):
    """What does not hold."""

    MISSING = "missing"
    """A position is not there."""
    DIGEST = "digest"
    """Raw, place, time or predecessor are not those that were hashed."""
    COLUMN = "column"
    """A column is not what raw says."""
    SEQUENCE = "sequence"
    """A stream sequence is neither a row nor a duplicate, or is both, or runs backwards."""
    CAUSE = "cause"
    """A fact names a cause that was not recorded before it."""
    PATH = "path"
    """A candidate was measured without the facts that lead there, or one question has two answers."""
    DUPLICATE = "duplicate"
    """What is said of a repeated message is not so."""
    HEAD = "head"
    """The log does not end where its head says."""


@dataclass(frozen=True)
class Break:
    """The first place where the log does not hold."""

    position: int
    kind: BreakKind
    message: str


@dataclass(frozen=True)
class Verification:
    """What was walked, and the first break if there is one."""

    rows: int
    unparseable: int
    duplicates: int
    divergent: int
    goals: int
    candidates: int
    late: int
    """Terminal facts about settled candidates: recorded, counted by no fold."""
    head: Head
    first_break: Break | None

    @property
    def holds(self) -> bool:
        return self.first_break is None


def _unwatched(_row: int, _of: int) -> None:
    """Progress that nobody watches."""


async def verify(log: Log, progress: Progress = _unwatched) -> Verification:
    """Every row of `log` was walked, up to its end or its first break. May run beside a recorder."""
    head = await log.head()
    walk = _Walk(log, await log.duplicates())
    found = await walk.rows_up_to(head, progress)
    found = found or walk.end(head) or await _rows_past_head(log, head)
    return walk.verification(head, found)


class _Walk:
    """State of one pass: flat but for two bits per candidate (paths.py) and the duplicates, which are rare."""

    def __init__(self, log: Log, duplicates: tuple[Duplicate, ...]) -> None:
        self._log = log
        self._duplicates = duplicates
        self._repeated_seqs = {one.stream_seq for one in duplicates}
        self._repeated_ids = {one.event_id for one in duplicates}
        self._first_bodies: dict[UUID, str] = {}
        self._recent: dict[UUID, None] = {}
        self._paths = Paths()
        self._position, self._hash, self._epoch, self._seq = 0, GENESIS, "", 0
        self._unparseable = 0

    async def rows_up_to(self, head: Head, progress: Progress) -> Break | None:
        async for row in self._log.rows(upto=head.position):
            found = await self._row(row)
            if found:
                return found
            self._pass(row)
            if row.position % PROGRESS_ROWS == 0:
                progress(row.position, head.position)
        return None

    def end(self, head: Head) -> Break | None:
        """The head is where the rows ended."""
        if self._position != head.position:
            missing = self._position + 1
            return Break(missing, BreakKind.MISSING, f"the head is at {head.position} and row {missing} is not there")
        if self._hash != head.hash:
            return Break(head.position, BreakKind.HEAD, "the head's hash is not the last row's")
        unaccounted = self._unaccounted(head.stream_seq + 1)
        if unaccounted or self._seq > head.stream_seq:
            return Break(
                head.position,
                BreakKind.SEQUENCE,
                f"the head is at stream sequence {head.stream_seq} and {unaccounted or self._seq} does not fit",
            )
        return next(self._wrong_duplicates(head), None)

    def verification(self, head: Head, found: Break | None) -> Verification:
        return Verification(
            rows=self._position,
            unparseable=self._unparseable,
            duplicates=len(self._duplicates),
            divergent=sum(one.kind == "divergent" for one in self._duplicates),
            goals=self._paths.goals,
            candidates=self._paths.candidates,
            late=self._paths.late,
            head=head,
            first_break=found,
        )

    async def _row(self, row: Row) -> Break | None:
        return (
            self._place(row)
            or self._digest(row)
            or await self._columns(row)
            or self._sequence(row)
            or await self._cause(row)
            or self._path(row)
        )

    def _place(self, row: Row) -> Break | None:
        expected = self._position + 1
        if row.position == expected:
            return None
        return Break(expected, BreakKind.MISSING, f"row {expected} is not there; the next one is {row.position}")

    def _digest(self, row: Row) -> Break | None:
        hashed = link(self._hash, row.position, row.origin, row.epoch, row.stream_seq, row.recorded_at, row.raw)
        if hashed == row.hash:
            return None
        return Break(
            row.position,
            BreakKind.DIGEST,
            "the hash does not follow from the row before it, its place, its time of recording and raw",
        )

    async def _columns(self, row: Row) -> Break | None:
        try:
            wanted = derive(row.raw)
        except Broken as error:
            return Break(row.position, BreakKind.COLUMN, str(error))
        found = derived_of(row)
        wrong = _differing(wanted, found)
        if wrong is None or await self._rightly_blank(wanted, found):
            return None
        told, true = getattr(found, wrong), getattr(wanted, wrong)
        return Break(row.position, BreakKind.COLUMN, f"{wrong} is {str(told)[:200]!r} and raw says {str(true)[:200]!r}")

    async def _rightly_blank(self, wanted: Derived, found: Derived) -> bool:
        blank = found == Derived(found.subject)
        return blank and wanted.data is not None and await self._log.refuses(wanted.data)

    def _sequence(self, row: Row) -> Break | None:
        if self._epoch not in ("", row.epoch):
            return Break(row.position, BreakKind.SEQUENCE, f"epoch {row.epoch} follows {self._epoch}")
        if row.stream_seq <= self._seq:
            message = f"stream sequence {row.stream_seq} follows {self._seq}"
            return Break(row.position, BreakKind.SEQUENCE, message)
        if row.stream_seq in self._repeated_seqs:
            message = f"stream sequence {row.stream_seq} is a row and a duplicate"
            return Break(row.position, BreakKind.SEQUENCE, message)
        missing = self._unaccounted(row.stream_seq)
        if missing is None:
            return None
        return Break(row.position, BreakKind.SEQUENCE, f"stream sequence {missing} is neither a row nor a duplicate")

    def _unaccounted(self, before: int) -> int | None:
        """The first sequence after the last row and under `before` that no duplicate accounts for."""
        return next((seq for seq in range(self._seq + 1, before) if seq not in self._repeated_seqs), None)

    async def _cause(self, row: Row) -> Break | None:
        cause = row.causation_id
        if cause is None or cause in self._recent or _answers_a_request(row):
            return None
        recorded_at = await self._log.position_of(cause)
        if recorded_at is not None and recorded_at < row.position:
            return None
        where = "nowhere" if recorded_at is None else f"at {recorded_at}"
        return Break(row.position, BreakKind.CAUSE, f"its cause {cause} is recorded {where}")

    def _path(self, row: Row) -> Break | None:
        wrong = self._paths.follow(row, _kind(row))
        return Break(row.position, BreakKind.PATH, wrong) if wrong else None

    def _pass(self, row: Row) -> None:
        """`row` holds: it is what the next one is judged against."""
        self._position, self._hash, self._epoch, self._seq = row.position, row.hash, row.epoch, row.stream_seq
        if row.event_id is None:
            self._unparseable += 1
            return
        if row.event_id in self._repeated_ids:
            self._first_bodies[row.event_id] = hashlib.sha256(unframe(row.raw).body).hexdigest()
        self._recent[row.event_id] = None
        if len(self._recent) > RECENT_IDS:
            del self._recent[next(iter(self._recent))]

    def _wrong_duplicates(self, head: Head) -> Iterator[Break]:
        for one in self._duplicates:
            if one.stream_seq > head.stream_seq:
                continue  # recorded after this walk began
            first = self._first_bodies.get(one.event_id)
            kind = "same_body" if first == one.body_sha256 else "divergent"
            if first is None or kind != one.kind:
                found = "no row has its id" if first is None else f"its body is {kind}"
                message = f"stream sequence {one.stream_seq} is said to be a {one.kind} duplicate; {found}"
                yield Break(head.position, BreakKind.DUPLICATE, message)


async def _rows_past_head(log: Log, head: Head) -> Break | None:
    """Rows past the head are there only when the head has moved on since."""
    last = head.position
    async for row in log.rows(after=head.position):
        last = row.position
    moved = await log.head()
    if last <= moved.position:
        return None
    return Break(moved.position + 1, BreakKind.HEAD, f"row {last} lies past the head, which is at {moved.position}")


def _differing(wanted: Derived, found: Derived) -> str | None:
    """The first column that is not as derived."""
    for field in fields(Derived):
        if field.name != "data" and getattr(wanted, field.name) != getattr(found, field.name):
            return field.name
    return None if same_json(wanted.data, found.data) else "data"


def _answers_a_request(row: Row) -> bool:
    kind = _kind(row)
    return kind in ANSWERS_TO_REQUESTS or is_submission(row, kind)


def _kind(row: Row) -> str:
    """`candidate.measured` for any version of it."""
    return row.type.rpartition(".")[0] if row.type else ""
