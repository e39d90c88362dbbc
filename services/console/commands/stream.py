"""`assay stream`: the room of the fact stream."""

import asyncio
from typing import Annotated

import typer

from services.console.endpoints import admin_settings, open_admin_bus, open_log
from services.console.janitor import Cleaned, clean
from services.console.output import Format, OutputOption, emit_record, stdout
from services.runtime.settings import read_settings

app = typer.Typer(no_args_is_help=True, help="The room of the fact stream.")


@app.callback()
def stream() -> None:
    """The room of the fact stream."""


@app.command()
def trim(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go and what stays.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Remove from the stream what the log has, a signed checkpoint outside the database covers, and no goal needs.

    The log keeps every fact. A factory does this by itself when its stream is half full. Needs the account that
    administers the factory.

    Example: assay stream trim --dry-run
    """
    settings = read_settings()

    async def run() -> Cleaned:
        async with open_log(settings) as log, open_admin_bus(settings) as bus:
            return await clean(log, bus, admin_settings(settings), dry_run=dry_run)

    done = asyncio.run(run())
    record = {
        "trimmable": done.messages,
        "trimmed": done.purged,
        "upto_seq": done.trim.upto_seq,
        "held_by": done.trim.held_by,
        "fill": round(done.fill, 6),
    }
    emit_record(record, output, lambda: _show(done, dry_run=dry_run))


def _show(done: Cleaned, *, dry_run: bool) -> None:
    what = f"{done.messages} messages may go" if dry_run else f"{done.purged} messages are gone"
    stdout().print(f"{what}, up to {done.trim.upto_seq}; the next one stays: {done.trim.held_by}", markup=False)
