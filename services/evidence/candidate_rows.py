"""One row per candidate, as facts move it: what `candidate list` and `candidate show` read."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from schemas.enums import Stage
from schemas.envelope import Recorded
from schemas.events import (
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    ChampionCrowned,
    FinalistAbandoned,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    MeasurementRefused,
)
from services.evidence.goal_parts import CandidateState, GoalPhase
from services.evidence.goal_state import GoalState


class CandidateStatus(StrEnum):
    """How far a candidate came in the search."""

    PROPOSED = "proposed"
    COMPILED = "compiled"
    VERIFIED = "verified"
    MEASURED = "measured"
    REJECTED = "rejected"
    ABANDONED = "abandoned"
    DROPPED = "dropped"
    """Its generation or goal ended without it: the time was up, or the generation was given up."""


class FinalsStatus(StrEnum):
    NOMINATED = "nominated"
    PROVEN = "proven"
    REJECTED = "rejected"
    ABANDONED = "abandoned"
    CHAMPION = "champion"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The part of a row that never changes."""

    candidate_id: UUID
    goal_id: str
    generation: int
    island: int
    strategy: str
    author: str
    language: str
    variant: str
    fingerprint: str
    proposed_at: datetime


@dataclass(frozen=True, slots=True)
class Move:
    """The part that facts change; None leaves a column as it is."""

    status: CandidateStatus | None = None
    stage: str | None = None
    reason: str | None = None
    message: str | None = None
    search_ratio: float | None = None
    verdict: str | None = None
    finals: FinalsStatus | None = None

    def then(self, later: "Move") -> "Move":
        """Both moves as one."""
        changes = {name: value for name in Move.__slots__ if (value := getattr(later, name)) is not None}
        return replace(self, **changes)


def proposal_of(recorded: Recorded[CandidateProposed]) -> Proposal:
    fact = recorded.fact
    return Proposal(
        candidate_id=recorded.id,
        goal_id=fact.goal_id,
        generation=fact.generation,
        island=fact.island,
        strategy=fact.strategy,
        author=fact.author,
        language=fact.kernel.language.value,
        variant=fact.kernel.variant,
        fingerprint=fact.kernel.fingerprint,
        proposed_at=recorded.recorded_at,
    )


def move_of(fact: Any) -> Move | None:
    """What a counted fact changes in its candidate's row."""
    match fact:
        case CandidateCompiled():
            return Move(CandidateStatus.COMPILED)
        case CandidateVerified():
            return Move(CandidateStatus.VERIFIED)
        case CandidateMeasured(comparison=comparison) | CandidateRemeasured(comparison=comparison):
            ratio = comparison.ratio.estimate if comparison.ratio else None
            return Move(CandidateStatus.MEASURED, search_ratio=ratio, verdict=comparison.verdict.value)
        case MeasurementRefused():
            return Move(
                CandidateStatus.REJECTED, stage=Stage.MEASURE.value, reason=fact.reason.value, message=fact.message
            )
        case CandidateRejected():
            return Move(
                CandidateStatus.REJECTED, stage=fact.stage.value, reason=fact.reason.value, message=fact.message
            )
        case CandidateAbandoned():
            return Move(
                CandidateStatus.ABANDONED, stage=fact.stage.value, reason=fact.reason.value, message=fact.message
            )
        case FinalistNominated():
            return Move(finals=FinalsStatus.NOMINATED)
        case FinalistProven():
            return Move(finals=FinalsStatus.PROVEN)
        case FinalistRejected():
            return Move(finals=FinalsStatus.REJECTED, reason=fact.reason.value, message=fact.message)
        case FinalistAbandoned():
            return Move(finals=FinalsStatus.ABANDONED, reason=fact.reason.value, message=fact.message)
        case ChampionCrowned():
            return Move(finals=FinalsStatus.CHAMPION)
        case _:
            return None


def dropped(before: GoalState, after: GoalState) -> tuple[UUID, ...]:
    """Candidates whose generation, or goal, is gone in this step before they were settled."""
    ended = after.phase is GoalPhase.COMPLETED
    old, new = before.generation, after.generation
    gone: dict[UUID, CandidateState] = {}
    if old is not None and (ended or new is None or new.due_id != old.due_id):
        gone.update(old.candidates)
    gone.update({id_: one for id_, one in before.submissions.items() if ended or id_ not in after.submissions})
    return tuple(id_ for id_, candidate in gone.items() if candidate.end is None)
