"""A goal that waits says for what."""

from typing import Any
from uuid import uuid4

import pytest

from schemas.envelope import Envelope, Recorded, encode
from schemas.events import MachineObserved
from services.console.progress import Progress
from services.console.waiting import waits_for
from services.console.watch import Machines, plain_line
from services.evidence.memory_log import MemoryLog
from services.evidence.routes_state import ObservedRoute, RoutesState, evolve
from tests.fixtures.facts import golden, incoming
from tests.pure.floor import MACHINE, START, goal


def row(**changes: Any) -> dict[str, Any]:
    """A goal as `goal show` reads it, that has met no machine yet."""
    counts = {"proposed": 8, "measured": 3, "rejected": 2, "abandoned": 1}
    return {"goal_id": "g", "phase": "waiting", "paused": False, "target": "cpu", "route": None} | counts | changes


def routes(*, available: bool) -> RoutesState:
    return RoutesState({MACHINE.route: ObservedRoute(MACHINE, None, None, changes=1, available=available)})


def observed(*, fit: bool | None) -> RoutesState:
    """A benchmarker said what machine it stands on, and with `fit` None not yet how noisy that is."""
    profile = golden(MachineObserved).profile.model_copy(update={"machine": MACHINE, "fit": fit})
    envelope: Envelope[MachineObserved] = Envelope(uuid4(), MachineObserved(profile=profile), "assay/test/1", START)
    return evolve(RoutesState(), Recorded(1, envelope, START))


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
        (row(), observed(fit=None), f"cpu: {MACHINE.route} is calibrating, about half a minute"),
        (row(), observed(fit=True), "cpu; no such machine has been seen"),
        (row(target="null"), observed(fit=None), "null; no such machine has been seen"),
        (
            row(phase="searching", route=MACHINE.route),
            observed(fit=None),
            f"{MACHINE.route}: its machine is calibrating, about half a minute",
        ),
        (row(phase="completed", paused=True), RoutesState(), None),
    ],
)
def test_what_a_goal_waits_for_is_said_in_words(goal: dict[str, Any], seen: RoutesState, words: str | None) -> None:
    assert waits_for(goal, seen) == words


async def test_whoever_watches_sees_that_a_machine_is_calibrating_until_the_goal_has_one() -> None:
    profile = golden(MachineObserved).profile.model_copy(update={"machine": MACHINE, "fit": None})
    told: Envelope[Any] = Envelope(uuid4(), MachineObserved(profile=profile), "assay/test/1", START)
    log = MemoryLog()
    await log.append(incoming([encode(told)]))
    progress, machines = Progress("g", goal=goal()), Machines(log)
    progress.waits_for = await machines.awaited_by(progress)
    assert "is calibrating" in plain_line(progress)
    progress.route = MACHINE.route
    assert await machines.awaited_by(progress) is None
