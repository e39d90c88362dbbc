"""Finalists and their proofs."""

from uuid import UUID

from schemas.enums import AbandonReason, EndedBy, Reason, Rung
from schemas.events.fact import Fact
from schemas.ids import GoalId
from schemas.verdict import Judgement
from schemas.work import Build, Counterexample, Task


class FinalsDue(Fact):
    TYPE = "finals.due.v1"
    goal_id: GoalId
    attempt: int
    position: int
    ended_by: EndedBy
    finalists: int
    task: Task


class FinalistNominated(Fact):
    """The finalist's id is its candidate's id."""

    TYPE = "finalist.nominated.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    rank: int
    search_ratio: float
    build: Build
    task: Task


class FinalsOpened(Fact):
    TYPE = "finals.opened.v1"
    goal_id: GoalId
    attempt: int
    candidate_ids: tuple[UUID, ...]


class FinalsAbandoned(Fact):
    TYPE = "finals.abandoned.v1"
    goal_id: GoalId
    attempt: int
    reason: AbandonReason
    message: str


class FinalistProven(Fact):
    TYPE = "finalist.proven.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    build: Build
    judgement: Judgement


class FinalistRejected(Fact):
    TYPE = "finalist.rejected.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    reason: Reason
    rung: Rung | None
    message: str
    judgement: Judgement | None = None
    counterexample: Counterexample | None = None


class FinalistAbandoned(Fact):
    TYPE = "finalist.abandoned.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    reason: AbandonReason
    message: str
