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
        return a_machine_for(Target(goal["target"]), routes)
    if not _available(goal["route"], routes):
        if goal["route"] in routes.routes and routes.routes[goal["route"]].calibrating:
            return f"{goal['route']}: its machine is calibrating, about half a minute"
        unsettled = goal["proposed"] - goal["measured"] - goal["rejected"] - goal["abandoned"]
        return f"{goal['route']}: its last machine has gone, with {unsettled} candidates on their way"
    return None


def a_machine_for(target: Target, routes: RoutesState) -> str | None:
    """What a goal that is pinned to no route yet waits for; None when it will be pinned at once."""
    if routes.best_for(target) is not None:
        return None
    serving = {route: seen for route, seen in sorted(routes.routes.items()) if serves(route, target)}
    calibrating = [route for route, seen in serving.items() if seen.calibrating]
    if calibrating:
        return f"{target}: {', '.join(calibrating)} is calibrating, about half a minute"
    gone = [route for route, seen in serving.items() if seen.changes]
    return f"{target}: {', '.join(gone)} has gone" if gone else f"{target}; no such machine has been seen"


def _available(route: str, routes: RoutesState) -> bool:
    return route in routes.routes and routes.routes[route].available
