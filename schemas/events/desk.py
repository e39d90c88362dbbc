"""What the desk says to a person's request: yes or no."""

from uuid import UUID

from schemas.enums import SteerAction
from schemas.events.fact import Fact
from schemas.goal import Goal
from schemas.ids import GoalId
from schemas.requests import Problem, RawRequest
from schemas.steering import Ban, Extension, Hint
from schemas.work import Counterexample


class GoalAccepted(Fact):
    TYPE = "goal.accepted.v1"
    goal_id: GoalId
    goal: Goal
    request: RawRequest


class GoalRefused(Fact):
    TYPE = "goal.refused.v1"
    goal_id: GoalId | None
    problems: tuple[Problem, ...]
    request: RawRequest

    @property
    def about_goal(self) -> GoalId | None:
        return None  # a refusal must not shadow a goal of the same id


class GoalSteered(Fact):
    TYPE = "goal.steered.v1"
    goal_id: GoalId
    action: SteerAction
    reason: str
    request: RawRequest
    extend: Extension | None = None
    hint: Hint | None = None
    pin: UUID | None = None
    """A candidate that shall be a finalist."""
    ban: Ban | None = None
    confirm: UUID | None = None
    """A raced candidate whose quarantined result a person vouches for."""


class SteerRefused(Fact):
    TYPE = "steer.refused.v1"
    goal_id: GoalId | None
    problems: tuple[Problem, ...]
    request: RawRequest

    @property
    def about_goal(self) -> GoalId | None:
        return None


class CandidateRefused(Fact):
    """A kernel from outside that the desk did not admit. No candidate exists."""

    TYPE = "candidate.refused.v1"
    goal_id: GoalId | None
    problems: tuple[Problem, ...]
    request: RawRequest

    @property
    def about_goal(self) -> GoalId | None:
        return None


class CounterexampleWithdrawn(Fact):
    """A person said why a kept input is no evidence against anybody. It is tried no more, and not kept again."""

    TYPE = "counterexample.withdrawn.v1"
    kept_id: UUID
    """The id of the `counterexample.kept` that is withdrawn."""
    counterexample: Counterexample
    reason: str
    request: RawRequest


class WithdrawalRefused(Fact):
    TYPE = "withdrawal.refused.v1"
    problems: tuple[Problem, ...]
    request: RawRequest
