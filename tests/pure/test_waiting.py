"""A goal that waits says for what."""

from typing import Any

import pytest

from services.console.waiting import waits_for
from services.evidence.routes_state import ObservedRoute, RoutesState
from tests.pure.floor import MACHINE


def row(**changes: Any) -> dict[str, Any]:
    """A goal as `goal show` reads it, that has met no machine yet."""
    counts = {"proposed": 8, "measured": 3, "rejected": 2, "abandoned": 1}
    return {"goal_id": "g", "phase": "waiting", "paused": False, "target": "cpu", "route": None} | counts | changes


def routes(*, available: bool) -> RoutesState:
    return RoutesState({MACHINE.route: ObservedRoute(MACHINE, None, None, changes=1, available=available)})


@pytest.mark.parametrize(
    ("goal", "seen", "words"),
    [
        (row(), RoutesState(), "cpu; no such machine has been seen"),
        (row(), routes(available=False), f"cpu: {MACHINE.route} has gone"),
        (row(), routes(available=True), None),
        (row(paused=True), routes(available=True), "a person (`assay goal resume g`)"),
        (
            row(phase="searching", route=MACHINE.route),
            routes(available=False),
            f"{MACHINE.route}: its last machine has gone, with 2 candidates on their way",
        ),
        (row(phase="searching", route=MACHINE.route), routes(available=True), None),
        (row(phase="completed", paused=True), RoutesState(), None),
    ],
)
def test_what_a_goal_waits_for_is_said_in_words(goal: dict[str, Any], seen: RoutesState, words: str | None) -> None:
    assert waits_for(goal, seen) == words
