"""`assay candidate submit`: the door for people, agents and other tools. The librarian's desk admits or refuses."""

import asyncio
import secrets
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from pydantic import ValidationError

from kernel_lab.spaces.launch import LaunchProblem, read_source
from schemas.enums import Language
from schemas.envelope import Recorded
from schemas.events import CandidateAbandoned, CandidateMeasured, CandidateRefused, CandidateRejected, GoalCompleted
from schemas.faults import Misconfigured
from schemas.ids import is_token
from schemas.requests import Problem, SubmitCandidate
from schemas.work import MAX_SOURCE_BYTES
from services.console.asking import submit_candidate
from services.console.endpoints import open_log, open_views
from services.console.exits import Exit, exit_with
from services.console.output import Format, OutputOption, emit_record, say, stdout
from services.console.refusals import end_refused
from services.console.render import ratio_text
from services.console.report import stated
from services.evidence.goal_parts import GoalPhase
from services.evidence.log import Log
from services.runtime.settings import read_settings

POLL_S = 0.5
NOT_YET = (GoalPhase.WAITING, GoalPhase.BASELINES)
Fate = CandidateMeasured | CandidateRejected | CandidateAbandoned


def submit(
    file: Annotated[Path, typer.Argument(help="One source file (docs/workloads.md: the candidate contract).")],
    goal: Annotated[str, typer.Option("--goal", help="The goal that it shall be judged in.")],
    author: Annotated[str, typer.Option(help="Who made it. Kept as a claim: nobody has signed it.")] = "",
    note: Annotated[str, typer.Option(help="What is new about it; kept in the evidence.")] = "",
    language: Annotated[Language | None, typer.Option(help="Unset means the goal's first language.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the goal searches; else it is refused until then.")
    ] = True,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it is measured or rejected.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Have a kernel of your own judged in a running goal, beside what Assay's proposers think up.

    Example: assay candidate submit kernel.c --goal my-goal --author ada --note "two rows at once" --watch
    """
    if not is_token(goal):
        raise Misconfigured(f"--goal {goal!r} is no goal id; `assay goal list` shows them")
    body = _body(_source(file, output), author, note, language)
    if wait:
        asyncio.run(_until_it_searches(goal))
    answer = asyncio.run(submit_candidate(read_settings(), goal, body))
    if isinstance(answer.fact, CandidateRefused):
        end_refused(f"{file} was refused", answer.fact.problems, output)
    record = {"candidate_id": str(answer.id), "goal_id": goal, "status": "proposed"}
    if not watch:
        emit_record(record, output, lambda: stdout().print(str(answer.id)))
        return
    say(f"{file} is candidate {answer.id}")
    fate = asyncio.run(_fate(goal, answer))
    emit_record(record | _fate_record(fate), output, lambda: stdout().print(_fate_text(fate), markup=False))
    exit_with(_exit_of(fate))


def _source(file: Path, output: Format) -> str:
    """The text of `file`. What is no text cannot be sent, and is refused here in the desk's words."""
    try:
        with file.open("rb") as stream:
            source = read_source(stream.read(MAX_SOURCE_BYTES + 1))
    except OSError as error:
        raise Misconfigured(f"{file}: {error.strerror or error}") from error
    if isinstance(source, LaunchProblem):
        end_refused(f"{file} was refused", [Problem(path="$.source", message=source.message)], output)
    return source


def _body(source: str, author: str, note: str, language: Language | None) -> bytes:
    try:
        request = SubmitCandidate(
            source=source, author=author, note=note, language=language, nonce=secrets.token_hex(8)
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Misconfigured(f"--{first['loc'][0]}: {first['msg']}") from error
    return request.model_dump_json(exclude_none=True).encode()


async def _until_it_searches(goal_id: str) -> None:
    """Returns once the goal has its baselines, or will never have them, or is unknown: the desk says the rest."""
    told = False
    async with open_views() as views:
        while True:
            found = await views.goals(goal_id)
            if not found or found[0]["phase"] not in NOT_YET or found[0]["paused"]:
                return
            if not told:
                say(f"{goal_id} has no baselines yet; {found[0]['phase']} … the file is submitted when it searches")
                told = True
            await asyncio.sleep(POLL_S)


async def _fate(goal_id: str, admitted: Recorded[Any]) -> Fate | None:
    """What became of the candidate; None when its goal ended without a word on it."""
    async with open_log() as log:
        position = admitted.position
        while True:
            position, fate, ended = await _look(log, goal_id, position, admitted.id)
            if fate is not None or ended:
                return fate
            await asyncio.sleep(POLL_S)


async def _look(log: Log, goal_id: str, position: int, candidate_id: UUID) -> tuple[int, Fate | None, bool]:
    types = (CandidateMeasured, CandidateRejected, CandidateAbandoned, GoalCompleted)
    async for recorded in log.read(position, goal_id=goal_id, types=types):
        position = recorded.position
        if isinstance(recorded.fact, GoalCompleted):
            return position, None, True
        if recorded.fact.candidate_id == candidate_id:
            return position, recorded.fact, False
    return position, None, False


def _fate_record(fate: Fate | None) -> dict[str, Any]:
    match fate:
        case CandidateMeasured(comparison=comparison):
            ratio = comparison.ratio.estimate if comparison.ratio else None
            return {"status": "measured", "verdict": comparison.verdict.value, "search_ratio": ratio}
        case CandidateRejected() | CandidateAbandoned():
            status = "rejected" if isinstance(fate, CandidateRejected) else "abandoned"
            return {"status": status, "stage": fate.stage, "reason": fate.reason, "message": fate.message}
        case None:
            return {"status": "dropped", "message": "the goal ended first"}


def _fate_text(fate: Fate | None) -> str:
    match fate:
        case CandidateMeasured(comparison=comparison):
            return f"measured: {ratio_text(stated(comparison))}"
        case CandidateRejected():
            return f"rejected at {fate.stage}: {fate.reason}: {fate.message}"
        case CandidateAbandoned():
            return f"abandoned at {fate.stage}, by nobody's fault: {fate.message}; it may be submitted again"
        case None:
            return "dropped: the goal ended before it was judged"


def _exit_of(fate: Fate | None) -> Exit:
    match fate:
        case CandidateMeasured():
            return Exit.OK
        case CandidateRejected():
            return Exit.FAILED
        case _:
            return Exit.NO_VERDICT
