"""What a goal waits for, in words. Decides nothing."""

from collections.abc import Mapping
from typing import Any

from schemas.enums import Target
from services.evidence.goal_parts import GoalPhase
from services.evidence.log import Log
from services.evidence.routes_state import ROUTE_FACTS, RoutesState, evolve, serves


async def read_routes(log: Log) -> RoutesState:
    """Every route that the log has seen, and which can work now."""
    state = RoutesState()
    async for recorded in log.read(types=ROUTE_FACTS):
        state = evolve(state, recorded)
    return state


def waits_for(goal: Mapping[str, Any], routes: RoutesState) -> str | None:
    """What must happen before the goal, a row of views.goals, goes on; None when it goes on by itself."""
    if goal["phase"] == GoalPhase.COMPLETED:
        return None
    if goal["paused"]:
        return f"a person (`assay goal resume {goal['goal_id']}`)"
    if goal["route"] is None:
        return _a_machine(Target(goal["target"]), routes)
    if not _available(goal["route"], routes):
        unsettled = goal["proposed"] - goal["measured"] - goal["rejected"] - goal["abandoned"]
        return f"{goal['route']}: its last machine has gone, with {unsettled} candidates on their way"
    return None


def _a_machine(target: Target, routes: RoutesState) -> str | None:
    """A goal that is pinned to no route yet."""
    if routes.best_for(target) is not None:
        return None
    gone = sorted(route for route, seen in routes.routes.items() if serves(route, target) and seen.changes)
    return f"{target}: {', '.join(gone)} has gone" if gone else f"{target}; no such machine has been seen"


def _available(route: str, routes: RoutesState) -> bool:
    return route in routes.routes and routes.routes[route].available
