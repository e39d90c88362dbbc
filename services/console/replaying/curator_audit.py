"""Every decision of the curator, taken again from what it knew, and held against the recorded one.

A `*.due` fact names the position at which it was decided. Any other is decided from its goal's state alone, which its
cause names (the last fact that counted), and from the counterexamples known between that cause and itself.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from schemas.envelope import Draft, Recorded
from schemas.events import ChampionCrowned, CounterexampleKept, Fact, GenerationClosed, GoalCompleted, LessonRecorded
from schemas.ids import GoalId
from services.console.replaying.findings import Finding, disagreement, finding
from services.evidence.goal_state import GoalState
from services.librarian import curator
from services.librarian.curator import DUE_FACTS, CuratorState

CURATED: tuple[type[Fact], ...] = (
    *DUE_FACTS,
    CounterexampleKept,
    LessonRecorded,
    GenerationClosed,
    ChampionCrowned,
    GoalCompleted,
)
"""What the curator alone states."""
STATES_KEPT = 1024
"""Of each unfinished goal. Chosen: many times the facts that can lie between a decision and its record."""
OF_GOALS = frozenset({"position", "goals", "accepted", "awaited"})
"""Parts of the curator's state that are no evidence shared by all goals."""
SHARED = tuple(field.name for field in fields(CuratorState) if field.name not in OF_GOALS)

Drafts = tuple[Draft[Any], ...]


class CuratorAudit:
    """A fold over the whole log. `follow` each fact in order; it answers with what is wrong with that fact."""

    def __init__(self) -> None:
        self._state = CuratorState()
        self._shared: list[CuratorState] = [self._state]
        """What all decisions rest on, each time it changed, with the position since which it holds."""
        self._goals: dict[GoalId, deque[GoalState]] = defaultdict(lambda: deque(maxlen=STATES_KEPT))
        self._stated: dict[GoalId, set[UUID]] = defaultdict(set)

    def follow(self, recorded: Recorded[Any]) -> Finding | None:
        """`recorded`, the next of the log, is folded; a finding when the curator would not have decided it."""
        wrong = self._judge(recorded) if isinstance(recorded.fact, CURATED) else None
        self._fold(recorded)
        return wrong

    def _judge(self, recorded: Recorded[Any]) -> Finding | None:
        goal_id = recorded.fact.about_goal
        problems = [self._problem(recorded, decided) for decided in self._decisions(recorded, goal_id)]
        if goal_id is not None:
            self._stated[goal_id].add(recorded.id)
        wrong = problems or [_nowhere(recorded)]
        return None if None in wrong else finding(recorded, wrong[-1] or "")

    def _decisions(self, recorded: Recorded[Any], goal_id: GoalId | None) -> Iterator[Drafts]:
        """What was decided for the goal, wherever `recorded` may have been decided."""
        states = self._goals.get(goal_id) if goal_id else None
        if states is None:
            return
        if isinstance(recorded.fact, DUE_FACTS):
            position = recorded.fact.position
            goal = next((state for state in reversed(states) if state.position <= position), None)
            if goal is not None and position < recorded.position:
                yield _decide(self._shared_at(position), goal, position)
            return
        goal = next((state for state in reversed(states) if state.last_id == recorded.envelope.causation_id), None)
        if goal is not None:
            for shared in self._shared_between(goal.position, recorded.position - 1):
                yield _decide(shared, goal, max(shared.position, goal.position))

    def _problem(self, recorded: Recorded[Any], decided: Drafts) -> str | None:
        """Why `recorded` is not of the decision `decided`, or None."""
        ids = [draft.id for draft in decided]
        if recorded.id not in ids:
            due = ", ".join(sorted({draft.fact.TYPE for draft in decided})) or "nothing"
            return f"not decided there: recomputed, {due} is due"
        index = ids.index(recorded.id)
        missing = [draft for draft in decided[:index] if draft.id not in self._stated[recorded.fact.goal_id]]
        if missing:
            return f"{missing[0].fact.TYPE} {missing[0].id} was decided before it and is not recorded"
        return disagreement(recorded, decided[index])

    def _fold(self, recorded: Recorded[Any]) -> None:
        before, self._state = self._state, curator.evolve(self._state, recorded)
        if any(getattr(before, name) is not getattr(self._state, name) for name in SHARED):
            self._shared.append(replace(self._state, goals={}, accepted={}, awaited={}))
        goal_id = recorded.fact.about_goal
        if goal_id is None:
            return
        after = self._state.goals.get(goal_id)
        if after is None:
            self._goals.pop(goal_id, None)
            self._stated.pop(goal_id, None)
        elif after is not before.goals.get(goal_id):
            self._goals[goal_id].append(after)

    def _shared_at(self, position: int) -> CuratorState:
        return self._shared[bisect_right(self._shared, position, key=lambda state: state.position) - 1]

    def _shared_between(self, first: int, last: int) -> tuple[CuratorState, ...]:
        """Every version that held anywhere in these positions."""
        later = bisect_right(self._shared, last, key=lambda state: state.position)
        begin = bisect_right(self._shared, first, key=lambda state: state.position) - 1
        return tuple(self._shared[begin:later])


def _decide(shared: CuratorState, goal: GoalState, position: int) -> Drafts:
    return curator.decide(replace(shared, position=position, goals={goal.goal_id: goal}), position)


def _nowhere(recorded: Recorded[Any]) -> str:
    if isinstance(recorded.fact, DUE_FACTS):
        return f"its goal was not open at position {recorded.fact.position}, where it says that it was decided"
    return f"its cause {recorded.envelope.causation_id} is no fact after which its goal could be decided"
