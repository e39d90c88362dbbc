"""`assay epoch`: which life of the fact stream the log follows, and letting it go on with a new one."""

import asyncio
from typing import Annotated, Any
from uuid import UUID

import typer

from infra.bootstrap.nats import let_follow, restore_streams
from schemas.events import EpochOpened
from schemas.faults import Misconfigured, Transient
from services.console.commands.events import record_of
from services.console.endpoints import admin_settings, open_admin_bus, open_bus, open_log
from services.console.output import Column, Format, OutputOption, emit_record, emit_records, say, stdout
from services.evidence.continuation import why_not
from services.evidence.log import Head, Log
from services.evidence.unsettled import unsettled_work
from services.runtime.bus import FACTS_STREAM, Bus, StreamState
from services.runtime.settings import Settings, read_settings

app = typer.Typer(no_args_is_help=True, help="Lives of the fact stream, and going on with a new one.")

PATIENCE_S = 60.0
"""How long to wait for the librarian. Chosen: a restarted one begins within 10 s, and folds a long log in seconds."""
POLL_S = 0.2
COLUMNS = (
    Column("position", "opened at"),
    Column("recorded_at", "recorded"),
    Column("epoch", "epoch"),
    Column("previous_epoch", "after"),
    Column("previous_seq", "which was recorded up to"),
    Column("reason", "reason"),
)


@app.command("list")
def list_(output: OutputOption = Format.TEXT) -> None:
    """Every epoch that was opened, and whether the log can go on with the stream as it is.

    Example: assay epoch list
    """

    async def run() -> tuple[list[dict[str, Any]], str | None]:
        async with open_log() as log, open_bus() as bus:
            opened = [record_of(one) async for one in log.read(types=(EpochOpened,))]
            rows = [one["data"] | {"position": one["position"], "recorded_at": one["recorded_at"]} for one in opened]
            return rows, why_not(await log.head(), await _state(bus))

    rows, objection = asyncio.run(run())
    emit_records(rows, output, COLUMNS, "the log follows the stream it began with")
    say(f"the log stands still: {objection}" if objection else "the log follows the stream")


@app.command("open")
def open_(
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever reads the log later.")],
    output: OutputOption = Format.TEXT,
) -> None:
    """Let the log go on with a fact stream that was lost, recreated, restored from an older copy, or has a hole.

    Nothing is removed: the log keeps every fact, what the stream still holds is recorded first, then the work that
    unfinished goals wait for is handed out again under its own ids. Needs the account that administers the factory. May
    be repeated when it was interrupted.

    Example: assay epoch open --reason "disk of the message server replaced"
    """
    if not reason.strip():
        raise Misconfigured("--reason is empty: say why, for whoever reads the log later")
    record = asyncio.run(_open(read_settings(), reason))
    emit_record(record, output, lambda: _show(record))


async def _open(settings: Settings, reason: str) -> dict[str, Any]:
    admin = admin_settings(settings)
    await restore_streams(admin)
    async with open_log(settings) as log, open_admin_bus(settings) as bus:
        head, stream = await log.head(), await _state(bus)
        await _let_follow(admin, head, stream, reason)
        followed = await _until_followed(log, bus)
        work = await unsettled_work(log, followed.position)
        for message in work:
            await bus.publish(message, UUID(message.headers["ce-id"]))
    return {
        "epoch": followed.epoch,
        "after": head.epoch if head.epoch != followed.epoch else stream.follows,
        "position": followed.position,
        "handed_out_again": len(work),
    }


async def _let_follow(admin: Settings, head: Head, stream: StreamState, reason: str) -> None:
    """The stream says that it goes on after the log's epoch. Raises Misconfigured when the log follows it anyway."""
    objection = why_not(head, stream)
    if objection is None and not stream.follows:
        raise Misconfigured("nothing to open: the log follows the stream as it is")
    if objection is None:
        say(f"epoch {stream.epoch} is open already; handing out again what is unanswered")
        return
    say(objection)
    await let_follow(admin, head.epoch, reason, renamed=stream.epoch == head.epoch)


async def _until_followed(log: Log, bus: Bus) -> Head:
    """The librarian has opened the epoch and recorded what the stream held. Raises Transient when it does not."""
    stream = await _state(bus)
    for _ in range(int(PATIENCE_S / POLL_S)):
        head = await log.head()
        if head.epoch == stream.epoch and head.stream_seq >= stream.last_seq:
            return head
        await asyncio.sleep(POLL_S)
    raise Transient(
        f"the librarian did not go on within {PATIENCE_S:.0f} s; `assay logs librarian` tells why. The stream "
        "is marked: once it goes on, repeat the command to hand out unanswered work again"
    )


async def _state(bus: Bus) -> StreamState:
    return await bus.state(FACTS_STREAM)


def _show(record: dict[str, Any]) -> None:
    out = stdout()
    out.print(f"epoch {record['epoch']} follows {record['after']} at position {record['position']}", markup=False)
    out.print(f"{record['handed_out_again']} unanswered work messages are handed out again", markup=False)
