"""`assay credentials`: which workers on other machines may join this factory."""

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from infra.bootstrap import workers
from infra.bootstrap.keys import issue_key
from infra.bootstrap.nats_server import CONFIG_FILE, rewrite_workers
from schemas.faults import Misconfigured
from services.console.output import Column, Format, OutputOption, emit_records, say
from services.runtime.address import Address
from services.runtime.credentials import write_credentials
from services.runtime.settings import read_settings
from services.runtime.signing import KeyRecord, ServiceKey

app = typer.Typer(no_args_is_help=True, help="Which workers on other machines may join.")

COLUMNS = (
    Column("name", "name"),
    Column("service", "joins as"),
    Column("since", "admitted"),
    Column("key", "public key"),
)


@app.command()
def create(
    service: Annotated[str, typer.Argument(help=f"One of {', '.join(workers.JOINABLE)}.")],
    name: Annotated[str, typer.Argument(help="What this factory shall call the worker, e.g. its machine.")],
    file: Annotated[Path | None, typer.Option(help="Where the credentials go; default NAME.creds here.")] = None,
    signing_key: Annotated[
        str | None,
        typer.Option(help="A key that `assay key issue` made, - for standard input; needed where no bootstrap key is."),
    ] = None,
) -> None:
    """Admit one worker on another machine, and write the file it joins with. A running factory learns of it at once.

    The file holds a secret that is kept nowhere else: carry it over safely. It allows what the service may do on the
    bus, and nothing on this machine.

    Example: assay credentials create benchmarker box2 --file box2.creds
    """
    home, path = _home(), file or Path(f"{name}.creds")
    if path.exists():
        raise Misconfigured(f"{path} exists; name another file with --file")
    now = datetime.now(UTC)
    signing = _given_key(signing_key, service) if signing_key else issue_key(home.parent / "keys", service, now).record
    made = workers.admit(home, service, name, now)
    try:
        write_credentials(made.model_copy(update={"signing": signing}), path)
    except Misconfigured:
        workers.revoke(home, name)
        raise
    told = rewrite_workers(home)
    say(f"{name} may join as {service}" + ("" if told else " once the factory runs"))
    say(f"on the other machine: assay worker {service} --join {_url(home)} --creds {path.name}")


@app.command("list")
def list_(output: OutputOption = Format.TEXT) -> None:
    """Who is admitted.

    Example: assay credentials list -o json
    """
    rows = [asdict(worker) for worker in workers.admitted(_home())]
    emit_records(rows, output, COLUMNS, "no worker on another machine is admitted")


@app.command()
def revoke(name: Annotated[str, typer.Argument(help="As `assay credentials list` shows it.")]) -> None:
    """End a worker's admission. It is disconnected at once; what it held is handed out again.

    Example: assay credentials revoke box2
    """
    home = _home()
    gone = workers.revoke(home, name)
    rewrite_workers(home)
    say(f"{name} may no longer join as {gone.service}")


def _given_key(source: str, service: str) -> KeyRecord:
    """The key in a file or on standard input, if it is one of `service`. Raises Misconfigured."""
    path = Path("/dev/stdin" if source == "-" else source)
    key = ServiceKey.parse(sys.stdin.read(), path) if source == "-" else ServiceKey.read(path)
    if key.certificate.service != service:
        raise Misconfigured(f"{path} has a key of {key.certificate.service}, and this worker joins as {service}")
    return key.record


def _home() -> Path:
    home = read_settings().data_dir / "nats"
    if not home.is_dir():
        raise Misconfigured(f"no factory has been started in {home.parent}: `assay up --listen ADDRESS` first")
    return home


def _url(home: Path) -> str:
    """Where the other machine finds this factory; words in place of what is not known here."""
    try:
        config = json.loads((home / CONFIG_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "nats://HOST:PORT"
    listens = Address(config["host"], config["port"])
    if listens.is_loopback:
        say("this factory listens for this machine only: `assay down`, then `assay up --listen ADDRESS`")
    everywhere = listens.reached_at != listens.host
    return f"nats://HOST:{listens.port}" if everywhere or listens.is_loopback else listens.url(listens.port)
