"""The desk: every request from outside is answered with one fact, or is known already. Pure.

An accepted goal with the same id and content again needs no answer: its goal.accepted is in the log. Everything else
is answered each time it is sent, under an id made of the request and its place in the intake stream, so that a request
handed out twice is answered once.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from pydantic import ValidationError

from schemas.envelope import Draft, due
from schemas.events import (
    CandidateProposed,
    CandidateRefused,
    CounterexampleWithdrawn,
    Fact,
    GoalAccepted,
    GoalRefused,
    GoalSteered,
    SteerRefused,
    WithdrawalRefused,
)
from schemas.goal import Goal
from schemas.ids import GoalId, answer_id, is_token, request_id
from schemas.model import Model, clip
from schemas.requests import (
    CANDIDATE_SUBMITTED,
    COUNTEREXAMPLE_WITHDRAWN,
    GOAL_STEERED,
    GOAL_SUBMITTED,
    Problem,
    RawRequest,
    SteerGoal,
    SubmitCandidate,
    SubmitGoal,
    WithdrawCounterexample,
)
from schemas.work import Counterexample
from services.evidence.goal_state import GoalState, digest
from services.librarian.curator import CuratorState
from services.librarian.goal_checks import Catalogue, check_goal
from services.librarian.problems import problems_of
from services.librarian.request_text import json_path, parse, raw_request, scrubbed
from services.librarian.steering import check_steer
from services.librarian.submissions import candidate_of, check_submission, kernel_of, not_open
from services.librarian.withdrawals import kept_counterexample

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
    """What is said to `request`; None when its answer is in the log already."""
    for kind, reply in REPLIES.items():
        if request.subject == kind or request.subject.startswith(f"{kind}."):
            return reply(request, request.subject.removeprefix(kind).removeprefix("."), state, catalogue, has_room)
    hint = f"publish on {GOAL_SUBMITTED}.<goal id>, {GOAL_STEERED}.<goal id> or {CANDIDATE_SUBMITTED}.<goal id>"
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
        problems.append(_full("no new goal is taken"))
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


def _full(consequence: str) -> Problem:
    return Problem(
        path="$",
        message=f"the fact stream is 80 % full, so {consequence}",
        hint="wait for goals to end, or give the stream more room (`assay status` shows its fill)",
    )


# ---- goal.steered --------------------------------------------------------------------------------------------------


def _steered(
    request: Request, name: str, state: CuratorState, catalogue: Catalogue, _has_room: bool
) -> Draft[Fact] | None:
    goal_id, problems = _goal_id(name)
    if _was_answered(request, "steer", goal_id, state):
        return None
    steer, wrong = _read(SteerGoal, request.body)
    problems += wrong
    if goal_id is not None:
        problems += _steerable(goal_id, steer, state, catalogue)
    if problems or steer is None or goal_id is None:
        refused = SteerRefused(goal_id=goal_id, problems=_bounded(problems), request=_raw(request))
        return _answer(request, "steer", refused)
    fact = GoalSteered(
        goal_id=goal_id,
        action=steer.action,
        reason=steer.reason,
        request=_raw(request),
        extend=steer.extend,
        hint=steer.hint,
        pin=steer.pin,
        confirm=steer.confirm,
        ban=steer.ban,
    )
    return _answer(request, "steer", fact)


def _steerable(goal_id: GoalId, steer: SteerGoal | None, state: CuratorState, catalogue: Catalogue) -> list[Problem]:
    goal = state.goals.get(goal_id)
    if goal is None:
        message = f"goal {goal_id} has ended" if goal_id in state.accepted else f"there is no goal {goal_id}"
        return [Problem(path="subject", message=message, hint="`assay goal list` shows the goals there are")]
    return check_steer(steer, goal, state, catalogue) if steer else []


# ---- candidate.submitted -------------------------------------------------------------------------------------------


def _candidate(
    request: Request, name: str, state: CuratorState, _catalogue: Catalogue, has_room: bool
) -> Draft[Fact] | None:
    goal_id, problems = _goal_id(name)
    if _was_answered(request, "submit", goal_id, state):
        return None
    goal = state.goals.get(goal_id) if goal_id else None
    submission, wrong = _read(SubmitCandidate, request.body)
    problems += wrong
    if not has_room:
        problems.append(_full("no kernel is taken"))
    if goal_id is not None and (closed := not_open(goal_id, state)):
        problems.append(closed)
    admitted = _admitted(request, submission, goal, state, problems) if submission else None
    if admitted is not None:
        return _answer(request, "submit", admitted)
    refused = CandidateRefused(goal_id=goal_id, problems=_bounded(problems), request=_raw(request))
    return _answer(request, "submit", refused)


def _admitted(
    request: Request,
    submission: SubmitCandidate,
    goal: GoalState | None,
    state: CuratorState,
    problems: list[Problem],
) -> CandidateProposed | None:
    """The candidate; or None, and why not is added to `problems`."""
    kernel = kernel_of(submission, goal)
    if isinstance(kernel, Problem):
        problems.append(kernel)
        return None
    if goal is None:
        return None
    problems += check_submission(submission, kernel, goal)
    if problems:
        return None
    candidate = candidate_of(submission, kernel, goal, state, _raw(request))
    if isinstance(candidate, Problem):
        problems.append(candidate)
        return None
    return candidate


# ---- counterexample.withdrawn --------------------------------------------------------------------------------------


def _withdrawn(request: Request, name: str, state: CuratorState, _catalogue: Catalogue, _has_room: bool) -> Draft[Fact]:
    asked, problems = _read(WithdrawCounterexample, request.body)
    kept_id, found = kept_counterexample(name, state)
    if isinstance(found, Problem):
        problems.append(found)
    if problems or asked is None or kept_id is None or not isinstance(found, Counterexample):
        return _answer(request, "withdraw", WithdrawalRefused(problems=_bounded(problems), request=_raw(request)))
    fact = CounterexampleWithdrawn(kept_id=kept_id, counterexample=found, reason=asked.reason, request=_raw(request))
    return _answer(request, "withdraw", fact)


# ---- all -----------------------------------------------------------------------------------------------------------


def _goal_id(name: str) -> tuple[GoalId | None, list[Problem]]:
    if is_token(name):
        return name, []
    hint = "one token of 1 to 64 letters, digits, _ or - after the last dot"
    return None, [Problem(path="subject", message="the subject names no goal id", hint=hint)]


def _read(model: type[M], body: bytes) -> tuple[M | None, list[Problem]]:
    """The request in `body`, and everything wrong with it."""
    parsed = parse(body)
    if parsed.value is None:
        return None, list(parsed.problems)
    request, wrong = _validated(model, parsed.value)
    return request, [*parsed.problems, *wrong]


def _validated(model: type[M], value: dict[str, Any]) -> tuple[M | None, list[Problem]]:
    try:
        return model.model_validate_json(json.dumps(scrubbed(value))), []
    except ValidationError as error:
        return None, problems_of(error, model, value)


def _refusal(request: Request, goal_id: GoalId | None, problems: list[Problem]) -> Draft[Fact]:
    return _answer(request, "refuse", GoalRefused(goal_id=goal_id, problems=_bounded(problems), request=_raw(request)))


def _answer(request: Request, slot: str, fact: Fact) -> Draft[Fact]:
    return Draft(_answer_id(request, slot), fact, request_id(request.subject, request.body))


def _was_answered(request: Request, slot: str, goal_id: GoalId | None, state: CuratorState) -> bool:
    """This very message had its effect on the goal, and is handed out again."""
    goal = state.goals.get(goal_id) if goal_id else None
    return goal is not None and _answer_id(request, slot) in goal.answered


def _answer_id(request: Request, slot: str) -> UUID:
    return answer_id(request_id(request.subject, request.body), slot, request.seq)


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


REPLIES: Mapping[str, Callable[[Request, str, CuratorState, Catalogue, bool], Draft[Fact] | None]] = {
    GOAL_SUBMITTED: _submitted,
    GOAL_STEERED: _steered,
    CANDIDATE_SUBMITTED: _candidate,
    COUNTEREXAMPLE_WITHDRAWN: _withdrawn,
}
"""Who answers what, by subject up to its last token."""
