"""The desk: every request from outside is answered with one fact, or is known already. Pure.

An accepted goal with the same id and content again needs no answer: its goal.accepted is in the log. Everything else
is answered each time it is sent, under an id made of the request and its place in the intake stream, so that a request
handed out twice is answered once.
"""

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from schemas.enums import SteerAction
from schemas.envelope import Draft, due
from schemas.events import Fact, GoalAccepted, GoalRefused, GoalSteered, Problem, RawRequest, SteerRefused
from schemas.goal import Goal
from schemas.ids import GoalId, answer_id, is_token, request_id
from schemas.model import Model, clip
from schemas.requests import GOAL_STEERED, GOAL_SUBMITTED, SteerGoal, SubmitGoal
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import GoalState, digest
from services.librarian.curator import CuratorState
from services.librarian.goal_checks import Catalogue, check_goal
from services.librarian.problems import problems_of
from services.librarian.request_text import json_path, parse, raw_request, scrubbed

MAX_PROBLEMS = 64
"""Named in one refusal; the rest are counted. Chosen: keeps a refusal far below 512 KiB."""
MESSAGE_BYTES = 512

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Request:
    """A message of the intake stream."""

    subject: str
    body: bytes
    seq: int
    """Its place in the intake stream: the same for every delivery."""
    author: str = "unsigned"


def answer(request: Request, state: CuratorState, catalogue: Catalogue, has_room: bool = True) -> Draft[Fact] | None:
    """What is said to `request`; None when the very same goal was accepted before."""
    for kind, reply in ((GOAL_SUBMITTED, _submitted), (GOAL_STEERED, _steered)):
        if request.subject == kind or request.subject.startswith(f"{kind}."):
            return reply(request, request.subject.removeprefix(kind).removeprefix("."), state, catalogue, has_room)
    hint = f"publish on {GOAL_SUBMITTED}.<goal id> or {GOAL_STEERED}.<goal id>"
    return _refusal(request, None, [Problem(path="subject", message="nobody reads this subject", hint=hint)])


# ---- goal.submitted ------------------------------------------------------------------------------------------------


def _submitted(
    request: Request, name: str, state: CuratorState, catalogue: Catalogue, has_room: bool
) -> Draft[Fact] | None:
    goal_id, problems = _goal_id(name)
    goal, wrong = read_goal(request.body, state, catalogue)
    problems += wrong
    known = state.accepted.get(goal_id) if goal_id else None
    if goal is not None and known == digest(goal):
        return None
    if known is not None:
        problems.append(_taken(goal_id or name))
    if not has_room:
        problems.append(_full())
    if problems or goal is None or goal_id is None:
        return _refusal(request, goal_id, problems)
    fact = GoalAccepted(goal_id=goal_id, goal=goal, request=_raw(request))
    return due(goal_id, "accept", fact, because=request_id(request.subject, request.body))


def read_goal(body: bytes, state: CuratorState, catalogue: Catalogue) -> tuple[Goal | None, list[Problem]]:
    """The goal in `body` and everything wrong with it; a goal with problems must not be run."""
    parsed = parse(body)
    problems = list(parsed.problems)
    if parsed.value is None:
        return None, problems
    goal, wrong = _validated(SubmitGoal, parsed.value)
    problems += wrong
    sound = goal or _without_faults(parsed.value, wrong)
    if sound is not None:
        plain = Goal.model_validate(sound.model_dump())
        problems += check_goal(plain, catalogue, state.routes.memory_bytes(sound.target))
        return (plain if goal else None), problems
    return None, problems


def _without_faults(value: dict[str, Any], wrong: list[Problem]) -> SubmitGoal | None:
    """The goal with its ill-typed fields left out, so that the others are checked in the same answer."""
    faulty = {problem.path.removeprefix("$.").split(".")[0].split("[")[0] for problem in wrong}
    goal, _ = _validated(SubmitGoal, {name: part for name, part in value.items() if name not in faulty})
    return goal


def _taken(goal_id: str) -> Problem:
    return Problem(
        path="subject",
        message=f"the goal id {goal_id} is taken by a goal with other content",
        hint="choose another id; the running goal is untouched",
    )


def _full() -> Problem:
    return Problem(
        path="$",
        message="the fact stream is 80 % full, so no new goal is taken",
        hint="wait for goals to end, or give the stream more room (`assay status` shows its fill)",
    )


# ---- goal.steered --------------------------------------------------------------------------------------------------


def _steered(request: Request, name: str, state: CuratorState, _catalogue: Catalogue, _has_room: bool) -> Draft[Fact]:
    goal_id, problems = _goal_id(name)
    parsed = parse(request.body)
    problems += parsed.problems
    steer: SteerGoal | None = None
    if parsed.value is not None:
        steer, wrong = _validated(SteerGoal, parsed.value)
        problems += wrong
    if goal_id is not None:
        problems += _steerable(goal_id, steer, state)
    if problems or steer is None or goal_id is None:
        refused = SteerRefused(goal_id=goal_id, problems=_bounded(problems), request=_raw(request))
        return _answer(request, "steer", refused)
    fact = GoalSteered(goal_id=goal_id, action=steer.action, reason=steer.reason, request=_raw(request))
    return _answer(request, "steer", fact)


def _steerable(goal_id: GoalId, steer: SteerGoal | None, state: CuratorState) -> list[Problem]:
    goal = state.goals.get(goal_id)
    if goal is None:
        message = f"goal {goal_id} has ended" if goal_id in state.accepted else f"there is no goal {goal_id}"
        return [Problem(path="subject", message=message, hint="`assay goal list` shows the goals there are")]
    objection = _objection(goal, steer.action) if steer else None
    return [Problem(path="$.action", message=objection)] if objection else []


def _objection(goal: GoalState, action: SteerAction) -> str | None:
    """Why `action` would change nothing."""
    if goal.cancelled:
        return "the goal is being cancelled"
    match action:
        case SteerAction.PAUSE if goal.paused_since is not None:
            return "the goal is paused already"
        case SteerAction.RESUME if goal.paused_since is None:
            return "the goal is not paused"
        case SteerAction.STOP if goal.stopped:
            return "the goal is stopping already"
        case SteerAction.STOP if goal.phase in (GoalPhase.FINALS, GoalPhase.RACING):
            return "the search is over and the finals run; cancel ends them without a champion"
        case _:
            return None


# ---- both ----------------------------------------------------------------------------------------------------------


def _goal_id(name: str) -> tuple[GoalId | None, list[Problem]]:
    if is_token(name):
        return name, []
    hint = "one token of 1 to 64 letters, digits, _ or - after the last dot"
    return None, [Problem(path="subject", message="the subject names no goal id", hint=hint)]


def _validated(model: type[M], value: dict[str, Any]) -> tuple[M | None, list[Problem]]:
    try:
        return model.model_validate_json(json.dumps(scrubbed(value))), []
    except ValidationError as error:
        return None, problems_of(error, model, value)


def _refusal(request: Request, goal_id: GoalId | None, problems: list[Problem]) -> Draft[Fact]:
    return _answer(request, "refuse", GoalRefused(goal_id=goal_id, problems=_bounded(problems), request=_raw(request)))


def _answer(request: Request, slot: str, fact: Fact) -> Draft[Fact]:
    cause = request_id(request.subject, request.body)
    return Draft(answer_id(cause, slot, request.seq), fact, cause)


def _raw(request: Request) -> RawRequest:
    return raw_request(request.subject, request.body, request.author)


def _bounded(problems: list[Problem]) -> tuple[Problem, ...]:
    """Each problem once, each short, and not too many."""
    short = dict.fromkeys(
        Problem(
            path=clip(p.path, MESSAGE_BYTES), message=clip(p.message, MESSAGE_BYTES), hint=clip(p.hint, MESSAGE_BYTES)
        )
        for p in problems
    )
    named = tuple(short)[:MAX_PROBLEMS]
    if len(short) <= MAX_PROBLEMS:
        return named
    return (*named, Problem(path=json_path(), message=f"and {len(short) - MAX_PROBLEMS} more problems"))
