"""A kernel from outside: everything that keeps it from being judged in a goal, and the candidate it becomes. Pure."""

import re
from collections.abc import Iterator

from kernel_lab.spaces.fingerprint import normalised
from kernel_lab.spaces.launch import LaunchProblem, kernel_from_source
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Language
from schemas.envelope import MAX_FACT_BYTES
from schemas.events import CandidateProposed
from schemas.goal import Goal
from schemas.ids import ANY_ROUTE, GoalId, due_id
from schemas.requests import Problem, RawRequest, SubmitCandidate
from schemas.work import Kernel
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import FIRST_GENERATION, GoalState
from services.evidence.routes_state import LANGUAGES
from services.librarian.curator import CuratorState
from services.librarian.dues import informed

STRATEGY = "submitted"
"""Stands where a proposer's candidate names its strategy."""
OPEN_AT_ONCE = 64
"""Submissions of one goal on their way. Chosen: twice a generation; each waits for the compiler with the others."""
ROOM_BYTES = 96 * 1024
"""What later facts about a candidate add to source and task: build, judgement, diagnostics (16 KiB each), envelope."""


def not_open(goal_id: GoalId, state: CuratorState) -> Problem | None:
    """Why the goal takes no submission now; None when it does."""
    goal = state.goals.get(goal_id)
    if goal is None:
        message = f"goal {goal_id} has ended" if goal_id in state.accepted else f"there is no goal {goal_id}"
        return Problem(path="subject", message=message, hint="`assay goal list` shows the goals there are")
    message, hint = _why_not(goal, state) or ("", "")
    return Problem(path="subject", message=message, hint=hint) if message else None


def _why_not(goal: GoalState, state: CuratorState) -> tuple[str, str] | None:
    if goal.cancelled:
        return "the goal is being cancelled", ""
    if goal.stopped or search_is_over(goal, state):
        return "the search is over and only finals are left", "submit it to a new goal: that starts warm from this one"
    if goal.paused_since is not None:
        return "the goal is paused, so nothing new begins", f"`assay goal resume {goal.goal_id}`, then submit it again"
    if goal.phase is GoalPhase.WAITING:
        return "the goal waits for a machine, and a kernel is judged on one", "submit it again when the goal searches"
    if goal.phase is GoalPhase.BASELINES:
        return "the goal's baselines are still being raced", "submit it again when the goal searches"
    if sum(one.end is None for one in goal.submissions.values()) >= OPEN_AT_ONCE:
        return f"{OPEN_AT_ONCE} submissions are being judged", "submit it again when some of them have ended"
    if goal.submitted + len(goal.submissions) >= goal.goal.budget.candidates:
        taken = f"the goal has taken {goal.goal.budget.candidates} submissions, as many as its budget has candidates"
        return taken, f"`assay goal extend {goal.goal_id} --candidates N`"
    return None


def search_is_over(goal: GoalState, state: CuratorState) -> bool:
    """Finals are due or decided, or the time is up: what begins now could not be counted."""
    decided = (
        due_id(goal.goal_id, "finals"),
        due_id(goal.goal_id, "timed_out.search"),
        due_id(goal.goal_id, "completed"),
    )
    in_finals = goal.phase in (GoalPhase.FINALS, GoalPhase.RACING)
    return in_finals or goal.settled_by_time or any(id_ in state.awaited for id_ in decided)


def kernel_of(submission: SubmitCandidate, goal: GoalState | None) -> Kernel | Problem:
    """What was submitted, as a kernel of `goal`; the first thing that keeps the source from being one."""
    language = submission.language or (_languages(goal)[0] if goal else Language.C)
    route = goal.task.route if goal and goal.task else ANY_ROUTE
    kernel = kernel_from_source(submission.source.encode(), language, route)
    if isinstance(kernel, LaunchProblem):
        return Problem(path="$.source", message=kernel.message)
    return kernel


def check_submission(submission: SubmitCandidate, kernel: Kernel, goal: GoalState) -> Iterator[Problem]:
    """Everything that keeps `kernel` from being judged in `goal`."""
    if kernel.language not in _languages(goal):
        yield Problem(
            path="$.language",
            message=f"this goal is searched in {', '.join(_languages(goal))}, not in {kernel.language}",
        )
    if submission.workload not in (None, goal.goal.workload):
        yield Problem(path="$.workload", message=f"this goal is about {goal.goal.workload}, not {submission.workload}")
    yield from _entry(kernel, goal.goal)
    yield from _launch(kernel, goal)
    yield from _known(kernel, goal)


def _languages(goal: GoalState) -> tuple[Language, ...]:
    return goal.goal.languages or LANGUAGES[goal.goal.target]


def _entry(kernel: Kernel, goal: Goal) -> Iterator[Problem]:
    """A source that names another operation and never the goal's; all else is the compiler's to say."""
    if kernel.language is not Language.C:
        return
    words = set(re.findall(r"[A-Za-z_]\w*", normalised(kernel.source)))
    others = [name for name in WORKLOADS if name in words]
    if goal.workload not in words and others:
        yield Problem(
            path="$.source",
            message=f"it defines {others[0]}; this goal is about {goal.workload}",
            hint="`assay goal list` shows what each goal is about",
        )


def _launch(kernel: Kernel, goal: GoalState) -> Iterator[Problem]:
    constraints = goal.goal.constraints
    quota = goal.task.machine.threads if goal.task else 0
    most = min(constraints.max_threads or quota, quota)
    if goal.task and (kernel.threads or 0) > most:
        yield Problem(path="$.source", message=f"line 1 asks for {kernel.threads} threads; this goal allows {most}")
    for flag in sorted(set(kernel.flags) & set(constraints.forbid)):
        yield Problem(path="$.source", message=f"line 1 asks for {flag}, which this goal forbids")


def _known(kernel: Kernel, goal: GoalState) -> Iterator[Problem]:
    holder = goal.holder_of(kernel.fingerprint)
    if holder is not None:
        yield Problem(
            path="$.source",
            message=f"the same kernel as candidate {holder}: comments and blanks make no other",
            hint=f"`assay candidate show {holder}`",
        )
    if any(ban.fingerprint == kernel.fingerprint for ban in goal.bans):
        yield Problem(
            path="$.source", message="this kernel is banned in this goal", hint=f"fingerprint {kernel.fingerprint}"
        )


def candidate_of(
    submission: SubmitCandidate, kernel: Kernel, goal: GoalState, state: CuratorState, request: RawRequest
) -> CandidateProposed | Problem:
    """The candidate that `kernel` becomes, or that it does not fit beside the goal's task."""
    assert goal.task is not None
    generation = goal.generation.number if goal.generation else goal.closed + FIRST_GENERATION
    fact = CandidateProposed(
        goal_id=goal.goal_id,
        generation=generation,
        island=(goal.submitted + len(goal.submissions)) % goal.goal.search.islands,
        strategy=STRATEGY,
        author=f"{request.author}/{submission.author}" if submission.author else request.author,
        parents=(),
        kernel=kernel,
        task=informed(goal.task, state.known_counterexamples(goal.goal.workload)),
        note=submission.note,
        request=request,
    )
    without = len(fact.model_copy(update={"request": None}).model_dump_json().encode())
    if max(without + ROOM_BYTES, len(fact.model_dump_json().encode())) <= MAX_FACT_BYTES:
        return fact
    message = f"as JSON, source and task take {without} bytes; {MAX_FACT_BYTES - ROOM_BYTES} fit the facts about it"
    return Problem(path="$.source", message=message, hint="shorten the source, or ask for fewer shapes in another goal")
