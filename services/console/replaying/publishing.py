"""History re-emitted for whoever listens: under `assay.replay.<name>.>`, which no stream takes and no service hears."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas.envelope import Message
from schemas.faults import Misconfigured
from schemas.framing import unframe
from schemas.ids import GoalId, is_token
from services.evidence.log import Log, Row
from services.evidence.past import Progress
from services.runtime.bus import REPLAY_PREFIX, Bus

LIVE_PREFIX = "assay."
POSITION = "assay-replay-position"
RECORDED_AT = "assay-replay-recorded-at"

Sleep = Callable[[float], Awaitable[Any]]


def replay_subject(name: str) -> str:
    """What a listener subscribes to. Raises Misconfigured when `name` is no subject token."""
    if not is_token(name):
        raise Misconfigured(f"--name {name!r}: use 1 to 64 letters, digits, _ or -")
    return f"{REPLAY_PREFIX}.{name}"


@dataclass(frozen=True)
class History:
    """The part of a log that is sent: up to a position, of one goal or of all."""

    log: Log
    upto: int
    goal_id: GoalId | None = None


async def publish_history(
    history: History, bus: Bus, under: str, speed: float, progress: Progress, sleep: Sleep = asyncio.sleep
) -> int:
    """The facts of `history` were sent under `under`, as far apart as they were recorded, divided by `speed`.

    Speed 0 waits for nothing. Returns how many were sent. Body and meaning headers are those of the record; two headers
    say its position and when it was recorded.
    """
    sent, last = 0, None
    async for row in history.log.rows(0, history.upto):
        if row.event_id is None or history.goal_id not in (None, row.goal_id):
            continue
        await _keep_pace(last, row.recorded_at, speed, sleep)
        await bus.emit(_message(row, under))
        sent, last = sent + 1, row.recorded_at
        progress(row.position, history.upto)
    return sent


async def _keep_pace(last: datetime | None, now: datetime, speed: float, sleep: Sleep) -> None:
    gap_s = (now - last).total_seconds() if last else 0.0
    if speed > 0 and gap_s > 0:
        await sleep(gap_s / speed)


def _message(row: Row, under: str) -> Message:
    told = unframe(row.raw)
    own = {POSITION: str(row.position), RECORDED_AT: row.recorded_at.isoformat()}
    return Message(f"{under}.{told.subject.removeprefix(LIVE_PREFIX)}", {**told.headers, **own}, told.body)
