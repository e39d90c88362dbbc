"""Where a factory is: found in its data folder (embedded), or told by `ASSAY_NATS_URL` and `ASSAY_POSTGRES_DSN`."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from infra.bootstrap.nats_users import ADMIN
from infra.embedded.nats import admin_credentials
from schemas.faults import NotAllowed, Transient
from services.evidence.foreign_log import foreign_log
from services.evidence.log import Log
from services.evidence.postgres_log import PostgresLog, Role
from services.evidence.views import PostgresViews
from services.runtime.bus import Bus
from services.runtime.nats_bus import NatsBus
from services.runtime.settings import Settings, read_settings

STATE_FILE = "factory.json"
SUPERVISOR_LOG = "supervisor.log"


@dataclass(frozen=True)
class Endpoints:
    """What a person's client needs: the bus as `person`, the log as `reader`."""

    nats_url: str
    nats_user: str | None
    nats_password: str | None
    postgres_dsn: str
    pid: int | None = None
    """The supervisor's, when embedded."""

    def write(self, settings: Settings) -> None:
        """The factory in this data folder can be found. Readable by its owner only: it holds a password."""
        path = settings.run_dir / STATE_FILE
        unfinished = path.with_suffix(".new")
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps(asdict(self)), encoding="utf-8")
        unfinished.replace(path)


def find(settings: Settings) -> Endpoints:
    """The factory that these settings mean. Raises Transient, saying how to start one, when none is running."""
    if "ASSAY_POSTGRES_DSN" in os.environ and settings.postgres_dsn:
        password = settings.nats_password.get_secret_value() if settings.nats_password else None
        return Endpoints(settings.nats_url, settings.nats_user, password, settings.postgres_dsn)
    path = settings.run_dir / STATE_FILE
    try:
        found = Endpoints(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        last = _last_words(settings.data_dir / SUPERVISOR_LOG)
        raise Transient(f"no factory is running in {settings.data_dir}; start one with `assay up`{last}") from None
    if found.pid is not None and not alive(found.pid):
        raise Transient(f"the factory in {settings.data_dir} was killed; `assay up` goes on where it was")
    return found


def _last_words(log: Path) -> str:
    """Why the last supervisor ended, when it ended by a fault."""
    try:
        said = log.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return f". The last one ended: {said[-2000:].removeprefix('assay: ')}" if said.startswith("assay: ") else ""


def alive(pid: int) -> bool:
    """A process with this id runs (and is no zombie)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between opening and reading
        return False


@asynccontextmanager
async def open_log(settings: Settings | None = None, origin: str | None = None) -> AsyncIterator[Log]:
    """The log, for reading; given an `origin`, that of the imported log which begins so."""
    async with open_home(settings) as home:
        yield await foreign_log(home, origin) if origin else home


@asynccontextmanager
async def open_home(settings: Settings | None = None) -> AsyncIterator[PostgresLog]:
    """The factory's own log, with what it imported, for reading."""
    log = PostgresLog(find(settings or read_settings()).postgres_dsn)
    try:
        yield log
    finally:
        await log.close()


@asynccontextmanager
async def open_recorder(settings: Settings) -> AsyncIterator[PostgresLog]:
    """The factory's own log, for appending. Raises NotAllowed when the credentials are a reader's."""
    found = find(settings)
    log = PostgresLog(found.postgres_dsn, Role.RECORDER if found.pid is not None else None)
    try:
        await log.require_schema()
        yield log
    except NotAllowed as error:
        raise NotAllowed(f"{error}; this appends to the log, so ASSAY_POSTGRES_DSN must be the recorder's") from error
    finally:
        await log.close()


@asynccontextmanager
async def open_bus(settings: Settings | None = None) -> AsyncIterator[Bus]:
    """The bus, with what a person may do."""
    settings = settings or read_settings()
    bus = await NatsBus.open(_connected_as(find(settings), settings), "person")
    try:
        yield bus
    finally:
        await bus.close()


@asynccontextmanager
async def open_admin_bus(settings: Settings) -> AsyncIterator[Bus]:
    """The bus, with what the bootstrap may do. Whoever else asks is told so by the first thing that is refused."""
    as_admin = admin_settings(settings)
    bus = await NatsBus.open(as_admin, as_admin.nats_user or ADMIN)  # a user's answers come to an inbox of its own
    try:
        yield bus
    finally:
        await bus.close()


def admin_settings(settings: Settings) -> Settings:
    """Settings that connect as the bootstrap's account: the password stands in an embedded factory's data folder; any
    other factory's is given by ASSAY_NATS_USER and ASSAY_NATS_PASSWORD. Raises Misconfigured without one."""
    found = find(settings)
    if found.pid is not None:
        user, password = admin_credentials(settings.data_dir)
        found = replace(found, nats_user=user, nats_password=password)
    return _connected_as(found, settings)


def _connected_as(found: Endpoints, settings: Settings) -> Settings:
    secret = SecretStr(found.nats_password) if found.nats_password else None
    return settings.model_copy(
        update={"nats_url": found.nats_url, "nats_user": found.nats_user, "nats_password": secret}
    )


@asynccontextmanager
async def open_views(settings: Settings | None = None) -> AsyncIterator[PostgresViews]:
    """The views of the log, for reading: what a command before this one was told is in them."""
    views = PostgresViews(find(settings or read_settings()).postgres_dsn)
    try:
        await views.catch_up()
        yield views
    finally:
        await views.close()
