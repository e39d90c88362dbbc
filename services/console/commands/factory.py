"""`assay up | down | status | logs`: the embedded factory."""

import asyncio
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.faults import Misconfigured, Transient
from services.console.endpoints import find, open_bus, open_log
from services.console.output import Format, OutputOption, emit_record, say, stdout
from services.console.processes import running_pid, start_factory, stop_process
from services.console.supervisor import PROCESSES_FILE, SERVICES, parse_copies
from services.console.trust import own_fingerprint
from services.runtime.address import parse_address
from services.runtime.bus import FACTS_STREAM, FULL, PARKED_STREAM
from services.runtime.settings import Settings, read_settings

FOLLOW_POLL_S = 0.2
CopiesOption = Annotated[
    list[str] | None, typer.Option("--copies", help="SERVICE=N: this many copies, e.g. verifier=2 (repeatable).")
]
ListenOption = Annotated[
    str | None, typer.Option("--listen", help="HOST or HOST:PORT at which NATS listens; default: this machine only.")
]


def up(copies: CopiesOption = None, listen: ListenOption = None) -> None:
    """Start the factory in the background: NATS, Postgres and the five services.

    With --listen, workers on other machines can join it (`assay credentials`, `assay worker`).

    Example: assay up --copies verifier=2 --listen 10.0.0.5:4222
    """
    settings, wanted = read_settings(**({"listen": listen} if listen else {})), parse_copies(copies or [])
    address = parse_address(settings.listen)
    if (pid := running_pid(settings)) is not None:
        say(f"a factory is running in {settings.data_dir} (pid {pid}); `assay down` stops it")
        if listen:
            raise Misconfigured("it goes on listening as it did: `assay down` first, then `assay up --listen` again")
        return
    start_factory(settings, wanted, tied=False)
    say(f"the factory is up in {settings.data_dir}")
    if not address.is_loopback:
        say(f"NATS listens at {find(settings).nats_url} for {address.host}; it does not encrypt: trust that network")
    say(f"bootstrap key {own_fingerprint(settings)}: give it to auditors, and not through this machine")
    say("next: `assay goal submit --template rms_norm_cpu --watch`, `assay status`, `assay down`")


def down() -> None:
    """Stop the factory; work in hand finishes or is handed out again later. Nothing is lost.

    Example: assay down
    """
    settings = read_settings()
    if (pid := running_pid(settings)) is None:
        say(f"no factory is running in {settings.data_dir}")
        return
    stop_process(pid)
    say("stopped")


def status(output: OutputOption = Format.TEXT) -> None:
    """What runs, where the bus and the log are, how full the stream is.

    Example: assay status -o json
    """
    settings = read_settings()
    record = asyncio.run(_status(settings))
    emit_record(record, output, lambda: _show_status(record))


async def _status(settings: Settings) -> dict[str, Any]:
    found = find(settings)
    async with open_log(settings) as log, open_bus(settings) as bus:
        head, stream, parked = await log.head(), await bus.state(FACTS_STREAM), await bus.state(PARKED_STREAM)
    return {
        "data": str(settings.data_dir),
        "nats": {"url": found.nats_url, "user": found.nats_user, "password": found.nats_password},
        "postgres": {"dsn": found.postgres_dsn},
        "bootstrap_key": own_fingerprint(settings),
        "log": {"position": head.position, "recorder_lag": max(0, stream.last_seq - head.stream_seq)},
        "stream": {
            "facts": stream.messages,
            "bytes": stream.bytes,
            "max_bytes": stream.max_bytes,
            "fill": round(stream.fill, 6) if stream.max_bytes > 0 else None,
            "full_at": FULL,
            "days_left": stream.days_left(datetime.now(UTC)),
            "epoch": stream.epoch,
        },
        "parked": parked.messages,
        "processes": _processes(settings),
    }


def _processes(settings: Settings) -> list[dict[str, Any]]:
    path = settings.run_dir / PROCESSES_FILE
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


def _show_status(record: dict[str, Any]) -> None:
    out = stdout()
    out.print(f"data      {record['data']}", markup=False)
    out.print(f"nats      {record['nats']['url']}  user {record['nats']['user']} (password: -o json)", markup=False)
    out.print(f"log       position {record['log']['position']}, {record['log']['recorder_lag']} facts to record")
    if record["bootstrap_key"]:
        out.print(f"key       bootstrap {record['bootstrap_key']}", markup=False)
    stream = record["stream"]
    out.print(f"stream    {stream_text(stream)}", markup=False)
    if record["parked"]:
        out.print(f"parked    {record['parked']} messages that nobody could handle; `assay parked list`", markup=False)
    for row in record["processes"]:
        again = f", started {row['starts']} times" if row["starts"] > 1 else ""
        out.print(f"  {row['name']:<12} pid {row['pid']}{again}")


def stream_text(stream: dict[str, Any]) -> str:
    """How full the fact stream is, and for how long there is room at the pace so far."""
    fill, days, full = 100 * (stream["fill"] or 0), stream["days_left"], 100 * stream["full_at"]
    said = f"{stream['facts']} facts, {stream['bytes'] / 1e6:.1f} MB, {fill:.2f} % full"
    if fill >= full:
        return f"{said}: over {full:.0f} %, so new goals are refused; raise ASSAY_STREAM_MAX_BYTES and restart"
    if days is None:
        return f"{said}; days left: unknown until it holds an hour of facts"
    return f"{said}; {days:,.0f} days left until {full:.0f} % at the pace so far"


def logs(
    service: Annotated[str | None, typer.Argument(help=f"One of {', '.join(SERVICES)}, nats or postgres.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option(min=0, help="This many last lines of each.")] = 50,
) -> None:
    """What the processes say, as JSON lines.

    Example: assay logs benchmarker --follow
    """
    files = _log_files(read_settings(), service)
    offsets = {path: _print_last(path, lines) for path in files}
    while follow:
        time.sleep(FOLLOW_POLL_S)
        offsets = {path: _print_from(path, offset) for path, offset in offsets.items()}


def _log_files(settings: Settings, service: str | None) -> list[Path]:
    data = settings.data_dir
    named = {"nats": data / "nats" / "server.log", "postgres": data / "postgres" / "postgres.log"}
    if service in named:
        files = [named[service]]
    elif service is None or service in SERVICES:
        files = sorted((data / "logs").glob(f"{service or '*'}-*.log"))
    else:
        raise Misconfigured(f"no service {service!r}; there are: {', '.join((*SERVICES, *named))}")
    if not any(path.exists() for path in files):
        raise Transient(f"nothing has been logged in {data}; start a factory with `assay up`")
    return [path for path in files if path.exists()]


def _print_last(path: Path, lines: int) -> int:
    text = path.read_text(errors="replace")
    kept = text.splitlines()[-lines:] if lines else []
    print("\n".join(kept), end="\n" if kept else "")
    return path.stat().st_size


def _print_from(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        fresh = file.read()
    print(fresh.decode(errors="replace"), end="", flush=True)
    return offset + len(fresh)
