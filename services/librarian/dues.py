"""What every ruling is made of: the evidence it rests on and the drafts it answers with. Pure."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from schemas.enums import EndedBy, Outcome
from schemas.envelope import Draft, due
from schemas.events import Fact, GoalCompleted
from schemas.work import Contestant, Counterexample, Task
from services.evidence.goal_state import GoalState

Drafts = tuple[Draft[Any], ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the log knows beside the goal itself, at the position of the decision."""

    position: int
    task: Task | None
    """As pinned, or as it would be pinned now; None while no route is available."""
    counterexamples: tuple[Counterexample, ...]
    incumbent: Contestant | None
    withdrawn: frozenset[str] = frozenset()
    """Inputs that shall not be kept again, as `input_of` names them."""


def informed(task: Task, counterexamples: tuple[Counterexample, ...]) -> Task:
    """`task` with the counterexamples known now."""
    return task.model_copy(update={"counterexamples": counterexamples})


def state(goal: GoalState, slot: str, fact: Fact, n: int = 0) -> Draft[Any]:
    """`fact` as what is due for `goal` now, the `n`-th in its slot."""
    return due(goal.goal_id, slot, fact, n, because=goal.last_id)


def completed(
    goal: GoalState, ended_by: EndedBy, outcome: Outcome, message: str, champion_id: UUID | None = None
) -> Draft[Any]:
    fact = GoalCompleted(
        goal_id=goal.goal_id, ended_by=ended_by, outcome=outcome, champion_id=champion_id, message=message
    )
    return state(goal, "completed", fact)


def failed(goal: GoalState, message: str) -> Draft[Any]:
    return completed(goal, EndedBy.FAILED, Outcome.NONE, message)
