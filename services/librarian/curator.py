"""The one decider: folds the log in position order and says what is due. Pure; an audit recomputes every decision.

The shell calls `evolve` for each recorded fact, `decide` after each batch, `awaiting` with what was decided, and then
publishes. A decided fact holds its goal still until it is recorded, so nothing is decided twice; the recorded fact is
what counts, also when an earlier librarian decided it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from schemas.envelope import Draft, Recorded
from schemas.events import (
    BaselineDue,
    ChampionCrowned,
    CounterexampleKept,
    CounterexampleWithdrawn,
    Fact,
    FinalsDue,
    GenerationDue,
    GoalAccepted,
    MeasurementRequested,
    RaceDue,
)
from schemas.ids import GoalId, Route
from schemas.work import MAX_COUNTEREXAMPLES, Contestant, Counterexample, Task
from services.evidence import goal_fold, goal_state, routes_state
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import GoalState
from services.evidence.routes_state import ROUTE_FACTS, RoutesState
from services.librarian import rulings
from services.librarian.catches import input_of
from services.librarian.dues import Evidence

GLOBAL_FACTS: tuple[type[Fact], ...] = (
    *ROUTE_FACTS,
    CounterexampleKept,
    CounterexampleWithdrawn,
    ChampionCrowned,
)
"""What outlives its goal: read by type when a librarian starts; of goals, only the unfinished are folded again."""

DUE_FACTS = (BaselineDue, GenerationDue, MeasurementRequested, FinalsDue, RaceDue)

Shapes = tuple[tuple[tuple[str, int], ...], ...]
Arena = tuple[str, Route, Shapes]
"""Workload, route and shapes: champions of one arena are rivals."""


@dataclass(frozen=True, slots=True)
class CuratorState:
    """Everything that decisions rest on."""

    position: int = 0
    """Of the last fact folded: decisions are made here."""
    goals: Mapping[GoalId, GoalState] = field(default_factory=dict)
    """Unfinished goals."""
    accepted: Mapping[GoalId, str] = field(default_factory=dict)
    """Digest of every goal ever accepted: an id is taken for good."""
    awaited: Mapping[UUID, GoalId | None] = field(default_factory=dict)
    """Decided and not yet recorded."""
    routes: RoutesState = field(default_factory=RoutesState)
    counterexamples: Mapping[str, tuple[Counterexample, ...]] = field(default_factory=dict)
    """By workload, oldest first, none twice."""
    kept: Mapping[UUID, Counterexample] = field(default_factory=dict)
    """Everything ever kept, by the id of its fact."""
    withdrawn: frozenset[str] = frozenset()
    """Inputs that are no evidence any more, as `input_of` names them."""
    champions: Mapping[Arena, Contestant] = field(default_factory=dict)
    """The latest of each arena. It was not slower than the one before it, so it is the best."""

    def incumbent(self, task: Task) -> Contestant | None:
        return self.champions.get((task.workload, task.route, _shapes(shape.axes for shape in task.shapes)))

    def known_counterexamples(self, workload: str) -> tuple[Counterexample, ...]:
        """The latest that fit a task."""
        return self.counterexamples.get(workload, ())[-MAX_COUNTEREXAMPLES:]


def evolve(state: CuratorState, recorded: Recorded[Any]) -> CuratorState:
    """The state after `recorded`, which is the next of the log."""
    state = replace(state, position=recorded.position)
    if recorded.id in state.awaited:
        state = replace(state, awaited={id_: goal for id_, goal in state.awaited.items() if id_ != recorded.id})
    state = _evolve_global(state, recorded)
    return _evolve_goal(state, recorded)


def decide(state: CuratorState, position: int, has_room: bool = True) -> tuple[Draft[Any], ...]:
    """What is due at `position`, for every goal that awaits nothing.

    Without room in the stream nothing new becomes due, so that what ends a goal always fits (architecture.md).
    """
    busy = set(state.awaited.values())
    decided: list[Draft[Any]] = []
    for goal in state.goals.values():
        if goal.goal_id not in busy:
            decided.extend(_decide_goal(state, goal, position, has_room))
    return tuple(decided)


def awaiting(state: CuratorState, drafts: Iterable[Draft[Any]]) -> CuratorState:
    """`drafts` are decided: their goals stand still until they are recorded."""
    return replace(state, awaited={**state.awaited, **{draft.id: draft.fact.about_goal for draft in drafts}})


def _decide_goal(state: CuratorState, goal: GoalState, position: int, has_room: bool) -> tuple[Draft[Any], ...]:
    task = goal.task or rulings.first_task(goal, state.routes.best_for(goal.goal.target))
    evidence = Evidence(
        position=position,
        task=task,
        counterexamples=state.known_counterexamples(goal.goal.workload),
        withdrawn=state.withdrawn,
        incumbent=state.incumbent(task) if task else None,
    )
    decided = rulings.decide(goal, evidence)
    starts_work = any(isinstance(draft.fact, DUE_FACTS) for draft in decided)
    held = goal.paused_since is not None or not has_room
    return () if starts_work and held else decided


def _evolve_goal(state: CuratorState, recorded: Recorded[Any]) -> CuratorState:
    fact = recorded.fact
    if isinstance(fact, GoalAccepted):
        return _accepted(state, recorded)
    goal = state.goals.get(fact.about_goal) if fact.about_goal else None
    if goal is None:
        return state
    after = goal_fold.evolve(goal, recorded)
    if after is goal:
        return state
    if after.phase is GoalPhase.COMPLETED:
        return replace(state, goals={id_: other for id_, other in state.goals.items() if id_ != goal.goal_id})
    return replace(state, goals={**state.goals, goal.goal_id: after})


def _accepted(state: CuratorState, recorded: Recorded[GoalAccepted]) -> CuratorState:
    goal_id = recorded.fact.goal_id
    if goal_id in state.accepted:
        return state
    return replace(
        state,
        goals={**state.goals, goal_id: goal_state.begin(recorded)},
        accepted={**state.accepted, goal_id: goal_state.digest(recorded.fact.goal)},
    )


def _evolve_global(state: CuratorState, recorded: Recorded[Any]) -> CuratorState:
    match recorded.fact:
        case CounterexampleKept(counterexample=found):
            return _kept(state, recorded.id, found)
        case CounterexampleWithdrawn(counterexample=found):
            return _withdrawn(state, found)
        case ChampionCrowned() as crowned:
            arena = (crowned.workload, crowned.route, _shapes(shape.axes for shape in crowned.comparison.shapes))
            champion = Contestant(
                candidate_id=crowned.candidate_id, build=crowned.build, search_ratio=crowned.search_ratio
            )
            return replace(state, champions={**state.champions, arena: champion})
        case fact if isinstance(fact, ROUTE_FACTS):
            return replace(state, routes=routes_state.evolve(state.routes, recorded))
        case _:
            return state


def _kept(state: CuratorState, fact_id: UUID, found: Counterexample) -> CuratorState:
    state = replace(state, kept={**state.kept, fact_id: found})
    known = state.counterexamples.get(found.workload, ())
    if input_of(found) in {input_of(other) for other in known} | state.withdrawn:
        return state
    return replace(state, counterexamples={**state.counterexamples, found.workload: (*known, found)})


def _withdrawn(state: CuratorState, found: Counterexample) -> CuratorState:
    gone = input_of(found)
    left = tuple(one for one in state.counterexamples.get(found.workload, ()) if input_of(one) != gone)
    return replace(
        state, counterexamples={**state.counterexamples, found.workload: left}, withdrawn=state.withdrawn | {gone}
    )


def _shapes(axes: Iterable[Mapping[str, int]]) -> Shapes:
    return tuple(sorted(tuple(sorted(one.items())) for one in axes))


def resumed(
    state: CuratorState, position: int, goals: Mapping[GoalId, GoalState], accepted: Mapping[GoalId, str]
) -> CuratorState:
    """`state`, folded from GLOBAL_FACTS, with the goals that were folded one by one."""
    return replace(state, position=position, goals=goals, accepted=accepted)
