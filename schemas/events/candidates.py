"""A candidate's way through the stages of the search."""

from uuid import UUID

from pydantic import Field

from schemas.enums import AbandonReason, Reason, Stage
from schemas.events.fact import Fact
from schemas.ids import GoalId
from schemas.measurement import Comparison
from schemas.requests import RawRequest
from schemas.verdict import Judgement
from schemas.work import Build, Counterexample, Kernel, Task


class CandidateProposed(Fact):
    """The candidate's id is this fact's event id. Stated by a proposer, or by the desk about what was submitted."""

    TYPE = "candidate.proposed.v1"
    goal_id: GoalId
    generation: int
    """Of a submission: the one that was open, or the next."""
    island: int
    strategy: str
    author: str
    """`assay/proposer/<strategy>`, or `unsigned/<name>` as the submitter calls himself."""
    parents: tuple[UUID, ...]
    kernel: Kernel
    task: Task
    note: str = ""
    """What the submitter says of it."""
    request: RawRequest | None = None
    """Of a submission."""

    @property
    def submitted(self) -> bool:
        """It came from outside, through the desk."""
        return self.request is not None


class CandidateCompiled(Fact):
    TYPE = "candidate.compiled.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    build: Build
    compile_ms: float
    warnings: str
    task: Task


class CandidateVerified(Fact):
    TYPE = "candidate.verified.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    build: Build
    judgement: Judgement
    task: Task


class CandidateMeasured(Fact):
    """A search measurement: it guides the search and is never a result."""

    TYPE = "candidate.measured.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    comparison: Comparison
    worth_more: bool
    """False when the screen was clearly below 0.9."""


class MeasurementRequested(Fact):
    """A measured candidate is among the best of its generation and is measured again, longer (successive halving)."""

    TYPE = "measurement.requested.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int = Field(ge=1)
    position: int
    build: Build
    task: Task


class CandidateRemeasured(Fact):
    """A longer search measurement, which replaces the one before it. Still never a result."""

    TYPE = "candidate.remeasured.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int
    comparison: Comparison


class MeasurementRefused(Fact):
    """The candidate did something while it was measured again for which it is out: its numbers count no more."""

    TYPE = "measurement.refused.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int
    reason: Reason
    message: str
    counterexample: Counterexample | None = None

    @property
    def stage(self) -> Stage:
        return Stage.MEASURE


class MeasurementNotRun(Fact):
    """Nobody's fault: the candidate keeps the number that it had."""

    TYPE = "measurement.not_run.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int
    reason: AbandonReason
    message: str


class CandidateRejected(Fact):
    TYPE = "candidate.rejected.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    stage: Stage
    reason: Reason
    message: str
    diagnostics: str = ""
    judgement: Judgement | None = None
    counterexample: Counterexample | None = None


class CandidateAbandoned(Fact):
    TYPE = "candidate.abandoned.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    stage: Stage
    reason: AbandonReason
    message: str
