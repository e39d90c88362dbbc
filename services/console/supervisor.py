"""`python -m services.console.supervisor`: one embedded factory, in the foreground, until SIGTERM or Ctrl-C.

It starts a real NATS and a real Postgres, bootstraps both, starts the services as processes of their own, and starts
again whatever dies. Everything it starts is tied to its life.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from infra.bootstrap.keys import bootstrap_keys, key_file
from infra.bootstrap.nats import bootstrap_nats
from infra.bootstrap.postgres import DATABASE, READER_ROLE, RECORDER_ROLE, bootstrap_postgres
from infra.embedded.nats import EmbeddedNats
from infra.embedded.postgres import EmbeddedPostgres
from infra.embedded.tether import tethered
from kernel_lab.backends import find_compiler
from kernel_lab.sandbox import isolation
from schemas.faults import Fault, Misconfigured
from services.console.data_folder import claim
from services.console.endpoints import STATE_FILE, Endpoints
from services.console.janitor import keep_clean
from services.console.trust import trust_of
from services.evidence.postgres_log import PostgresLog, Role
from services.runtime.address import parse_address
from services.runtime.settings import PREFIX, Settings, environment_of, read_settings

SERVICES = ("librarian", "proposer", "compiler", "verifier", "benchmarker")
PROCESSES_FILE = "processes.json"
COPIES_FLAG = "--copies="
POLL_S = 0.25
FIRST_BACKOFF_S = 0.2
LONGEST_BACKOFF_S = 5.0
"""Chosen: what cannot start is tried twelve times a minute."""
LOG_KEPT_BYTES = 16 * 1024 * 1024


@dataclass
class Kept:
    """One process that is kept running."""

    name: str
    start: Callable[[], Awaitable[None]]
    alive: Callable[[], bool]
    pid: Callable[[], int | None]
    starts: int = 1
    not_before: float = 0.0

    async def mend(self, now: float) -> bool:
        """Started again if it died and its backoff is over. True when it was."""
        if self.alive() or now < self.not_before:
            return False
        backoff_s = min(FIRST_BACKOFF_S * 2 ** min(self.starts, 16), LONGEST_BACKOFF_S)
        self.starts, self.not_before = self.starts + 1, now + backoff_s
        await self.start()
        return True


@dataclass
class Copy:
    """One copy of a service, as a process of its own."""

    service: str
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """The process runs. Its exit status 2 means that starting it again is of no use."""
        if self.process is not None and self.process.poll() == Misconfigured.exit_status:
            raise Misconfigured(f"{self.service} cannot work as set up:\n{_tail(self.log)}")
        if self.log.exists() and self.log.stat().st_size > LOG_KEPT_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 — forking takes a millisecond
                tethered([sys.executable, "-m", f"services.{self.service}"]),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C at the terminal is the supervisor's to handle
            )

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def ask_to_end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def end_by(self, deadline: float) -> None:
        """The process is gone, by force after `deadline`."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Supervisor:
    """The running factory."""

    def __init__(self, settings: Settings, copies: dict[str, int]) -> None:
        self._settings = settings
        self._copies = copies
        self._kept: list[Kept] = []
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serves until asked to stop; then nothing that it started is left."""
        for wanted in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(wanted, self._stop.set)
        async with AsyncExitStack() as stack:
            stack.enter_context(claim(self._settings))
            require_tools(self._settings)
            postgres = await stack.enter_async_context(self._postgres())
            nats = await stack.enter_async_context(self._nats())
            await self._bootstrap(postgres, nats)
            await stack.enter_async_context(self._services(postgres, nats))
            self._write_processes()
            user, password = nats.credentials("person")
            Endpoints(nats.url, user, password, postgres.dsn(READER_ROLE, DATABASE), os.getpid()).write(self._settings)
            stack.callback((self._settings.run_dir / STATE_FILE).unlink, missing_ok=True)
            memory = PostgresLog(postgres.dsn(READER_ROLE, DATABASE), Role.READER)
            admin = self._as_admin(nats)
            cleaning = asyncio.create_task(keep_clean(memory, admin, lambda: trust_of(admin)))
            cleaning.add_done_callback(_tell)
            stack.callback(cleaning.cancel)
            await self._keep_running()

    @asynccontextmanager
    async def _postgres(self) -> AsyncIterator[EmbeddedPostgres]:
        server = EmbeddedPostgres(self._settings.data_dir / "postgres")

        async def start() -> None:
            server.start()

        await start()
        self._kept.append(Kept("postgres", start, server.running, lambda: server.pid))
        try:
            yield server
        finally:
            server.stop()

    @asynccontextmanager
    async def _nats(self) -> AsyncIterator[EmbeddedNats]:
        server = EmbeddedNats(self._settings.data_dir, listen=parse_address(self._settings.listen))

        async def start() -> None:
            server.kill()  # forget a process that died by itself
            await server.start()

        await server.start()
        self._kept.append(Kept("nats", start, server.alive, lambda: server.pid))
        try:
            yield server
        finally:
            await server.stop()

    async def _bootstrap(self, postgres: EmbeddedPostgres, nats: EmbeddedNats) -> None:
        bootstrap_keys(self._settings.keys, SERVICES, datetime.now(UTC))
        await bootstrap_postgres(postgres.dsn())
        await bootstrap_nats(self._as_admin(nats))

    def _as_admin(self, nats: EmbeddedNats) -> Settings:
        user, password = nats.credentials("admin")
        return self._settings.model_copy(
            update={"nats_url": nats.url, "nats_user": user, "nats_password": SecretStr(password)}
        )

    @asynccontextmanager
    async def _services(self, postgres: EmbeddedPostgres, nats: EmbeddedNats) -> AsyncIterator[None]:
        copies = []
        for service in SERVICES:
            environment = self._environment(service, postgres, nats)
            for number in range(1, self._copies.get(service, 1) + 1):
                log = self._settings.data_dir / "logs" / f"{service}-{number}.log"
                copy = Copy(service, environment, log)
                await copy.start()
                copies.append(copy)
                self._kept.append(Kept(service, copy.start, copy.alive, copy.pid))
        try:
            yield
        finally:
            for copy in copies:
                copy.ask_to_end()
            deadline = time.monotonic() + self._settings.drain_s + 5.0
            for copy in copies:
                copy.end_by(deadline)

    def _environment(self, service: str, postgres: EmbeddedPostgres, nats: EmbeddedNats) -> dict[str, str]:
        """What a service is told: its own bus user, and the log only if it may read or record."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        own |= environment_of(self._settings) | nats.environment(service)
        own["ASSAY_SIGNING_KEY"] = str(key_file(self._settings.keys.absolute(), service))
        match service:
            case "librarian":
                own["ASSAY_POSTGRES_DSN"] = postgres.dsn(RECORDER_ROLE, DATABASE)
            case "proposer":
                own["ASSAY_POSTGRES_DSN"] = postgres.dsn(READER_ROLE, DATABASE)
            case _:
                own.pop("ASSAY_POSTGRES_DSN", None)
        return own

    async def _keep_running(self) -> None:
        while not self._stop.is_set():
            mended = [await kept.mend(time.monotonic()) for kept in self._kept]
            if any(mended):
                self._write_processes()
            try:
                async with asyncio.timeout(POLL_S):
                    await self._stop.wait()
            except TimeoutError:
                continue

    def _write_processes(self) -> None:
        rows = [{"name": kept.name, "pid": kept.pid(), "starts": kept.starts} for kept in self._kept]
        rows.insert(0, {"name": "factory", "pid": os.getpid(), "starts": 1})
        path = self._settings.run_dir / PROCESSES_FILE
        path.with_suffix(".new").write_text(json.dumps(rows), encoding="utf-8")
        path.with_suffix(".new").replace(path)


def require_sandboxed_compiler(settings: Settings) -> None:
    """A compiler and an isolation are here. Raises Misconfigured, saying how to get them, before anything starts."""
    find_compiler()
    isolation(settings.isolation)


def _tell(cleaning: asyncio.Task[None]) -> None:
    """A janitor that ended by a bug says so in the supervisor's log; the factory goes on, and its stream fills up."""
    if not cleaning.cancelled() and (bug := cleaning.exception()) is not None:
        traceback.print_exception(bug)


def require_tools(settings: Settings) -> None:
    """A factory can start here. Raises Misconfigured."""
    require_sandboxed_compiler(settings)
    parse_address(settings.listen)
    if settings.metrics_port:
        raise Misconfigured("ASSAY_METRICS_PORT is one port, and a factory has several processes; leave it out here")


def parse_copies(texts: list[str]) -> dict[str, int]:
    """`["compiler=2"]` as a mapping. Raises Misconfigured for an unknown service or an absurd count."""
    copies = {}
    for text in texts:
        service, _, count = text.partition("=")
        if service not in SERVICES or not count.isdigit() or not 1 <= int(count) <= 64:
            raise Misconfigured(
                f"--copies {text!r}: write SERVICE=N, N from 1 to 64, SERVICE one of {', '.join(SERVICES)}"
            )
        copies[service] = int(count)
    return copies


def _tail(log: Path, limit_bytes: int = 2000) -> str:
    return log.read_bytes()[-limit_bytes:].decode(errors="replace").strip()


def main() -> None:
    """Runs the factory of `ASSAY_DATA`; arguments are `--copies=SERVICE=N`."""
    copies = parse_copies([argument.removeprefix(COPIES_FLAG) for argument in sys.argv[1:]])
    try:
        asyncio.run(Supervisor(read_settings(), copies).run())
    except Fault as fault:
        print(f"assay: {fault}", file=sys.stderr)
        sys.exit(fault.exit_status)


if __name__ == "__main__":
    main()
