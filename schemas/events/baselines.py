"""What the search competes with."""

from schemas.enums import AbandonReason
from schemas.events.fact import Fact
from schemas.ids import GoalId
from schemas.measurement import BaselineRace, Contender
from schemas.work import Contestant, Task


class BaselineDue(Fact):
    TYPE = "baseline.due.v1"
    goal_id: GoalId
    position: int
    attempt: int
    champion: Contestant | None
    """The latest champion of the same workload, shapes and route: a baseline like any other."""
    task: Task


class BaselineChosen(Fact):
    TYPE = "baseline.chosen.v1"
    goal_id: GoalId
    attempt: int
    race: BaselineRace


class BaselineNotFound(Fact):
    """No contender passed verification: there is nothing honest to compare with. Ends the goal."""

    TYPE = "baseline.not_found.v1"
    goal_id: GoalId
    attempt: int
    message: str
    contenders: tuple[Contender, ...] = ()


class BaselineAbandoned(Fact):
    TYPE = "baseline.abandoned.v1"
    goal_id: GoalId
    attempt: int
    reason: AbandonReason
    message: str
