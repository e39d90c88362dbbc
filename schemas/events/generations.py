"""A generation from its due to its close, and what it taught."""

from uuid import UUID

from schemas.enums import AbandonReason
from schemas.events.fact import Fact
from schemas.ids import GoalId
from schemas.lesson import Lesson
from schemas.work import Counterexample, Task


class GenerationDue(Fact):
    TYPE = "generation.due.v1"
    goal_id: GoalId
    generation: int
    attempt: int
    position: int
    """The proposer's brief is the log up to exactly here."""
    seed: int
    size: int
    task: Task


class GenerationOpened(Fact):
    TYPE = "generation.opened.v1"
    goal_id: GoalId
    generation: int
    candidate_ids: tuple[UUID, ...]


class SearchExhausted(Fact):
    TYPE = "search.exhausted.v1"
    goal_id: GoalId
    generation: int
    message: str


class GenerationAbandoned(Fact):
    TYPE = "generation.abandoned.v1"
    goal_id: GoalId
    generation: int
    attempt: int
    reason: AbandonReason
    message: str


class CounterexampleKept(Fact):
    TYPE = "counterexample.kept.v1"
    goal_id: GoalId
    counterexample: Counterexample


class LessonRecorded(Fact):
    TYPE = "lesson.recorded.v1"
    goal_id: GoalId
    generation: int
    lesson: Lesson
    evidence: tuple[UUID, ...]
    """Candidates counted, at most 64 named."""


class GenerationClosed(Fact):
    TYPE = "generation.closed.v1"
    goal_id: GoalId
    generation: int
    proposed: int
    compiled: int
    verified: int
    measured: int
    rejected: dict[str, int]
    """By reason."""
    abandoned: int
    best_candidate: UUID | None
    best_search_ratio: float | None
