"""How fast a recorder that starts late copies the stream into Postgres."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from pydantic import SecretStr

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least
from benchmarks.costs import processes_of, spent_between
from benchmarks.factory import FOLDER
from infra.bootstrap.nats import bootstrap_nats
from infra.bootstrap.postgres import DATABASE, RECORDER_ROLE, bootstrap_postgres
from infra.embedded.nats import EmbeddedNats
from infra.embedded.postgres import EmbeddedPostgres
from schemas.envelope import Message
from services.evidence.leadership import PostgresLeadership
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import verify
from services.librarian.recorder import record
from services.runtime.bus import Bus
from services.runtime.nats_bus import NatsBus
from services.runtime.process import spare_the_collector
from services.runtime.settings import Settings, environment_of, read_settings
from tests.fixtures.facts import story

EVENTS = 60_000
CANDIDATES_A_GOAL = 100
FACTS_A_GOAL = 4 * CANDIDATES_A_GOAL + 2
"""As `story` tells them: accepted, due, four of each candidate but three of the last, completed."""
IN_FLIGHT = 256
"""Publications awaited together while the stream is filled. Chosen: it is not what is measured."""


@dataclass(frozen=True)
class Servers:
    """A real NATS and a real Postgres of this benchmark's own, with Assay's streams and schema."""

    nats: EmbeddedNats
    postgres: EmbeddedPostgres
    folder: Path

    def settings(self, user: str) -> Settings:
        name, password = self.nats.credentials(user)
        return Settings(nats_url=self.nats.url, nats_user=name, nats_password=SecretStr(password), data_dir=self.folder)

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds of both so far."""
        pids = {"nats": self.nats.pid, "postgres": self.postgres.pid}
        return {name: sum(one.cpu_s for one in processes_of(pid)) for name, pid in pids.items() if pid}

    @property
    def dsn(self) -> str:
        return self.postgres.dsn(RECORDER_ROLE, DATABASE)


@dataclass(frozen=True)
class Timed:
    """A recording from beginning to end."""

    cpu_s: float
    """Of the recorder's own process."""
    marks: list[tuple[float, int]]
    """(seconds since the start, log position) after each transaction, the start first."""


@asynccontextmanager
async def servers() -> AsyncIterator[Servers]:
    """Both run, as durable as in a factory. Nothing of them is left afterwards."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="bench-") as folder:
        found = Servers(EmbeddedNats(Path(folder)), EmbeddedPostgres(Path(folder, "postgres")), Path(folder))
        found.postgres.start()
        try:
            await found.nats.start()
            await bootstrap_postgres(found.postgres.dsn())
            await bootstrap_nats(found.settings("admin"))
            yield found
        finally:
            await asyncio.shield(found.nats.stop())
            found.postgres.stop()


def run(size: float, say: Say) -> Result:
    """Facts of whole goals are in the stream; then a recorder starts, and is timed until it has caught up."""
    return asyncio.run(_run(max(FACTS_A_GOAL, round(EVENTS * size)), say))


async def _run(events: int, say: Say) -> Result:
    goals = [f"g{number}" for number in range(-(-events // FACTS_A_GOAL))]
    messages = story(*goals, candidates=CANDIDATES_A_GOAL)
    async with servers() as up:
        say(f"publishing {len(messages)} facts")
        await _fill(up, messages)
        say("recording")
        before = up.cpu_s()
        timed = _record_all(up, len(messages))
        cpu_s = {"recorder": round(timed.cpu_s, 3)} | spent_between(before, up.cpu_s())
        log = PostgresLog(up.dsn)
        say("verifying")
        verified = await verify(log)
        await log.close()
    if not verified.holds:
        raise AssertionError(f"the log that was measured does not verify: {verified.first_break}")
    return _result(messages, timed, cpu_s)


async def _fill(up: Servers, messages: tuple[Message, ...]) -> None:
    bus = await NatsBus.open(up.settings("admin"), "admin")
    try:
        for start in range(0, len(messages), IN_FLIGHT):
            await asyncio.gather(*(_publish(bus, message) for message in messages[start : start + IN_FLIGHT]))
    finally:
        await bus.close()


async def _publish(bus: Bus, message: Message) -> None:
    await bus.publish(message, UUID(message.headers["ce-id"]))


def _record_all(up: Servers, position: int) -> "Timed":
    """What a recorder took.

    In a process of its own, as a librarian is: here the facts that were published fill the garbage collector's rounds.
    """
    settings = up.settings("librarian").model_copy(update={"postgres_dsn": up.dsn})
    recorder = subprocess.run(
        [sys.executable, "-m", "benchmarks.recorder_catch_up", str(position)],
        env=os.environ | environment_of(settings),
        stdout=subprocess.PIPE,
        check=True,
    )
    return Timed(**json.loads(recorder.stdout))


async def _record_up_to(settings: Settings, position: int) -> "Timed":
    assert settings.postgres_dsn
    bus = await NatsBus.open(settings, "librarian")
    log, leadership = PostgresLog(settings.postgres_dsn), PostgresLeadership(settings.postgres_dsn)
    try:
        await leadership.acquire()
        began, spent = time.perf_counter(), time.process_time()
        marks = [(0.0, 0)]
        async with aclosing(record(bus, log, leadership)) as recordings:
            async for recording in recordings:
                marks.append((round(time.perf_counter() - began, 4), recording.appended.head.position))
                if recording.appended.head.position >= position:
                    return Timed(time.process_time() - spent, marks)
        raise AssertionError("the recorder ended by itself")
    finally:
        await leadership.release()
        await log.close()
        await bus.close()


def _result(messages: tuple[Message, ...], timed: Timed, cpu_s: dict[str, float]) -> Result:
    seconds, events = timed.marks[-1]
    body_bytes = sum(len(message.body) for message in messages) / len(messages)
    figures = (
        Figure("events recorded", round(events / seconds), "1/s", at_least(15_000)),
        Figure("events in a transaction", round(events / (len(timed.marks) - 1), 1), ""),
        *(Figure(f"processor time an event: {label}", round(1e6 * s / events, 1), "µs") for label, s in cpu_s.items()),
        Figure("mean body", round(body_bytes), "B"),
    )
    raw = {"events": events, "seconds": seconds, "cpu_s": cpu_s, "marks": timed.marks}
    return Result(figures, raw)


BENCHMARK = Benchmark("recorder_catch_up", "Facts a second from a full stream into Postgres, sync always", 1, run)


if __name__ == "__main__":
    spare_the_collector()  # as every service does
    print(json.dumps(asdict(asyncio.run(_record_up_to(read_settings(), int(sys.argv[1]))))))
