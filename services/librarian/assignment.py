"""What a goal becomes when work starts: a task pinned to one route, and the seeds derived from the goal's own."""

import hashlib

from kernel_lab.workloads.workload import Workload
from schemas.goal import Goal, Shape
from schemas.ids import GoalId
from schemas.work import MachineClass, Task
from services.evidence.routes_state import LANGUAGES


def task_for(goal_id: GoalId, goal: Goal, workload: Workload, machine: MachineClass) -> Task:
    """The task of `goal` on `machine`: languages and shapes spelled out, baselines still to come."""
    return Task(
        goal_id=goal_id,
        workload=goal.workload,
        dtype=goal.dtype,
        target=goal.target,
        route=machine.route,
        machine=machine,
        languages=goal.languages or LANGUAGES[goal.target],
        shapes=shapes_of(goal, workload),
        regime=goal.objective.regime,
        min_gain=goal.objective.min_gain,
        tolerance_scale=goal.tolerance.scale,
        constraints=goal.constraints,
        hold_out_gap_s=goal.finals.hold_out_gap,
    )


def shapes_of(goal: Goal, workload: Workload) -> tuple[Shape, ...]:
    """The goal's shapes; a named set as the workload defines it."""
    return workload.shapes[goal.shapes] if isinstance(goal.shapes, str) else goal.shapes


def generation_seed(goal_seed: int, generation: int, attempt: int) -> int:
    """Below 2**63. Without the goal's id: the same goal run again from the same evidence proposes the same."""
    digest = hashlib.sha256(f"{goal_seed}|{generation}|{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
