"""The librarian as a process on real NATS and real Postgres: it leads, is killed, is replaced, and drains."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from infra.embedded.nats import EmbeddedNats
from infra.embedded.postgres import EmbeddedPostgres
from schemas.enums import Outcome
from schemas.envelope import Message
from schemas.events import CandidateProposed, GoalCompleted, GoalRefused
from schemas.ids import NULL_ROUTE
from services.evidence.postgres_log import PostgresLog
from services.evidence.views import PostgresViews
from services.runtime.bus import GOALS_BUCKET, PRESENCE_BUCKET
from services.runtime.nats_bus import NatsBus
from services.runtime.presence import Presence
from services.runtime.settings import environment_of
from tests.fixtures.nats import ConnectAs, settings_for
from tests.fixtures.postgres import fresh_database
from tests.integration.fake_workers import FakeWorkers
from tests.integration.librarian_office import GOAL, facts_of, submit, until, until_completed

Process = asyncio.subprocess.Process
LONG = GOAL | {"budget": {"candidates": 160, "wall": 600, "stagnation": 1000}}


class Site:
    """Servers, a bus with every permission, and librarians as processes."""

    def __init__(self, nats: EmbeddedNats, bus: NatsBus, dsn: str, folder: Path) -> None:
        self.bus = bus
        self.dsn = dsn
        self._environment = (
            {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
            | environment_of(settings_for(nats, "librarian", folder))
            | nats.environment("librarian")
            | {"ASSAY_POSTGRES_DSN": dsn}
        )
        self.processes: list[Process] = []

    async def start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.librarian", env=self._environment, stderr=asyncio.subprocess.DEVNULL
        )
        self.processes.append(process)
        return process


@pytest.fixture
async def site(
    nats: EmbeddedNats, connect_as: ConnectAs, own_postgres: EmbeddedPostgres, tmp_path: Path
) -> AsyncIterator[Site]:
    bus = await connect_as("admin")
    database = await fresh_database(own_postgres)
    made = Site(nats, bus, database.recorder_dsn, tmp_path)
    present = Presence(await bus.bucket(PRESENCE_BUCKET), (NULL_ROUTE,), "host", "copy", 10.0)
    tasks = [asyncio.create_task(work) for work in (present.keep(), FakeWorkers(bus).serve())]
    yield made
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for process in made.processes:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def log(site: Site) -> AsyncIterator[PostgresLog]:
    made = PostgresLog(site.dsn)
    yield made
    await made.close()


async def test_a_goal_ends_through_a_real_librarian_that_then_drains(site: Site, log: PostgresLog) -> None:
    librarian = await site.start()
    await submit(site.bus, "g")
    await site.bus.publish(Message("assay.intake.goal.submitted.bad", {}, b"[" * 20_000), uuid4())
    await until_completed(log, "g")
    (end,) = await facts_of(log, "g", GoalCompleted)
    assert end.fact.outcome is Outcome.CHAMPION

    async def refused() -> bool:
        return len(await facts_of(log, None, GoalRefused)) == 1

    await until(refused)
    views = PostgresViews(site.dsn)

    async def viewed() -> bool:
        return [row["phase"] for row in await views.goals("g")] == ["completed"]

    await until(viewed)
    await views.close()

    async def marked() -> bool:
        mark = await (await site.bus.bucket(GOALS_BUCKET)).get("g")
        return mark is not None and json.loads(mark[0]) == {"state": "ended", "position": end.position}

    await until(marked)
    librarian.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        assert await librarian.wait() == 0


@pytest.mark.slow
async def test_a_spare_takes_over_when_the_leader_is_killed_mid_goal(site: Site, log: PostgresLog) -> None:
    leader = await site.start()
    await submit(site.bus, "g", LONG)
    await at_least(log, 100)
    await site.start()
    leader.kill()
    await until_completed(log, "g")
    everything = await facts_of(log, "g")
    assert len({recorded.id for recorded in everything}) == len(everything)
    assert len(await facts_of(log, "g", CandidateProposed)) == 160
    assert [one for one in await log.duplicates() if one.kind == "divergent"] == []


@pytest.mark.slow
async def test_the_goal_goes_on_when_postgres_comes_back(
    site: Site, log: PostgresLog, own_postgres: EmbeddedPostgres
) -> None:
    librarian = await site.start()
    await submit(site.bus, "g", LONG)
    await at_least(log, 100)
    own_postgres.kill()
    await asyncio.sleep(1)
    own_postgres.start()
    await until_completed(log, "g")
    assert librarian.returncode is None
    assert len(await facts_of(log, "g", CandidateProposed)) == 160


async def at_least(log: PostgresLog, position: int) -> None:
    async def reached() -> bool:
        return (await log.head()).position >= position

    await until(reached)
