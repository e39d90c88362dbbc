"""Publishing a request on the intake stream, and the fact that answers it."""

import asyncio
import hashlib
from typing import TypeVar
from uuid import UUID

from schemas.envelope import Message, Recorded
from schemas.events import (
    CandidateProposed,
    CandidateRefused,
    CounterexampleWithdrawn,
    GoalAccepted,
    GoalRefused,
    GoalSteered,
    SteerRefused,
    WithdrawalRefused,
)
from schemas.faults import Transient
from schemas.ids import request_id
from schemas.requests import CANDIDATE_SUBMITTED, COUNTEREXAMPLE_WITHDRAWN, GOAL_STEERED, GOAL_SUBMITTED
from services.console.endpoints import open_bus, open_log
from services.evidence.log import Log
from services.runtime.settings import Settings

ANSWER_TIMEOUT_S = 30.0
POLL_S = 0.1

Answer = (
    GoalAccepted
    | GoalRefused
    | GoalSteered
    | SteerRefused
    | CandidateProposed
    | CandidateRefused
    | CounterexampleWithdrawn
    | WithdrawalRefused
)
A = TypeVar("A", bound=Answer)


async def submit_goal(settings: Settings, goal_id: str, body: bytes) -> GoalAccepted | GoalRefused:
    """The desk's answer to a goal. The same id and content is the same goal, and gets the same answer again."""
    subject, answers = f"{GOAL_SUBMITTED}.{goal_id}", (GoalAccepted, GoalRefused)
    async with open_log(settings) as log:
        async for recorded in log.read(types=answers):
            if _answers(recorded.fact, subject, body):
                known: GoalAccepted | GoalRefused = recorded.fact
                return known
        answered: Recorded[GoalAccepted | GoalRefused] = await _ask(settings, log, subject, body, answers)
        return answered.fact


async def steer_goal(settings: Settings, goal_id: str, body: bytes) -> GoalSteered | SteerRefused:
    """The desk's answer to a steer."""
    async with open_log(settings) as log:
        answers, subject = (GoalSteered, SteerRefused), f"{GOAL_STEERED}.{goal_id}"
        answered: Recorded[GoalSteered | SteerRefused] = await _ask(settings, log, subject, body, answers)
        return answered.fact


async def submit_candidate(
    settings: Settings, goal_id: str, body: bytes
) -> Recorded[CandidateProposed | CandidateRefused]:
    """The desk's answer to a kernel; the id of what was admitted is the candidate's."""
    async with open_log(settings) as log:
        answers = (CandidateProposed, CandidateRefused)
        return await _ask(settings, log, f"{CANDIDATE_SUBMITTED}.{goal_id}", body, answers)


async def withdraw_counterexample(
    settings: Settings, kept_id: UUID, body: bytes
) -> CounterexampleWithdrawn | WithdrawalRefused:
    """The desk's answer to a withdrawal."""
    answers, subject = (CounterexampleWithdrawn, WithdrawalRefused), f"{COUNTEREXAMPLE_WITHDRAWN}.{kept_id}"
    async with open_log(settings) as log:
        answered: Recorded[CounterexampleWithdrawn | WithdrawalRefused]
        answered = await _ask(settings, log, subject, body, answers)
        return answered.fact


async def _ask(settings: Settings, log: Log, subject: str, body: bytes, answers: tuple[type[A], ...]) -> Recorded[A]:
    position = (await log.head()).position
    async with open_bus(settings) as bus:
        await bus.publish(Message(subject, {}, body), request_id(subject, body))
    for _ in range(int(ANSWER_TIMEOUT_S / POLL_S)):
        async for recorded in log.read(position, types=answers):
            position = recorded.position
            if _answers(recorded.fact, subject, body):
                return recorded
        await asyncio.sleep(POLL_S)
    raise Transient(
        f"no answer within {ANSWER_TIMEOUT_S:.0f} s; is the librarian running? `assay status` and `assay logs` tell. "
        "The request is on the bus and will be answered: `assay goal list`"
    )


def _answers(fact: Answer, subject: str, body: bytes) -> bool:
    request = fact.request  # a proposer's candidate has none
    return request is not None and (request.subject, request.sha256) == (subject, hashlib.sha256(body).hexdigest())
