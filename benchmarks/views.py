"""The views at size: how fast they are rebuilt, how soon they answer, what appending costs as the log grows."""

import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least, at_most
from benchmarks.factory import FOLDER
from infra.bootstrap.postgres import DATABASE, RECORDER_ROLE, bootstrap_postgres
from infra.embedded.postgres import EmbeddedPostgres
from schemas.enums import Reason
from schemas.envelope import Message, encode
from services.evidence.log import Incoming
from services.evidence.postgres_log import PostgresLog
from services.evidence.view_check import Projection, check_projection
from services.evidence.views import PostgresViews
from services.runtime.process import spare_the_collector
from tests.fixtures.facts import EPOCH
from tests.pure.floor import Floor

EVENTS = 1_000_000
MARKS = (10_000, 100_000, 1_000_000)
"""Sizes of the log at which appending is timed: the 10,000 events before each."""
TIMED = 10_000
BATCH = 500
"""As the recorder appends."""
GOAL = "goal-%08d"
"""Of fixed length, so that one goal's messages serve for all: only names and ids differ."""
BUDGET = {"candidates": 96, "wall": 1000, "stagnation": 100}
ASKED = 15
"""Times each view is asked. Chosen: the median of them is the figure."""


def run(size: float, say: Say) -> Result:
    """A log of a million facts of whole goals, grown batch by batch; then its views are made, and asked."""
    spare_the_collector()  # as every service does
    return asyncio.run(_run(max(TIMED, round(EVENTS * size)), say))


async def _run(events: int, say: Say) -> Result:
    async with database() as dsn:
        log, views = PostgresLog(dsn), PostgresViews(dsn)
        try:
            say(f"appending {events} events")
            costs = await _grow(log, events, say)
            say("making the views")
            began, spent = time.perf_counter(), time.process_time()
            await views.rebuild(log)
            rebuild_s, rebuild_cpu_s = time.perf_counter() - began, time.process_time() - spent
            say("asking them")
            asked_ms = {name: await _median_ms(ask) for name, ask in (await _questions(views)).items()}
            await _require_true(log, views)
        finally:
            await views.close()
            await log.close()
    return _result(events, costs, rebuild_s, rebuild_cpu_s, asked_ms)


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    """A durable Postgres of this benchmark's own, with the log's schema; the recorder's DSN."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="bench-") as folder:
        server = EmbeddedPostgres(Path(folder, "postgres"))
        server.start()
        try:
            await bootstrap_postgres(server.dsn())
            yield server.dsn(RECORDER_ROLE, DATABASE)
        finally:
            server.stop()


async def _grow(log: PostgresLog, events: int, say: Say) -> dict[int, float]:
    """The log has `events` rows. Seconds that the last TIMED before each mark took."""
    facts, done, costs = _facts(), 0, dict[int, float]()
    while done < events:
        batch = [next(facts) for _ in range(min(BATCH, events - done))]
        began = time.perf_counter()
        await log.append(batch)
        took = time.perf_counter() - began
        done += len(batch)
        for mark in MARKS:
            if mark - TIMED < done <= mark:
                costs[mark] = costs.get(mark, 0.0) + took
        if done % 50_000 == 0:
            say(f"  {done}")
    return {mark: seconds for mark, seconds in costs.items() if mark <= events}


def _facts() -> Iterator[Incoming]:
    """Whole goals without end, in stream order: searched, raced and crowned by the real curator."""
    floor = Floor(fate=lambda number: Reason.OUT_OF_BOUND if number % 4 == 3 else 1.0 + number / 1000)
    floor.with_route().accept(GOAL % 0, budget=BUDGET, search={"generation_size": 32}).play()
    whole = [encode(recorded.envelope) for recorded in floor.log[1:]]
    sequence = count(1)
    for number in count(1):
        for message in whole:
            yield Incoming(_renamed(message, number), EPOCH, next(sequence))


def _renamed(message: Message, number: int) -> Message:
    """The same message of another goal: every id has the goal's number in front."""
    name, ids = GOAL % number, f"{number:08x}"
    headers = {key: _UUID.sub(lambda found: ids + found[1], value) for key, value in message.headers.items()}
    body = _UUID.sub(lambda found: ids + found[1], message.body.decode()).replace(GOAL % 0, name)
    return Message(message.subject.replace(GOAL % 0, name), headers, body.encode())


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


Ask = Callable[[], Awaitable[Any]]


async def _questions(views: PostgresViews) -> dict[str, Ask]:
    """What people ask: the command line's own calls."""
    return {
        "goal list": lambda: views.goals(limit=50),
        "goal show": lambda: views.goals(GOAL % 7),
        "candidate list": lambda: views.candidates(GOAL % 7, limit=50),
        "leaderboard": lambda: views.leaderboard(limit=50),
        "leaderboard of one goal": lambda: views.leaderboard(GOAL % 7),
    }


async def _median_ms(ask: Ask) -> float:
    took = []
    for _ in range(ASKED):
        began = time.perf_counter()
        await ask()
        took.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(took), 2)


async def _require_true(log: PostgresLog, views: PostgresViews) -> None:
    """What was measured is what the log says."""
    found = await check_projection(log, views, Projection.GOALS, lambda _done, _of: None)
    if found.differences or not found.rows:
        raise AssertionError(f"the views that were measured differ from their log: {found.differences[:1]}")


def _result(
    events: int, costs: dict[int, float], rebuild_s: float, rebuild_cpu_s: float, asked_ms: dict[str, float]
) -> Result:
    curve = {mark: round(1e6 * seconds / TIMED, 1) for mark, seconds in costs.items()}
    flat = round(max(curve.values()) / min(curve.values()), 2)
    figures = (
        Figure("events in a second, all views rebuilt", round(events / rebuild_s), "1/s", at_least(30_000)),
        Figure("processor time an event, rebuilding", round(1e6 * rebuild_cpu_s / events, 1), "µs"),
        *(Figure(f"{name} at {events:,} events", ms, "ms", at_most(50)) for name, ms in asked_ms.items()),
        *(Figure(f"an appended event at {mark:,}", us, "µs") for mark, us in curve.items()),
        Figure("the dearest over the cheapest", flat, "×", at_most(1.3), "flat: at most 1.3 (chosen)"),
    )
    raw = {"events": events, "append_us": curve, "rebuild_s": rebuild_s, "asked_ms": asked_ms}
    return Result(figures, raw)


BENCHMARK = Benchmark("views", "Rebuild, answers and appending on a log of a million events", 5, run, is_long=True)
