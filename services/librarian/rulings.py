"""What is due next for one goal: one short function per phase of its path (architecture.md, The path of a goal)."""

from typing import Any

from kernel_lab.workloads import WORKLOADS
from schemas.enums import EndedBy, Outcome
from schemas.envelope import Draft
from schemas.events import BaselineDue
from schemas.work import MachineClass, Task
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import ATTEMPTS, GoalState
from services.librarian.assignment import task_for
from services.librarian.dues import Drafts, Evidence, completed, failed, informed, state
from services.librarian.finals_rulings import finals_due, in_finals, racing
from services.librarian.fitting import as_baseline
from services.librarian.search_rulings import ending, searching


def decide(goal: GoalState, evidence: Evidence) -> Drafts:
    """What is due for `goal` at `evidence.position`; nothing while its work is under way."""
    if goal.cancelled:
        return (completed(goal, EndedBy.CANCELLED, Outcome.NONE, "cancelled"),)
    match goal.phase:
        case GoalPhase.WAITING:
            return _waiting(goal, evidence)
        case GoalPhase.BASELINES:
            return _baselines(goal, evidence)
        case GoalPhase.SEARCHING:
            return searching(goal, evidence)
        case GoalPhase.FINALS:
            return in_finals(goal, evidence)
        case GoalPhase.RACING:
            return racing(goal, evidence)
        case GoalPhase.COMPLETED:
            return ()


def _waiting(goal: GoalState, evidence: Evidence) -> Drafts:
    if goal.stopped:  # no route was pinned, so nothing can be asked of anyone: the one stop that has no finals
        return (completed(goal, EndedBy.STOPPED, Outcome.NONE, "stopped while it waited for a route"),)
    if goal.goal.workload not in WORKLOADS:
        return (failed(goal, f"workload {goal.goal.workload} is not installed any more"),)
    if evidence.task is None:
        return ()
    return (_baseline_due(goal, evidence, evidence.task, 0),)


def first_task(goal: GoalState, machine: MachineClass | None) -> Task | None:
    """What `goal` would be pinned to if it started now on `machine`, the best route available for its target."""
    workload = WORKLOADS.get(goal.goal.workload)
    if workload is None or machine is None:
        return None
    return task_for(goal.goal_id, goal.goal, workload, machine)


def _baselines(goal: GoalState, evidence: Evidence) -> Drafts:
    assert goal.baseline is not None
    assert goal.task is not None
    if goal.baseline_missing is not None:
        return (failed(goal, f"no baseline to compare with: {goal.baseline_missing}"),)
    if goal.settled_by_time or (goal.stopped and goal.baseline.abandoned):
        return (finals_due(goal, evidence, ending(goal) or EndedBy.STOPPED, 0),)
    if not goal.baseline.abandoned:
        return ()
    if goal.baseline.number + 1 == ATTEMPTS:
        return (failed(goal, f"the baselines could not be raced in {ATTEMPTS} attempts"),)
    return (_baseline_due(goal, evidence, goal.task, goal.baseline.number + 1),)


def _baseline_due(goal: GoalState, evidence: Evidence, task: Task, attempt: int) -> Draft[Any]:
    fact = BaselineDue(
        goal_id=goal.goal_id,
        position=evidence.position,
        attempt=attempt,
        champion=as_baseline(evidence.incumbent, task),
        task=informed(task, evidence.counterexamples),
    )
    return state(goal, "baseline", fact, attempt)
