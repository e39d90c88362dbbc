"""`assay worker`: this machine takes work of a factory elsewhere."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import urlsplit

import typer

from infra.bootstrap.workers import JOINABLE
from schemas.faults import Misconfigured, Transient
from services.console.output import say
from services.console.supervisor import require_sandboxed_compiler
from services.runtime.credentials import is_worker_credentials, read_credentials
from services.runtime.language import require_same_language
from services.runtime.nats_bus import NatsBus
from services.runtime.routes import INPUTS, OUTPUTS
from services.runtime.settings import PREFIX, Settings, environment_of, read_settings

SCHEMES = ("nats", "tls")
REACHED_WITHIN_S = 10.0
"""Chosen: five attempts. Later outages are waited out, however long they take."""
OF_THE_FACTORY = ("ASSAY_NATS_USER", "ASSAY_NATS_PASSWORD", "ASSAY_POSTGRES_DSN")


def worker(
    service: Annotated[str, typer.Argument(help=f"One of {', '.join(JOINABLE)}.")],
    join: Annotated[str, typer.Option(help="The factory's NATS, as in nats://10.0.0.5:4222.")],
    creds: Annotated[Path, typer.Option(help="The file that `assay credentials create` made for this worker.")],
    artifacts: Annotated[
        str | None,
        typer.Option(help="An fsspec URI shared with the factory, such as s3://…; else objects are rebuilt."),
    ] = None,
) -> None:
    """Join a factory elsewhere as one copy of a service, in the foreground, until Ctrl-C or SIGTERM.

    It takes work of its own machine class only; a benchmarker announces that class to the factory. What it holds when
    it is stopped is finished or handed out again.

    Example: assay worker benchmarker --join nats://10.0.0.5:4222 --creds box2.creds
    """
    settings = _settings(service, join, creds, artifacts)
    require_sandboxed_compiler(settings)
    asyncio.run(_knock(service, settings))
    say(f"joined {settings.nats_url} as {service}; Ctrl-C leaves")
    _become(service, settings)


def _settings(service: str, join: str, creds: Path, artifacts: str | None) -> Settings:
    if service not in JOINABLE:
        raise Misconfigured(f"{service!r} cannot join from elsewhere; what can: {', '.join(JOINABLE)}")
    _require_url(join)
    if is_worker_credentials(creds) or not creds.exists():
        made_for = read_credentials(creds).service
        if made_for != service:
            raise Misconfigured(
                f"{creds} is for a {made_for}, not for a {service}: make one for it where the factory runs"
            )
    told = {"nats_url": join, "nats_creds": creds.absolute()}
    return read_settings(**told, **({"artifacts_uri": artifacts} if artifacts else {}))


def _require_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        well = parts.scheme in SCHEMES and parts.hostname is not None and (parts.port or 1) > 0
    except ValueError:
        well = False
    if not well:
        raise Misconfigured(f"--join {url!r}: write it as nats://HOST:PORT")


async def _knock(service: str, settings: Settings) -> None:
    """The factory is there, lets us in and speaks our language. Raises Transient, NotAllowed or Misconfigured."""
    try:
        async with asyncio.timeout(REACHED_WITHIN_S):
            bus = await NatsBus.open(settings, service)
    except TimeoutError:
        raise Transient(
            f"no NATS answers at {settings.nats_url} within {REACHED_WITHIN_S:.0f} s; the factory must run with "
            "`assay up --listen ADDRESS`, and firewalls must let its port through"
        ) from None
    try:
        await require_same_language(bus, (*INPUTS[service], *OUTPUTS[service]))
    finally:
        await bus.close()


def _become(service: str, settings: Settings) -> NoReturn:
    """This process is the service from now on: signals, logs and exit status are its own."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    own |= {key: value for key, value in environment_of(settings).items() if key not in OF_THE_FACTORY}
    if copy_id := os.environ.get("ASSAY_COPY_ID"):
        own["ASSAY_COPY_ID"] = copy_id
    os.execve(sys.executable, [sys.executable, "-m", f"services.{service}"], own)  # noqa: S606 — no shell is wanted
