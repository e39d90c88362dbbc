"""A librarian's office over any bus and log, for tests."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from kernel_lab.workloads import WORKLOADS
from schemas.envelope import Message, Recorded
from schemas.events import Fact, GoalCompleted
from schemas.goal import Search
from services.evidence.leadership import Alone
from services.evidence.log import Log
from services.evidence.views import NoViews, Views
from services.librarian.goal_checks import Catalogue
from services.librarian.term import Office, Term
from services.runtime.bus import GOALS_BUCKET, PRESENCE_BUCKET, Bus
from services.runtime.goal_view import GoalView
from services.runtime.metrics import Metrics
from services.runtime.stating import Stamp

GOAL: dict[str, Any] = {
    "workload": "rms_norm",
    "target": "null",
    "shapes": [{"T": 4, "H": 64}],
    "budget": {"candidates": 16, "wall": 600, "stagnation": 10},
    "search": {"generation_size": 8},
    "finals": {"finalists": 2, "hold_out_gap": 0, "wall": 600},
}


async def office_of(bus: Bus, log: Log, views: Views | None = None) -> Office:
    return Office(
        bus=bus,
        log=log,
        leadership=Alone(),
        views=views or NoViews(),
        goals=GoalView(await bus.bucket(GOALS_BUCKET)),
        presence=await bus.bucket(PRESENCE_BUCKET),
        stamp=Stamp("assay/librarian/test", lambda: datetime.now(UTC), secrets.token_hex),
        metrics=Metrics("librarian"),
        catalogue=Catalogue(WORKLOADS, frozenset(Search().strategies), {}),
        now=lambda: datetime.now(UTC),
        ack_wait_s=5.0,
        fetch_timeout_s=0.1,
        presence_ttl_s=30.0,
    )


@asynccontextmanager
async def running(office: Office) -> AsyncIterator[Term]:
    """A term that serves until the end of the block. A fault of the term fails the test."""
    term = await Term.begin(office)
    serving = asyncio.create_task(term.serve())
    try:
        yield term
        if serving.done():
            await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def submit(bus: Bus, goal_id: str, body: dict[str, Any] | bytes = GOAL) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    await bus.publish(Message(f"assay.intake.goal.submitted.{goal_id}", {}, raw), uuid4())


async def submit_kernel(bus: Bus, goal_id: str, source: str, **said: str) -> None:
    body = json.dumps({"source": source} | said).encode()
    await bus.publish(Message(f"assay.intake.candidate.submitted.{goal_id}", {}, body), uuid4())


async def steer(bus: Bus, goal_id: str, action: str, **detail: Any) -> None:
    body = json.dumps({"action": action, "reason": "a test"} | detail).encode()
    await bus.publish(Message(f"assay.intake.goal.steered.{goal_id}", {}, body), uuid4())


async def facts_of(log: Log, goal_id: str | None = None, *types: type[Fact]) -> list[Recorded[Any]]:
    return [recorded async for recorded in log.read(0, None, goal_id, types)]


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = 120.0) -> None:
    """Returns once `await condition()` is true; fails the test when it never is."""
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110 — the condition is in a database
            await asyncio.sleep(0.02)


async def until_completed(log: Log, *goal_ids: str) -> None:
    async def ended() -> bool:
        return {r.fact.goal_id for r in await facts_of(log, None, GoalCompleted)} >= set(goal_ids)

    await until(ended)
