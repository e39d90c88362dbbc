"""`assay parked`: messages that nobody could handle, kept whole with the reason."""

import asyncio
from typing import Annotated, Any
from uuid import uuid4

import typer

from infra.bootstrap.nats import purge_subject
from schemas.faults import Misconfigured
from services.console.endpoints import admin_settings, open_admin_bus, open_bus
from services.console.output import Column, Format, OutputOption, emit_record, emit_records, stdout
from services.runtime.bus import PARKED_STREAM, Bus
from services.runtime.parked import Parked, parked, replay
from services.runtime.settings import read_settings

app = typer.Typer(no_args_is_help=True, help="Messages that nobody could handle, kept whole with the reason.")

BODY_SHOWN = 4096
"""Characters of a body that text shows; -o json has all of it. Chosen: a screen."""
SeqArgument = Annotated[int, typer.Argument(min=1, metavar="NUMBER", help="Its number in `assay parked list`.")]
COLUMNS = (
    Column("number", "number"),
    Column("service", "service"),
    Column("subject", "subject"),
    Column("bytes", "bytes"),
    Column("reason", "reason"),
)


def record_of(found: Parked) -> dict[str, Any]:
    """A parked message as JSON, its body as text."""
    return {
        "number": found.seq,
        "service": found.service,
        "reason": found.reason,
        "stream": found.stream,
        "stream_seq": found.stream_seq,
        "subject": found.message.subject,
        "headers": dict(found.message.headers),
        "bytes": len(found.message.body),
        "body": found.message.body.decode("utf-8", "backslashreplace"),
    }


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, help="At most this many, the oldest first.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Leave out this many first.")] = 0,
    output: OutputOption = Format.TEXT,
) -> None:
    """What is parked, the oldest first. A healthy factory parks nothing.

    Example: assay parked list
    """
    rows = [record_of(found) for found in asyncio.run(_all())[offset : offset + limit]]
    emit_records(rows, output, COLUMNS, "nothing is parked")


@app.command()
def show(number: SeqArgument, output: OutputOption = Format.TEXT) -> None:
    """One parked message, whole.

    Example: assay parked show 3 -o json
    """
    record = record_of(_the(asyncio.run(_all()), number))
    emit_record(record, output, lambda: _show_text(record))


@app.command("replay")
def replay_(number: SeqArgument, output: OutputOption = Format.TEXT) -> None:
    """Publish one again under its own subject, after what stopped it was mended. It stays parked until it is dropped.

    Needs the account that administers the factory (docs/operations.md, Parked messages).

    Example: assay parked replay 3
    """
    settings = read_settings()

    async def run() -> Parked:
        async with open_admin_bus(settings) as bus:
            found = _the([one async for one in parked(bus)], number)
            await replay(bus, found, uuid4())
            return found

    found = asyncio.run(run())
    record = {"number": number, "subject": found.message.subject, "replayed": True}
    emit_record(record, output, lambda: stdout().print(f"published again: {found.message.subject}", markup=False))


@app.command()
def drop(number: SeqArgument, output: OutputOption = Format.TEXT) -> None:
    """Forget one. It cannot be brought back: `assay parked show NUMBER -o json` keeps a copy.

    Needs the account that administers the factory (docs/operations.md, Parked messages).

    Example: assay parked drop 3
    """
    settings = read_settings()

    async def run() -> None:
        async with open_admin_bus(settings) as bus:
            subject = await _own_subject(bus, number)
        await purge_subject(admin_settings(settings), PARKED_STREAM, subject)

    asyncio.run(run())
    emit_record({"number": number, "dropped": True}, output, lambda: stdout().print(f"dropped {number}"))


async def _own_subject(bus: Bus, number: int) -> str:
    """The subject that only this message has, so that nothing else is dropped with it. Raises Misconfigured."""
    found = [one async for one in parked(bus)]
    subject = _the(found, number).subject
    alike = [one.seq for one in found if one.subject == subject]
    if len(alike) > 1:
        raise Misconfigured(f"{number} was parked by an older Assay and cannot be dropped without {alike}; leave it")
    return subject


async def _all() -> list[Parked]:
    async with open_bus() as bus:
        return [found async for found in parked(bus)]


def _the(found: list[Parked], number: int) -> Parked:
    for one in found:
        if one.seq == number:
            return one
    there = ", ".join(str(one.seq) for one in found[:20]) or "nothing"
    raise Misconfigured(f"no parked message {number}; parked: {there}")


def _show_text(record: dict[str, Any]) -> None:
    out = stdout()
    for key in ("number", "service", "reason", "stream", "stream_seq", "subject", "bytes"):
        out.print(f"{key.replace('_', ' '):>11}  {record[key]}", markup=False)
    for name, value in record["headers"].items():
        out.print(f"{'header':>11}  {name}: {value}", markup=False)
    out.print(record["body"][:BODY_SHOWN], markup=False)
    if len(record["body"]) > BODY_SHOWN:
        out.print(f"… {len(record['body']) - BODY_SHOWN} more characters; -o json has them")
