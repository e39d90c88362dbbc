"""What every fact is."""

from typing import ClassVar

from schemas.ids import ANY_ROUTE, GoalId, Route
from schemas.model import Model
from schemas.work import Task


class Fact(Model):
    """Base of every fact. `TYPE` is `<noun>.<participle>.v<version>`."""

    TYPE: ClassVar[str]

    @property
    def routed_to(self) -> Route:
        """The route token of the subject."""
        task: Task | None = getattr(self, "task", None)
        return task.route if task else ANY_ROUTE

    @property
    def about_goal(self) -> GoalId | None:
        """The goal token of the subject."""
        goal_id: GoalId | None = getattr(self, "goal_id", None)
        return goal_id
