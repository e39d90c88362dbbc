"""What every service process has around its work: logs, bus, metrics, health, signals, an exit status.

`hosted` is the composition root shared by the workers' host and the librarian.
"""

import asyncio
import gc
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import structlog

from schemas.envelope import Draft
from schemas.events import KeyCertified
from schemas.faults import Fault, Misconfigured, NotAllowed
from schemas.ids import certificate_id
from services.runtime.bus import Bus
from services.runtime.credentials import is_worker_credentials, read_credentials
from services.runtime.health import Health, HealthServer, RunFile
from services.runtime.metrics import Metrics
from services.runtime.nats_bus import NatsBus
from services.runtime.nats_link import refusal
from services.runtime.settings import Settings, read_settings
from services.runtime.signing import ServiceKey
from services.runtime.stating import Stamp, publish, unsigned
from services.runtime.telemetry import start_logging

CLOSED_CHECK_S = 1.0
"""How late a copy notices that it may not come back. Chosen: as often as the loop ticks."""

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True)
class Hosted:
    """A running process's surroundings."""

    name: str
    settings: Settings
    bus: Bus
    metrics: Metrics
    health: Health
    stop: asyncio.Event
    """Set by SIGTERM and SIGINT: take nothing new, finish, leave."""
    key: ServiceKey | None = None

    @property
    def stamp(self) -> Stamp:
        sign = self.key.sign if self.key else unsigned
        return Stamp(f"assay/{self.name}/{self.settings.copy_id}", _now, secrets.token_hex, sign)


@asynccontextmanager
async def hosted(name: str, settings: Settings) -> AsyncIterator[Hosted]:
    """Connected, its key stated, listening for signals, with `/metrics`, `/livez` and `/readyz` served; all closed at
    the end. Raises Misconfigured when the signing key is damaged or another service's."""
    key = signing_key_of(name, settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    bus = await unless_stopped(NatsBus.open(settings, name), stop)
    metrics = Metrics(name)
    health = Health(bus.connected)
    server = HealthServer(settings.metrics_host, settings.metrics_port, metrics, health)
    run_file = RunFile(settings.run_dir, name, settings.copy_id, server.port)
    ticking = asyncio.create_task(health.ticking())
    watching = asyncio.create_task(_stop_when_closed(bus, stop))
    process = Hosted(name, settings, bus, metrics, health, stop, key)
    try:
        with _explained(bus, settings):
            await unless_stopped(_state_key(process), stop)
            yield process
    finally:
        ticking.cancel()
        watching.cancel()
        run_file.remove()
        server.close()
        await bus.close()


async def _stop_when_closed(bus: Bus, stop: asyncio.Event) -> None:
    """`stop` is set once the bus is closed for good: without it no work can be taken or answered."""
    while bus.connected():  # noqa: ASYNC110 — the bus has no event for it
        await asyncio.sleep(CLOSED_CHECK_S)
    stop.set()


@contextmanager
def _explained(bus: Bus, settings: Settings) -> Iterator[None]:
    """An end because the server no longer accepts this copy says so: nothing else closes the bus under its user."""
    try:
        yield
    except StoppedEarly:
        if bus.connected():
            raise
    if not bus.connected():
        raise NotAllowed(refusal(settings))


def signing_key_of(name: str, settings: Settings) -> ServiceKey | None:
    """What service `name` signs with; None, which is logged, when it was given nothing. Raises Misconfigured when the
    key is damaged or another service's."""
    key = _read_key(settings)
    if key is None:
        log.warning("what this service states is unsigned: ASSAY_SIGNING_KEY is not set")
    elif key.certificate.service != name:
        where = settings.signing_key or settings.nats_creds
        raise Misconfigured(f"{where} has the key of {key.certificate.service}, and this is {name}")
    return key


def _read_key(settings: Settings) -> ServiceKey | None:
    """The key in its own file, else the one that a joined worker's credentials hold."""
    if settings.signing_key is not None:
        return ServiceKey.read(settings.signing_key)
    if settings.nats_creds is None or not is_worker_credentials(settings.nats_creds):
        return None
    record = read_credentials(settings.nats_creds).signing
    return ServiceKey.of(record, settings.nats_creds) if record else None


async def _state_key(process: Hosted) -> None:
    """The certificate is in the stream before anything that the key signs. Stated at every start, recorded once."""
    if process.key is None:
        return
    certificate = process.key.certificate
    draft = Draft(certificate_id(certificate.fingerprint), KeyCertified(certificate=certificate), None)
    stamp = process.stamp
    await publish(process.bus, stamp, stamp.stating(draft), process.metrics)


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T:
    """The result of `work`, which may be dropped at any time. Raises StoppedEarly when the stop signal came first."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return await working
        raise StoppedEarly
    finally:
        await _ended(working, stopping)


async def drained(work: Coroutine[Any, Any, None], hosted: Hosted) -> None:
    """`work` has ended by itself, or was given `drain_s` after the stop signal and was then cancelled."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(hosted.stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            log.info("stopping", drain_s=hosted.settings.drain_s)
            await asyncio.wait([working], timeout=hosted.settings.drain_s)
        if working.done():
            await working
    finally:
        await _ended(working, stopping)


def run_process(
    name: str, main: Callable[[Settings], Coroutine[Any, Any, None]], settings: Settings | None = None
) -> NoReturn:
    """Runs `main` and exits: 0 when it ended or was asked to stop, else the fault's own status, 1 for a bug."""
    status = 0
    try:
        known = settings or read_settings()
        start_logging(name, known.copy_id, known.log_level)
        spare_the_collector()
        asyncio.run(main(known))
    except StoppedEarly:
        log.info("stopped")
    except Fault as fault:
        log.error(  # noqa: TRY400 — the message is the explanation
            "stopped by a fault", fault=type(fault).__name__, reason=str(fault), exit_status=fault.exit_status
        )
        status = fault.exit_status
    except Exception:  # the outermost frame: say it and die
        log.exception("stopped by a bug")
        status = 1
    sys.exit(status)


def spare_the_collector() -> None:
    """What was imported is not walked again, and a batch of facts in hand is no reason to look for garbage."""
    gc.freeze()
    gc.set_threshold(10_000, 50, 100)  # chosen: 500 facts are some 20,000 objects; a sixth of the recorder's time


class StoppedEarly(Exception):
    """The stop signal came before there was any work in hand."""


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """No task runs any more; what a cancelled one raised is of no interest."""
    open_tasks = [task for task in tasks if not task.done()]
    for task in open_tasks:
        task.cancel()
    if open_tasks:
        await asyncio.wait(open_tasks)


def _now() -> datetime:
    return datetime.now(UTC)
