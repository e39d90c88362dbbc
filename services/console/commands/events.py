"""`assay events`: read the log, and check that it is whole and untouched."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from schemas.envelope import Recorded
from schemas.events import FACTS, Fact
from schemas.faults import Misconfigured
from schemas.requests import RawRequest
from services.console.commands import evidence
from services.console.endpoints import open_home, open_log
from services.console.exits import Exit, exit_with
from services.console.output import (
    Column,
    Format,
    OutputOption,
    emit_lines,
    emit_record,
    emit_records,
    progress_steps,
    say,
    stdout,
)
from services.console.trust import own_fingerprints, trust_of
from services.console.verification import verification_record, verification_text
from services.evidence.attribution import attribution
from services.evidence.audit import audit
from services.evidence.export_file import ExportFile
from services.evidence.log import Log
from services.evidence.verify import Trust, Verification, verify
from services.runtime.settings import Settings, read_settings

app = typer.Typer(no_args_is_help=True, help="Read the log, and check that it is whole and untouched.")

TAIL_POLL_S = 0.2
GoalOption = Annotated[str | None, typer.Option("--goal", help="Only facts of this goal.")]
TypeOption = Annotated[
    list[str] | None, typer.Option("--type", help="Only these types, e.g. candidate.rejected (repeatable).")
]
OriginOption = Annotated[
    str | None, typer.Option("--origin", help="An imported log instead of this one (its id, or the beginning of it).")
]
COLUMNS = (
    Column("position", "position"),
    Column("recorded_at", "recorded"),
    Column("type", "type"),
    Column("goal_id", "goal"),
    Column("id", "id"),
    Column("source", "source"),
)


def record_of(recorded: Recorded[Any]) -> dict[str, Any]:
    """A recorded fact as JSON."""
    envelope = recorded.envelope
    return {
        "position": recorded.position,
        "recorded_at": recorded.recorded_at.isoformat(),
        "id": str(envelope.id),
        "type": envelope.fact.TYPE,
        "goal_id": envelope.goal_id,
        "source": envelope.source,
        "time": envelope.time.isoformat(),
        "causation_id": str(envelope.causation_id) if envelope.causation_id else None,
        "correlation_id": str(envelope.correlation_id) if envelope.correlation_id else None,
        "author": _author(envelope.fact),
        "data": envelope.fact.model_dump(mode="json"),
    }


def _author(fact: Fact) -> str | None:
    """Who asked, where a fact answers a person: `unsigned`, unless the request itself proves more."""
    request: RawRequest | None = getattr(fact, "request", None)
    return request.author if request else None


def fact_types(names: list[str] | None) -> tuple[type[Fact], ...]:
    """The fact classes that `names` mean, version or not. Raises Misconfigured, listing what there is."""
    chosen = []
    for name in names or ():
        matching = [fact for type_, fact in FACTS.items() if name in (type_, type_.rpartition(".")[0])]
        if not matching:
            raise Misconfigured(f"no fact type {name!r}; there are: {', '.join(sorted(FACTS))}")
        chosen += matching
    return tuple(chosen)


def parse_id(text: str) -> UUID:
    """The event or candidate id in `text`. Raises Misconfigured."""
    try:
        return UUID(text)
    except ValueError:
        raise Misconfigured(f"{text!r} is no event id (a UUID); `assay events list` shows them") from None


@app.command("list")
def list_(
    goal: GoalOption = None,
    type_: TypeOption = None,
    after: Annotated[int, typer.Option(min=0, help="Only positions after this one.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="At most this many; 0 means all.")] = 100,
    origin: OriginOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Facts in the order of the log.

    Example: assay events list --goal my-goal --type candidate.rejected
    """
    types = fact_types(type_)

    async def run() -> None:
        async with open_log(origin=origin) as log:
            records = _limited(log.read(after, goal_id=goal, types=types), limit)
            if output is Format.JSONL:
                async for record in records:
                    emit_lines([record])
                return
            emit_records([record async for record in records], output, COLUMNS, "no such facts")

    asyncio.run(run())


async def _limited(facts: AsyncIterator[Recorded[Any]], limit: int) -> AsyncIterator[dict[str, Any]]:
    count = 0
    async for recorded in facts:
        yield record_of(recorded)
        count += 1
        if count == limit:
            say(f"first {limit} shown; go on with --after {recorded.position}, or --limit 0 for all")
            return


@app.command()
def tail(goal: GoalOption = None, type_: TypeOption = None, output: OutputOption = Format.TEXT) -> None:
    """Facts as they are recorded, until Ctrl-C.

    Example: assay events tail --type goal.completed -o jsonl
    """
    types = fact_types(type_)

    async def run() -> None:
        async with open_log() as log:
            after = (await log.head()).position
            while True:
                async for recorded in log.read(after, goal_id=goal, types=types):
                    after = recorded.position
                    _print_line(recorded, output)
                await asyncio.sleep(TAIL_POLL_S)

    asyncio.run(run())


def _print_line(recorded: Recorded[Any], output: Format) -> None:
    if output is not Format.TEXT:
        emit_lines([record_of(recorded)])
        return
    stdout().print(f"{recorded.position:>8}  {recorded.fact.TYPE:<28} {recorded.envelope.goal_id or '-'}", markup=False)


@app.command()
def show(
    event_id: Annotated[str, typer.Argument(help="An event id.")],
    origin: OriginOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """One fact, whole.

    Example: assay events show EVENT-ID
    """

    settings = read_settings()

    async def run() -> None:
        async with open_log(settings, origin) as log:
            found = await get(log, parse_id(event_id))
            keys = frozenset() if origin else own_fingerprints(settings)
            record = record_of(found) | {"stated": asdict(await attribution(log, found.position, keys))}
            emit_record(record, output, lambda: print(json.dumps(record, indent=2, ensure_ascii=False)))

    asyncio.run(run())


async def get(log: Log, event_id: UUID) -> Recorded[Any]:
    """The fact with this id. Raises Misconfigured when the log has none."""
    found = await log.get(event_id)
    if found is None:
        raise Misconfigured(f"no fact {event_id} in this log; `assay events list` shows what there is")
    return found


@app.command()
def causation(
    event_id: Annotated[str, typer.Argument(help="An event id.")],
    origin: OriginOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Why a fact was stated: its causes back to the person's goal, the oldest first.

    Example: assay events causation EVENT-ID
    """

    async def run() -> None:
        async with open_log(origin=origin) as log:
            chain = [record_of(recorded) for recorded in await _causes(log, parse_id(event_id))]
            emit_records(chain, output, COLUMNS, "no causes")

    asyncio.run(run())


async def _causes(log: Log, event_id: UUID) -> list[Recorded[Any]]:
    chain = [await get(log, event_id)]
    while (cause := chain[0].envelope.causation_id) is not None:
        if getattr(chain[0].fact, "request", None) is not None:
            break  # caused by the person's request, which is not a fact of its own but stands inside this one
        found = await log.get(cause)
        if found is None or found.position >= chain[0].position:
            say(f"its cause {cause} is not recorded before it (`assay events verify` says more)")
            break
        chain.insert(0, found)
    return chain


@app.command("verify")
def verify_(
    bootstrap_key: Annotated[
        list[str] | None,
        typer.Option(
            "--bootstrap-key",
            help="Fingerprint from out of band, or a file of them (repeatable); default: the folder's.",
        ),
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option("--checkpoints", help="Folder of signed checkpoints; default: the data folder's.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="An export instead of the log: no factory needed.")
    ] = None,
    origin: OriginOption = None,
    chain_only: Annotated[
        bool, typer.Option("--chain-only", help="Positions, chain, sequences and checkpoints only: much faster.")
    ] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Check the whole log. Exit 6 at the first break, which is named with its position and kind.

    Gapless positions, hash chain, every derived column, ids, causation, the path of every candidate, signatures, and
    the signed checkpoints kept outside the database. An auditor brings the fingerprint and the checkpoints along.

    Example: assay events verify --bootstrap-key 1f0c5e… --checkpoints /media/usb/checkpoints
    """
    settings = read_settings()
    if file and origin:
        raise Misconfigured("--file is a log of its own: leave --origin out")
    trust = trust_of(settings, bootstrap_key or (), checkpoints, chain_only=chain_only, own=not (file or origin))
    found = asyncio.run(_verified(settings, file, origin, trust))
    record = verification_record(found[0]) | {"imports": [verification_record(one) for one in found[1:]]}
    emit_record(record, output, lambda: stdout().print("\n".join(map(verification_text, found)), markup=False))
    if any(one.first_break for one in found):
        exit_with(Exit.EVIDENCE_BROKEN)


async def _verified(
    settings: Settings, file: Path | None, origin: str | None, trust: Trust
) -> tuple[Verification, ...]:
    """The log asked for first; then, of a factory's own, every log that was imported."""
    with progress_steps() as step:

        def progress(row: int, of: int) -> None:
            step("verifying", row, of)

        if file:
            return (await verify(ExportFile(file), progress, trust),)
        if origin:
            async with open_log(settings, origin) as log:
                return (await verify(log, progress, trust),)
        async with open_home(settings) as home:
            return (await audit(home, progress, trust)).verifications


evidence.register(app)
