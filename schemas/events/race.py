"""The hold-out race, its champion, and the end of the goal."""

from uuid import UUID

from pydantic import Field

from schemas.enums import AbandonReason, EndedBy, Outcome
from schemas.events.fact import Fact
from schemas.ids import GoalId, Route
from schemas.measurement import Comparison, Race
from schemas.work import Build, Contestant, Task


class RaceDue(Fact):
    TYPE = "race.due.v1"
    goal_id: GoalId
    attempt: int
    position: int
    contestants: tuple[Contestant, ...] = Field(min_length=1, max_length=5)
    incumbent: Contestant | None
    """The best earlier champion of the same workload, shapes and route."""
    task: Task


class RaceFinished(Fact):
    TYPE = "race.finished.v1"
    goal_id: GoalId
    attempt: int
    race: Race


class RaceNotRun(Fact):
    TYPE = "race.not_run.v1"
    goal_id: GoalId
    attempt: int
    reason: AbandonReason
    message: str


class ChampionCrowned(Fact):
    TYPE = "champion.crowned.v1"
    goal_id: GoalId
    candidate_id: UUID
    workload: str
    route: Route
    build: Build
    comparison: Comparison
    """The hold-out race. Search numbers never reach here."""
    search_ratio: float | None
    lessons: tuple[str, ...]
    """Statements of the lessons whose condition the champion's genome meets."""


class GoalCompleted(Fact):
    TYPE = "goal.completed.v1"
    goal_id: GoalId
    ended_by: EndedBy
    outcome: Outcome
    champion_id: UUID | None
    message: str
