"""`python -m infra.compose.bootstrap`: schema, roles, streams and queues are there; the services may start.

Idempotent: `docker compose up` runs it every time, and an upgrade moves the schema forward here.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable

from infra.bootstrap.nats import bootstrap_nats
from infra.bootstrap.postgres import READER_ROLE, RECORDER_ROLE, bootstrap_postgres
from infra.bootstrap.postgres_server import SUPERUSER
from infra.compose.job import run_job
from infra.compose.passwords import POSTGRES_PASSWORD, POSTGRES_PASSWORD_READER, POSTGRES_PASSWORD_RECORDER, secret
from schemas.faults import Misconfigured, NotAllowed, Transient
from services.runtime.settings import read_settings

WAITS_S = 60.0
"""Chosen: both servers are healthy before this job starts; more is for a machine in distress."""
POLL_S = 1.0


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
    print("ready: schema, roles, streams and queues", file=sys.stderr)


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
