"""Does the evidence hold together? Walks the whole log once and names the first break (`assay events verify`)."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from uuid import UUID

from schemas.envelope import Message
from schemas.events import EpochOpened
from schemas.faults import Broken
from schemas.framing import unframe
from services.evidence import checkpoints, identities
from services.evidence.breaks import Break, BreakKind
from services.evidence.checkpoints import Found
from services.evidence.log import Duplicate, Head, LeftOut, Log, Row
from services.evidence.paths import Paths, is_submission
from services.evidence.provenance import Provenance
from services.evidence.rows import Derived, derive_from, derived_of
from services.evidence.same_json import same_json
from services.evidence.succession import Succession

Progress = Callable[[int, int], None]
"""Rows walked, and how many there are."""
PROGRESS_ROWS = 1000
ANSWERS_TO_REQUESTS = frozenset({"goal.accepted", "goal.refused", "goal.steered", "steer.refused", "candidate.refused"})
"""Their cause is a raw request on the intake stream, which the log holds inside the fact."""


@dataclass(frozen=True)
class Trust:
    """What the auditor brings along."""

    bootstrap_keys: frozenset[str] = frozenset()
    """Fingerprints of the keys that certify: one, and those before it where it was replaced. Without any, a log that
    was signed anew by somebody else looks sound."""
    checkpoints: tuple[Found, ...] = ()
    """Without them a cut tail, or a history rewritten by whoever holds the keys, looks sound."""
    chain_only: bool = False
    """Positions, chain, stream sequences, head and checkpoints only: many times faster."""


NOTHING_BROUGHT = Trust()


@dataclass(frozen=True)
class Verification:
    """What was walked, and the first break if there is one."""

    origin: str
    rows: int
    left_out: int
    """Rows that this copy does not hold, because it is partial."""
    foreign: int
    """Rows imported from other logs; each of those logs is verified on its own."""
    unparseable: int
    duplicates: int
    divergent: int
    goals: int
    candidates: int
    late: int
    """Terminal facts about settled candidates: recorded, counted by no fold."""
    signed: int
    unsigned: int
    bootstrap_keys: tuple[str, ...]
    """Those that certified, the newest last: among the auditor's, or the first one that the log names."""
    checkpoints: int
    """Signed checkpoints that agree."""
    head: Head
    first_break: Break | None

    @property
    def holds(self) -> bool:
        return self.first_break is None

    @property
    def is_partial(self) -> bool:
        return self.left_out > 0


def unwatched(_row: int, _of: int) -> None:
    """Progress that nobody watches."""


async def verify(log: Log, progress: Progress = unwatched, trust: Trust = NOTHING_BROUGHT) -> Verification:
    """Every row of `log` was walked, up to its end or its first break. May run beside a recorder."""
    head = await log.head()
    imported = frozenset(one.origin for one in await log.imports())
    walk = _Walk(log, await log.origin(), imported, await log.duplicates(), trust, await opened_epochs(log))
    found = walk.checkpoints_in_doubt()
    found = found or await walk.rows_up_to(head, progress)
    found = found or walk.end(head) or await _rows_past_head(log, head)
    return walk.verification(head, found)


async def opened_epochs(log: Log) -> Mapping[str, EpochOpened]:
    """The facts that let the log go on with another stream, by epoch; the first of each counts."""
    found: dict[str, EpochOpened] = {}
    async for recorded in log.read(types=(EpochOpened,)):
        found.setdefault(recorded.fact.epoch, recorded.fact)
    return found


class _Walk:
    """State of one pass: one id per fact, two bits per candidate (paths.py), a few keys, and what is rare."""

    def __init__(
        self,
        log: Log,
        origin: str,
        imported: frozenset[str],
        duplicates: tuple[Duplicate, ...],
        trust: Trust,
        opened: Mapping[str, EpochOpened],
    ) -> None:
        self._log = log
        self._origin = origin
        self._known_origins = imported | {origin}
        self._trust = trust
        self._duplicates = duplicates
        self._repeated_ids = {one.event_id for one in duplicates}
        self._first_bodies: dict[UUID, str] = {}
        self._ids: set[int] = set()
        self._succession = Succession(duplicates, opened)
        self._paths = Paths()
        self._provenance = Provenance(trust.bootstrap_keys)
        self._checkpoints = checkpoints.by_position(trust.checkpoints, origin)
        self._agreed = 0
        self._rows, self._foreign, self._unparseable = 0, 0, 0

    def checkpoints_in_doubt(self) -> Break | None:
        """Every checkpoint is about a log that is known here, and a certified librarian signed those about this one."""
        for one in self._trust.checkpoints:
            own = one.checkpoint.origin == self._origin
            wrong = checkpoints.objection(one.checkpoint, self._trust.bootstrap_keys if own else frozenset())
            if wrong:
                return Break(one.checkpoint.position, BreakKind.CHECKPOINT, f"{one.path.name}: {wrong}")
        strangers = checkpoints.origins(self._trust.checkpoints) - self._known_origins
        if strangers:
            message = f"a checkpoint is about log {min(strangers)}, and this is {self._origin}: it was replaced"
            return Break(0, BreakKind.CHECKPOINT, message)
        return None

    async def rows_up_to(self, head: Head, progress: Progress) -> Break | None:
        async for one in self._log.walk(head.position, content=not self._trust.chain_only):
            found = self._succession.skip(one) if isinstance(one, LeftOut) else await self._row(one)
            found = found or self._checkpoint()
            if found:
                return found
            if self._succession.position % PROGRESS_ROWS == 0:
                progress(self._succession.position, head.position)
        return None

    def end(self, head: Head) -> Break | None:
        """The head, every checkpoint, every duplicate and every service's key are accounted for."""
        found = self._succession.end(head)
        if found:
            return found
        past = [one for one in self._checkpoints if one > head.position]
        if past:
            name = self._checkpoints[min(past)][0].path.name
            message = f"{name} was written at position {min(past)}: the end was cut off"
            return Break(head.position + 1, BreakKind.CHECKPOINT, message)
        if self._trust.chain_only:
            return None
        nameless = self._provenance.end()
        if nameless:
            return Break(nameless[0], BreakKind.SIGNATURE, nameless[1])
        return next(self._wrong_duplicates(head), None)

    def verification(self, head: Head, found: Break | None) -> Verification:
        return Verification(
            origin=self._origin,
            rows=self._rows,
            left_out=self._succession.left_out,
            foreign=self._foreign,
            unparseable=self._unparseable,
            duplicates=len(self._duplicates),
            divergent=sum(one.kind == "divergent" for one in self._duplicates),
            goals=self._paths.goals,
            candidates=self._paths.candidates,
            late=self._paths.late,
            signed=self._provenance.signed,
            unsigned=self._provenance.unsigned,
            bootstrap_keys=self._provenance.issuers,
            checkpoints=self._agreed,
            head=head,
            first_break=found,
        )

    async def _row(self, row: Row) -> Break | None:
        found = self._succession.follows(row)
        if found:
            return found
        own = row.origin == self._origin
        found = self._succession.sequence(row) if own else self._known(row)
        if not found and not self._trust.chain_only:
            found = await self._content(row, own=own)
        if not found:
            self._succession.step(row, own=own)
            self._rows += 1
            self._foreign += not own
            self._unparseable += row.event_id is None and not self._trust.chain_only
        return found

    def _known(self, row: Row) -> Break | None:
        if row.origin in self._known_origins:
            return None
        return Break(row.position, BreakKind.ORIGIN, f"the row is of log {row.origin}, which was never imported here")

    async def _content(self, row: Row, *, own: bool) -> Break | None:
        """What the row says is what its raw says, and it may say so."""
        try:
            message = unframe(row.raw)
        except Broken as error:
            return Break(row.position, BreakKind.COLUMN, str(error))
        found = await self._columns(row, message)
        if found or not own or row.event_id is None:
            return found
        kind = _kind(row)
        found = await self._id(row, kind) or await self._cause(row, kind) or self._path(row, kind)
        wrong = None if found else self._provenance.follow(row, message)
        if wrong:
            return Break(row.position, BreakKind.SIGNATURE, wrong)
        self._remember(row.event_id, message)
        return found

    async def _columns(self, row: Row, message: Message) -> Break | None:
        wanted, found = derive_from(message), derived_of(row)
        wrong = _differing(wanted, found)
        if wrong is None or await self._rightly_blank(wanted, found):
            return None
        told, true = getattr(found, wrong), getattr(wanted, wrong)
        return Break(row.position, BreakKind.COLUMN, f"{wrong} is {str(told)[:200]!r} and raw says {str(true)[:200]!r}")

    async def _rightly_blank(self, wanted: Derived, found: Derived) -> bool:
        blank = found == Derived(found.subject)
        return blank and wanted.data is not None and await self._log.refuses(wanted.data)

    async def _id(self, row: Row, kind: str) -> Break | None:
        assert row.event_id is not None
        if row.event_id.int in self._ids:
            return Break(row.position, BreakKind.ID, f"its id {row.event_id} was recorded before")
        if identities.derived(row, kind):
            return None
        message = f"its id {row.event_id} does not follow from the decision that {kind} is"
        return Break(row.position, BreakKind.ID, message)

    async def _cause(self, row: Row, kind: str) -> Break | None:
        cause = row.causation_id
        if cause is None or cause.int in self._ids or _answers_a_request(row, kind) or self._succession.left_out:
            return None
        recorded_at = await self._log.position_of(cause)
        where = "nowhere" if recorded_at is None else f"at {recorded_at}"
        return Break(row.position, BreakKind.CAUSE, f"its cause {cause} is recorded {where}")

    def _path(self, row: Row, kind: str) -> Break | None:
        wrong = self._paths.follow(row, kind, whole=not self._succession.left_out)
        return Break(row.position, BreakKind.PATH, wrong) if wrong else None

    def _remember(self, event_id: UUID, message: Message) -> None:
        """What later rows and the duplicates are judged against."""
        self._ids.add(event_id.int)
        if event_id in self._repeated_ids:
            self._first_bodies[event_id] = hashlib.sha256(message.body).hexdigest()

    def _checkpoint(self) -> Break | None:
        """A checkpoint written here says the same hash."""
        for one in self._checkpoints.get(self._succession.position, ()):
            if one.checkpoint.chain != self._succession.hash:
                message = f"{one.path.name} has another hash: history was written anew at or before this position"
                return Break(self._succession.position, BreakKind.CHECKPOINT, message)
            self._agreed += 1
        return None

    def _wrong_duplicates(self, head: Head) -> Iterator[Break]:
        if self._succession.left_out:
            return
        for one in self._duplicates:
            if one.epoch == head.epoch and one.stream_seq > head.stream_seq:
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


def _answers_a_request(row: Row, kind: str) -> bool:
    return kind in ANSWERS_TO_REQUESTS or is_submission(row, kind)


def _kind(row: Row) -> str:
    """`candidate.measured` for any version of it."""
    return row.type.rpartition(".")[0] if row.type else ""
