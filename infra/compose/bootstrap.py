"""`python -m infra.compose.bootstrap`: schema, roles, streams and queues are there; the services may start.

Idempotent: `docker compose up` runs it every time, and an upgrade moves the schema forward here.
"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from infra.bootstrap.keys import FINGERPRINT, bootstrap_keys, key_file
from infra.bootstrap.nats import bootstrap_nats
from infra.bootstrap.nats_users import SERVICES
from infra.bootstrap.postgres import READER_ROLE, RECORDER_ROLE, bootstrap_postgres
from infra.bootstrap.postgres_server import SUPERUSER
from infra.compose.job import run_job
from infra.compose.passwords import POSTGRES_PASSWORD, POSTGRES_PASSWORD_READER, POSTGRES_PASSWORD_RECORDER, secret
from schemas.faults import Misconfigured, NotAllowed, Transient
from services.runtime.settings import read_settings
from services.runtime.signing import ServiceKey

WAITS_S = 60.0
"""Chosen: both servers are healthy before this job starts; more is for a machine in distress."""
POLL_S = 1.0
KEYS = Path("/keys")
"""The volume with the bootstrap key, which only this job mounts."""
JANITOR = "janitor"
HANDED = Path("/key")
"""One volume per service, mounted here and, to be read only, in that service."""


def main() -> None:
    """Both servers hold what the services need. Raises Misconfigured, NotAllowed or Transient."""
    host = os.environ.get("POSTGRES_HOST")
    if not host:
        raise Misconfigured("POSTGRES_HOST is not set; docker-compose.yml sets it")
    roles = {
        RECORDER_ROLE: secret(POSTGRES_PASSWORD_RECORDER),
        READER_ROLE: secret(POSTGRES_PASSWORD_READER),
    }
    dsn = f"postgresql://{SUPERUSER}:{secret(POSTGRES_PASSWORD)}@{host}/postgres"
    settings = read_settings()
    asyncio.run(_patiently(lambda: _postgres(dsn, roles)))
    asyncio.run(_patiently(lambda: bootstrap_nats(settings)))
    key = hand_out_keys(KEYS, HANDED, datetime.now(UTC))
    print(f"ready: schema, roles, streams, queues and keys; bootstrap key {key}", file=sys.stderr)


def hand_out_keys(folder: Path, handed: Path, now: datetime) -> str:
    """Every service has its own key, and no other's, in its own folder of `handed`; the janitor has the fingerprint,
    which is no secret. Returns it."""
    found = bootstrap_keys(folder, SERVICES, now)
    for service in SERVICES:
        given = handed / service
        given.mkdir(parents=True, exist_ok=True)
        ServiceKey.read(key_file(folder, service)).write(key_file(given, service))
    judge = handed / JANITOR
    judge.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / FINGERPRINT, judge / FINGERPRINT)
    return found


async def _postgres(dsn: str, roles: dict[str, str]) -> None:
    try:
        await bootstrap_postgres(dsn, passwords=roles)
    except NotAllowed as refused:
        mend = f"the database volume was made with another {POSTGRES_PASSWORD}: write that one into .env"
        raise NotAllowed(f"{refused}; {mend}") from refused


async def _patiently(attempt: Callable[[], Awaitable[None]]) -> None:
    deadline = time.monotonic() + WAITS_S
    while True:
        try:
            return await attempt()
        except Transient:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(POLL_S)


if __name__ == "__main__":
    run_job(main)
