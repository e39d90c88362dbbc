"""The parts of a goal's state: generation, finals, race and the clock, each frozen."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from schemas.enums import Reason
from schemas.work import Build, Counterexample, Genome


class GoalPhase(StrEnum):
    """Where on its path a goal is."""

    WAITING = "waiting"
    """For a route that fits its target."""
    BASELINES = "baselines"
    SEARCHING = "searching"
    FINALS = "finals"
    RACING = "racing"
    COMPLETED = "completed"


class End(StrEnum):
    """How the work on a candidate or a finalist was settled."""

    MEASURED = "measured"
    REJECTED = "rejected"
    ABANDONED = "abandoned"
    PROVEN = "proven"


@dataclass(frozen=True, slots=True)
class CandidateState:
    """One candidate of the running generation, or one that was submitted meanwhile."""

    genome: Genome
    fingerprint: str
    compiled: bool = False
    verified: bool = False
    build: Build | None = None
    """As verified: what a longer measurement needs."""
    end: End | None = None
    search_ratio: float | None = None
    """Of the longest look so far; None when there is none that says anything."""
    worth: float | None = None
    """Of the same look: what candidates are ordered by."""
    looks: tuple[float, ...] = ()
    """The worth that the screen and each longer look found, as far as the candidate went on: append-only."""
    asked: int = 0
    """The last round of halving that it was asked for."""
    answered: int = 0
    reason: Reason | None = None
    counterexample: Counterexample | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How far candidates came. `compiled` and `verified` include those that went on."""

    proposed: int = 0
    compiled: int = 0
    verified: int = 0
    measured: int = 0
    abandoned: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    """By reason."""

    def plus(self, other: "Counts") -> "Counts":
        return Counts(
            proposed=self.proposed + other.proposed,
            compiled=self.compiled + other.compiled,
            verified=self.verified + other.verified,
            measured=self.measured + other.measured,
            abandoned=self.abandoned + other.abandoned,
            rejected=dict(Counter(self.rejected) + Counter(other.rejected)),
        )


def count(candidates: Iterable[CandidateState]) -> Counts:
    """The counts of `candidates`."""
    every = tuple(candidates)
    return Counts(
        proposed=len(every),
        compiled=sum(one.compiled for one in every),
        verified=sum(one.verified for one in every),
        measured=sum(one.end is End.MEASURED for one in every),
        abandoned=sum(one.end is End.ABANDONED for one in every),
        rejected=dict(Counter(one.reason.value for one in every if one.reason is not None)),
    )


@dataclass(frozen=True, slots=True)
class Generation:
    """The generation that is due or under way."""

    due_id: UUID
    number: int
    attempt: int
    candidates: Mapping[UUID, CandidateState]
    opened: tuple[UUID, ...] | None = None
    """None until generation.opened; the ids that were proposed before it."""
    exhausted: bool = False
    abandoned: bool = False

    @property
    def settled(self) -> bool:
        """Every id of generation.opened has its terminal fact."""
        return self.opened is not None and all(candidate.end is not None for candidate in self.members().values())

    def members(self) -> dict[UUID, CandidateState]:
        """The candidates that the generation opened with, in that order."""
        return {id_: self.candidates[id_] for id_ in self.opened or ()}


class Best(NamedTuple):
    """The candidate that leads a search."""

    candidate_id: UUID
    search_ratio: float
    worth: float

    def beats(self, other: "Best | None") -> bool:
        """It is worth more than `other`, which led before it."""
        return other is None or self.worth > other.worth


def best_of(candidates: Mapping[UUID, CandidateState]) -> Best | None:
    """Among the candidates measured longest, the one that is worth most; the first of equals. A short look at many
    finds a lucky one."""
    known = [
        (len(one.looks), Best(id_, one.search_ratio, one.worth))
        for id_, one in candidates.items()
        if one.search_ratio is not None and one.worth is not None
    ]
    return max(known, key=lambda row: (row[0], row[1].worth), default=(0, None))[1]


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of one closed generation, and of what was submitted meanwhile."""

    standing: Mapping[str, UUID]
    """Fingerprint to candidate, of all that were not abandoned."""
    measured: frozenset[UUID]
    """Those with a search ratio."""


def past_of(candidates: Mapping[UUID, CandidateState]) -> Past:
    """`candidates`, which are settled for good."""
    return Past(
        standing={one.fingerprint: id_ for id_, one in candidates.items() if one.end is not End.ABANDONED},
        measured=frozenset(id_ for id_, one in candidates.items() if one.search_ratio is not None),
    )


@dataclass(frozen=True, slots=True)
class FinalistState:
    """A nominated candidate on the deep rungs."""

    build: Build
    search_ratio: float
    end: End | None = None
    reason: Reason | None = None
    """Why it was rejected."""
    counterexample: Counterexample | None = None


@dataclass(frozen=True, slots=True)
class Finals:
    """The finals that are due or under way."""

    due_id: UUID
    attempt: int
    finalists: Mapping[UUID, FinalistState]
    earlier: tuple[Reason, ...] = ()
    """Why finalists of earlier attempts were rejected."""
    opened: tuple[UUID, ...] | None = None
    abandoned: bool = False

    @property
    def settled(self) -> bool:
        """Every id of finals.opened is proven, rejected or abandoned."""
        return self.opened is not None and all(finalist.end is not None for finalist in self.members().values())

    def members(self) -> dict[UUID, FinalistState]:
        """The finalists that the finals opened with, in that order."""
        return {id_: self.finalists[id_] for id_ in self.opened or ()}

    @property
    def rejections(self) -> tuple[Reason, ...]:
        """Why finalists were rejected, in this attempt and before it."""
        return self.earlier + tuple(one.reason for one in self.members().values() if one.reason is not None)

    @property
    def in_vain(self) -> bool:
        """Nobody is proven and somebody was rejected: his place is for the next."""
        return self.settled and not self.proven() and len(self.rejections) > len(self.earlier)

    def proven(self) -> dict[UUID, FinalistState]:
        return {id_: finalist for id_, finalist in self.members().items() if finalist.end is End.PROVEN}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Work that one benchmarker does for the whole goal: the baselines, the race."""

    due_id: UUID
    number: int
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """When a deadline began to run, and how long it stood still since."""

    started_at: datetime
    paused: timedelta = timedelta(0)

    def deadline(self, wall_s: float) -> datetime:
        return self.started_at + timedelta(seconds=wall_s) + self.paused
