"""`assay goal extend | steer | confirm`: more budget, advice, a finalist by name, a ban, a word for a result."""

import asyncio
import re
import secrets
from typing import Annotated, Any
from uuid import UUID

import typer
from pydantic import ValidationError

from schemas.enums import SteerAction
from schemas.events import CandidateProposed, SteerRefused
from schemas.faults import Misconfigured
from schemas.ids import is_token
from schemas.requests import SteerGoal
from schemas.steering import Ban, Extension, Hint
from schemas.work import Gene
from services.console.asking import steer_goal
from services.console.endpoints import open_log, open_views
from services.console.naming import candidate_named
from services.console.output import Format, OutputOption, emit_record, stdout
from services.console.refusals import end_refused
from services.runtime.settings import read_settings

FINGERPRINT = re.compile(r"[0-9a-f]{64}")

GoalArgument = Annotated[str, typer.Argument(help="The goal's id.")]
ReasonOption = Annotated[str, typer.Option(help="Why; recorded in the evidence.")]


def steer_and_say(goal_id: str, action: SteerAction, reason: str, output: Format, **detail: Any) -> None:
    """The steer is recorded, and said; a refusal ends the command."""
    if not is_token(goal_id):
        raise Misconfigured(f"{goal_id!r} is no goal id; `assay goal list` shows them")
    try:
        request = SteerGoal(action=action, reason=reason, nonce=secrets.token_hex(8), **detail)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Misconfigured(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    body = request.model_dump_json(exclude_none=True).encode()
    answer = asyncio.run(steer_goal(read_settings(), goal_id, body))
    if isinstance(answer, SteerRefused):
        end_refused(f"goal {goal_id} was not steered", answer.problems, output)
    told = request.model_dump(mode="json", exclude_none=True, exclude={"nonce", "action", "reason"})
    emit_record(
        {"goal_id": goal_id, "action": action.value, "reason": reason} | told,
        output,
        lambda: stdout().print(f"{goal_id}: {action.value} recorded"),
    )


def extend(
    goal_id: GoalArgument,
    candidates: Annotated[int, typer.Option(min=0, help="This many candidates more.")] = 0,
    wall: Annotated[str, typer.Option(help="This much more time for the search, e.g. 10m.")] = "0s",
    stagnation: Annotated[int, typer.Option(min=0, help="This many more generations without a better ratio.")] = 0,
    reason: ReasonOption = "extended by a person",
    output: OutputOption = Format.TEXT,
) -> None:
    """Give a goal more budget while it searches. What it has stays; this is added.

    Example: assay goal extend my-goal --candidates 100 --wall 10m
    """
    try:
        more = Extension.model_validate({"candidates": candidates, "wall": wall, "stagnation": stagnation})
    except ValidationError as error:
        raise Misconfigured(f"--wall {wall}: {error.errors(include_url=False)[0]['msg']}") from error
    steer_and_say(goal_id, SteerAction.EXTEND, reason, output, extend=more)


def steer(
    goal_id: GoalArgument,
    hint: Annotated[
        str | None, typer.Option("--hint", help="Advice in words, for people and agents that read.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option("--include", help="A region to look at first: NAME=VALUE,VALUE… (repeatable)."),
    ] = None,
    pin: Annotated[str | None, typer.Option("--pin", help="A measured candidate that shall be a finalist.")] = None,
    ban: Annotated[
        str | None, typer.Option("--ban", help="Never again: a candidate, a fingerprint, or NAME=VALUE of a tunable.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; recorded in the evidence. A ban needs one.")] = "",
    output: OutputOption = Format.TEXT,
) -> None:
    """Advise a search, name a finalist, or rule something out. One thing at a time; a newer hint replaces the last.

    Example: assay goal steer my-goal --hint "stores dominate" --include streaming=true --include unroll=4,8

    Example: assay goal steer my-goal --ban threads=1 --reason "the service always has two cores"
    """
    asked = [name for name, given in (("hint", hint or include), ("pin", pin), ("ban", ban)) if given]
    if len(asked) != 1:
        raise Misconfigured("give one of --hint (with --include or without), --pin and --ban")
    match asked[0]:
        case "hint":
            region = dict(map(_values, include or ()))
            advice = Hint(text=hint or "", include=region)
            steer_and_say(goal_id, SteerAction.HINT, reason or "a person's hint", output, hint=advice)
        case "pin":
            steer_and_say(
                goal_id, SteerAction.PIN, reason or "pinned by a person", output, pin=asyncio.run(_candidate(pin or ""))
            )
        case _:
            if not reason:
                raise Misconfigured("--ban: say why with --reason; others will meet this ban")
            steer_and_say(goal_id, SteerAction.BAN, reason, output, ban=_ban(ban or ""))


def confirm(
    goal_id: GoalArgument,
    candidate: Annotated[str, typer.Argument(help="The raced candidate: its id or the first digits of it.")],
    reason: Annotated[str, typer.Option(help="What convinced you, e.g. a run on a second machine. Recorded.")],
    output: OutputOption = Format.TEXT,
) -> None:
    """Vouch for a quarantined result: one faster than the roof allows, or ten times the strongest baseline.

    A goal waits for it as long as `finals.confirmation` says. Measure it again on another machine first:
    assay candidate measure --from-log ID

    Example: assay goal confirm my-goal 7a33fd48 --reason "the same ratio on box2"
    """
    steer_and_say(goal_id, SteerAction.CONFIRM, reason, output, confirm=asyncio.run(_candidate(candidate)))


def _ban(text: str) -> Ban:
    if FINGERPRINT.fullmatch(text):
        return Ban(fingerprint=text)
    if "=" in text:
        name, values = _values(text)
        if len(values) != 1 or not is_token(name):
            raise Misconfigured(f"--ban {text}: one NAME=VALUE at a time")
        return Ban(tunable=name, value=values[0])
    return Ban(fingerprint=asyncio.run(_fingerprint_of(text)))


async def _candidate(text: str) -> UUID:
    async with open_views() as views:
        return await candidate_named(views, text)


async def _fingerprint_of(text: str) -> str:
    candidate_id = await _candidate(text)
    async with open_log() as log:
        found = await log.get(candidate_id)
    if found is None or not isinstance(found.fact, CandidateProposed):
        raise Misconfigured(f"no candidate {candidate_id}; `assay candidate list` shows them")
    return found.fact.kernel.fingerprint


def _values(text: str) -> tuple[str, tuple[Gene, ...]]:
    """`unroll=4,8` as a tunable's name and values."""
    name, equals, values = text.partition("=")
    if not name or not equals or not values:
        raise Misconfigured(f"{text!r}: write NAME=VALUE, or NAME=VALUE,VALUE; `assay workload show` has the tunables")
    return name, tuple(map(gene_of, values.split(",")))


def gene_of(text: str) -> Gene:
    """`true` and `false` as such, whole numbers as numbers, anything else as a word."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
