"""Inputs that caught a kernel, kept for every later one. Pure."""

from collections.abc import Mapping
from uuid import UUID

from schemas.events import CounterexampleKept
from schemas.work import Counterexample
from services.evidence.goal_parts import CandidateState, FinalistState
from services.evidence.goal_state import GoalState
from services.librarian.dues import Drafts, Evidence, state


def newly_kept(goal: GoalState, caught: Mapping[UUID, CandidateState | FinalistState], evidence: Evidence) -> Drafts:
    """Inputs that caught somebody and that nobody kept before, each naming the candidate it first caught."""
    known = {input_of(one) for one in evidence.counterexamples} | evidence.withdrawn
    new: dict[str, Counterexample] = {}
    for candidate_id, judged in caught.items():
        one = judged.counterexample
        if one is not None and input_of(one) not in known:
            new.setdefault(input_of(one), one.model_copy(update={"found_by": one.found_by or candidate_id}))
    return tuple(
        state(goal, f"counterexample.{input_}", CounterexampleKept(goal_id=goal.goal_id, counterexample=one))
        for input_, one in new.items()
    )


def input_of(found: Counterexample) -> str:
    """What makes two counterexamples the same: the input, whoever found it."""
    axes = ",".join(f"{name}{size}" for name, size in sorted(found.axes.items()))
    return f"{found.workload}|{axes}|{found.distribution}|{found.seed}|{found.alignment}"
