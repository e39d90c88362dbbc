"""What people and time make of a goal's state: pause, stop, extension, and the deadlines."""

from dataclasses import replace
from datetime import datetime

from schemas.enums import Phase, SteerAction
from schemas.events import GoalSteered
from schemas.steering import extended
from services.evidence.goal_state import GoalState


def steered(state: GoalState, fact: GoalSteered, at: datetime) -> GoalState:
    """`state` after what a person asked for `at` that time."""
    match fact.action:
        case SteerAction.PAUSE:
            return state if state.paused_since else replace(state, paused_since=at)
        case SteerAction.RESUME:
            return _resumed(state, at)
        case SteerAction.STOP:
            return state if state.stopped else replace(_resumed(state, at), stopped=True)
        case SteerAction.CANCEL:
            return state if state.cancelled else replace(state, cancelled=True)
        case SteerAction.EXTEND | SteerAction.PIN | SteerAction.BAN if state.runs_against is Phase.FINALS:
            return state
        case SteerAction.EXTEND:
            return replace(state, goal=extended(state.goal, fact.extend)) if fact.extend else state
        case SteerAction.PIN:
            return replace(state, pins=(*state.pins, fact.pin)) if fact.pin else state
        case SteerAction.BAN:
            return replace(state, bans=(*state.bans, fact.ban)) if fact.ban else state
        case SteerAction.CONFIRM:
            return replace(state, confirmed=(*state.confirmed, fact.confirm)) if fact.confirm else state
        case SteerAction.HINT:
            return state  # for proposers, who read the log


def _resumed(state: GoalState, at: datetime) -> GoalState:
    if state.paused_since is None:
        return state
    clock = state.clock
    if clock is not None:
        clock = replace(clock, paused=clock.paused + (at - max(state.paused_since, clock.started_at)))
    return replace(state, paused_since=None, clock=clock)


def timed_out(state: GoalState, phase: Phase) -> GoalState:
    """`state` after the deadline of `phase`, when that one runs."""
    if state.clock is None or state.timed_out is phase or phase is not state.runs_against:
        return state
    return replace(state, timed_out=phase)
