"""Time as facts: deadlines that passed, routes that came and went. Pure: the clock and the presence are arguments."""

from collections.abc import Set
from datetime import datetime, timedelta
from typing import Any

from schemas.envelope import Draft, due
from schemas.events import GoalTimedOut, RouteAvailable, RouteLost
from schemas.ids import Route
from services.evidence.goal_state import GoalState
from services.evidence.routes_state import ObservedRoute
from services.librarian.curator import CuratorState


def tick(state: CuratorState, now: datetime, present: Set[Route], presence_ttl_s: float) -> tuple[Draft[Any], ...]:
    """What time makes true at `now`; what is stated and not yet recorded is not stated again.

    `present`: routes with an unexpired key in the presence bucket.
    """
    deadlines = (_timed_out(goal, now) for goal in state.goals.values())
    routes = (
        _changed(route, seen, route in present, now - timedelta(seconds=presence_ttl_s))
        for route, seen in state.routes.routes.items()
    )
    return tuple(draft for draft in (*deadlines, *routes) if draft is not None and draft.id not in state.awaited)


def _timed_out(goal: GoalState, now: datetime) -> Draft[Any] | None:
    """The running deadline passed. Paused time does not count, and a paused goal has none."""
    if goal.deadline is None or now < goal.deadline[1]:
        return None
    phase, deadline = goal.deadline
    fact = GoalTimedOut(goal_id=goal.goal_id, phase=phase, deadline=deadline)
    return due(goal.goal_id, f"timed_out.{phase}", fact, because=goal.last_id)


def _changed(route: Route, seen: ObservedRoute, present: bool, last_seen: datetime) -> Draft[Any] | None:
    """A route came (it is present, and its machine is known) or went (its last key outlived the bucket's TTL)."""
    if present == seen.available:
        return None
    if present:
        return due(route, "route.available", RouteAvailable(machine=seen.machine), seen.changes, seen.observed_id)
    return due(route, "route.lost", RouteLost(route=route, last_seen=last_seen), seen.changes, seen.observed_id)
