"""`assay stream`: the room of the fact stream."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from schemas.faults import Misconfigured
from services.console.endpoints import admin_settings, open_admin_bus, open_log
from services.console.janitor import TRIM_FROM, Cleaned, clean, keep_clean
from services.console.output import Format, OutputOption, emit_record, say, stdout
from services.console.trust import trust_of
from services.evidence.verify import Trust
from services.runtime.settings import Settings, read_settings
from services.runtime.telemetry import start_logging

BootstrapKeyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bootstrap-key",
        help="Fingerprint of the key that certified the librarian, or a file of them; default: the folder's.",
    ),
]
CheckpointsOption = Annotated[
    Path | None, typer.Option("--checkpoints", help="Folder of signed checkpoints; default: the factory's.")
]

app = typer.Typer(no_args_is_help=True, help="The room of the fact stream.")


@app.callback()
def stream() -> None:
    """The room of the fact stream."""


@app.command()
def trim(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go and what stays.")] = False,
    bootstrap_key: BootstrapKeyOption = None,
    checkpoints: CheckpointsOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Remove from the stream what the log has, a signed checkpoint outside the database covers, and no goal needs.

    The log keeps every fact. A factory does this by itself when its stream is half full (`assay stream keep`). Needs
    the account that administers the factory.

    Example: assay stream trim --dry-run
    """
    settings = read_settings()
    admin = admin_settings(settings)
    trust = _trust(settings, bootstrap_key, checkpoints)

    async def run() -> Cleaned:
        async with open_log(settings) as log, open_admin_bus(settings) as bus:
            return await clean(log, bus, admin, trust, dry_run=dry_run)

    done = asyncio.run(run())
    record = {
        "trimmable": done.messages,
        "trimmed": done.purged,
        "upto_seq": done.trim.upto_seq,
        "held_by": done.trim.held_by,
        "fill": round(done.fill, 6),
    }
    emit_record(record, output, lambda: _show(done, dry_run=dry_run))


@app.command()
def keep(bootstrap_key: BootstrapKeyOption = None, checkpoints: CheckpointsOption = None) -> None:
    """Look after the stream until Ctrl-C or SIGTERM: once a minute, `trim` when it is half full.

    What `assay up` does for its own factory; one of these runs beside a factory of containers. It logs JSON to stderr.

    Example: assay stream keep --bootstrap-key keys/bootstrap.fingerprint --checkpoints /mnt/checkpoints
    """
    settings = read_settings()
    admin = admin_settings(settings)
    _trust(settings, bootstrap_key, checkpoints)
    start_logging("janitor", str(os.getpid()), settings.log_level)

    async def run() -> None:
        async with open_log(settings) as log:
            await keep_clean(log, admin, lambda: _trust(settings, bootstrap_key, checkpoints))

    say(f"looking after the fact stream of {admin.nats_url}: trimmed from {TRIM_FROM:.0%}; Ctrl-C ends")
    asyncio.run(run())


def _trust(settings: Settings, bootstrap_key: list[str] | None, checkpoints: Path | None) -> Trust:
    """Whose checkpoints count. Anybody can write one that some key signed, so nothing is trimmed without a key."""
    trust = trust_of(settings, bootstrap_key or (), checkpoints)
    if not trust.bootstrap_keys:
        raise Misconfigured(
            "whose checkpoints count is not known: name the factory's key with --bootstrap-key (a fingerprint, as its "
            "bootstrap printed it, or the file bootstrap.fingerprint)"
        )
    return trust


def _show(done: Cleaned, *, dry_run: bool) -> None:
    what = f"{done.messages} messages may go" if dry_run else f"{done.purged} messages are gone"
    stdout().print(f"{what}, up to {done.trim.upto_seq}; the next one stays: {done.trim.held_by}", markup=False)
