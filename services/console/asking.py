"""Publishing a request on the intake stream, and the fact that answers it."""

import asyncio
import hashlib
from typing import TypeVar

from schemas.envelope import Message
from schemas.events import GoalAccepted, GoalRefused, GoalSteered, SteerRefused
from schemas.faults import Transient
from schemas.ids import request_id
from schemas.requests import GOAL_STEERED, GOAL_SUBMITTED
from services.console.endpoints import open_bus, open_log
from services.evidence.log import Log
from services.runtime.settings import Settings

ANSWER_TIMEOUT_S = 30.0
POLL_S = 0.1

Answer = GoalAccepted | GoalRefused | GoalSteered | SteerRefused
A = TypeVar("A", bound=Answer)


async def submit_goal(settings: Settings, goal_id: str, body: bytes) -> GoalAccepted | GoalRefused:
    """The desk's answer to a goal. The same id and content is the same goal, and gets the same answer again."""
    async with open_log(settings) as log:
        async for recorded in log.read(goal_id=goal_id, types=(GoalAccepted,)):
            if recorded.fact.request.sha256 == hashlib.sha256(body).hexdigest():
                accepted: GoalAccepted = recorded.fact
                return accepted
        return await _ask(settings, log, f"{GOAL_SUBMITTED}.{goal_id}", body, (GoalAccepted, GoalRefused))


async def steer_goal(settings: Settings, goal_id: str, body: bytes) -> GoalSteered | SteerRefused:
    """The desk's answer to a steer."""
    async with open_log(settings) as log:
        return await _ask(settings, log, f"{GOAL_STEERED}.{goal_id}", body, (GoalSteered, SteerRefused))


async def _ask(settings: Settings, log: Log, subject: str, body: bytes, answers: tuple[type[A], ...]) -> A:
    position = (await log.head()).position
    async with open_bus(settings) as bus:
        await bus.publish(Message(subject, {}, body), request_id(subject, body))
    sha256 = hashlib.sha256(body).hexdigest()
    for _ in range(int(ANSWER_TIMEOUT_S / POLL_S)):
        async for recorded in log.read(position, types=answers):
            position = recorded.position
            answer: A = recorded.fact
            if answer.request.sha256 == sha256:
                return answer
        await asyncio.sleep(POLL_S)
    raise Transient(
        f"no answer within {ANSWER_TIMEOUT_S:.0f} s; is the librarian running? `assay status` and `assay logs` tell. "
        "The request is on the bus and will be answered: `assay goal list`"
    )
