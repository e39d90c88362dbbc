"""`assay key`: who may sign what the factory states."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from infra.bootstrap.keys import BOOTSTRAP_KEY, issue_key, known_fingerprint
from schemas.faults import Misconfigured
from services.console.output import Column, Format, OutputOption, emit_records, say
from services.console.supervisor import SERVICES
from services.runtime.settings import read_settings
from services.runtime.signing import ServiceKey

app = typer.Typer(no_args_is_help=True, help="The keys that sign what the factory states.")

COLUMNS = (
    Column("service", "service"),
    Column("fingerprint", "key"),
    Column("certified_at", "certified"),
    Column("issuer", "by bootstrap key"),
)


@app.command("list")
def list_(output: OutputOption = Format.TEXT) -> None:
    """The services' keys in this data folder, and the bootstrap key that certified them.

    Example: assay key list
    """
    settings = read_settings()
    found = [ServiceKey.read(path) for path in sorted(settings.keys.glob("*.key")) if path.name != BOOTSTRAP_KEY]
    records = [
        {
            "service": key.certificate.service,
            "fingerprint": key.fingerprint,
            "certified_at": key.certificate.certified_at.isoformat(),
            "issuer": known_fingerprint(settings.keys),
        }
        for key in found
    ]
    emit_records(records, output, COLUMNS, f"no keys in {settings.keys}: `assay up` makes them")


@app.command()
def issue(
    service: Annotated[str, typer.Argument(help=f"Which service: {', '.join(SERVICES)}.")],
    to: Annotated[Path, typer.Option("--to", help="The file to write; it holds a secret.")],
) -> None:
    """Certify a new key for a copy of a service on another machine, or in a container.

    The file is all that the copy needs: ASSAY_SIGNING_KEY names it there. It must reach that machine secretly.

    Example: assay key issue compiler --to compiler.key
    """
    if service not in SERVICES:
        raise Misconfigured(f"no service {service!r}; there are: {', '.join(SERVICES)}")
    if to.exists():
        raise Misconfigured(f"{to} exists; choose another file, so that no key is lost")
    key = issue_key(read_settings().keys, service, datetime.now(UTC))
    try:
        key.write(to)
    except OSError as error:
        raise Misconfigured(f"cannot write {to}: {error.strerror}") from error
    say(f"{to} holds key {key.fingerprint} of {service}; set ASSAY_SIGNING_KEY to it where that copy runs")
    print(json.dumps({"service": service, "key": key.fingerprint, "file": str(to)}))
