"""The janitor: trims the fact stream, with the bootstrap's account, by what `services/evidence/trim.py` allows."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from infra.bootstrap.nats import purge_up_to
from infra.bootstrap.nats_users import ADMIN
from schemas.faults import Fault
from services.evidence.log import Log
from services.evidence.trim import Trim, trimmable
from services.evidence.verify import Trust
from services.runtime.bus import FACTS_STREAM, Bus
from services.runtime.nats_bus import NatsBus
from services.runtime.settings import Settings

TRIM_FROM = 0.5
"""Fill from which a factory trims by itself. Chosen: until then whoever reads the stream finds all of it, and
goals that run meanwhile have room before 0.8."""
PERIOD_S = 60.0
"""Chosen: the stream of a busy factory grows by some 5 MB in that time."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Cleaned:
    """What was trimmed, or would be."""

    trim: Trim
    fill: float
    first_seq: int
    purged: int
    """0 in a dry run."""

    @property
    def messages(self) -> int:
        """How many messages that is."""
        return max(0, self.trim.upto_seq - self.first_seq + 1)


async def clean(memory: Log, bus: Bus, admin: Settings, trust: Trust, *, dry_run: bool = False) -> Cleaned:
    """The stream holds nothing any more that may go, judged by the checkpoints and keys of `trust`."""
    stream = await bus.state(FACTS_STREAM)
    trim = await trimmable(memory, stream, trust.checkpoints, trust.bootstrap_keys)
    found = Cleaned(trim, stream.fill, stream.first_seq, 0)
    if dry_run or not found.messages or not stream.messages:
        return found
    purged = await purge_up_to(admin, FACTS_STREAM, trim.upto_seq)
    log.info("trimmed", purged=purged, upto=trim.upto_seq, held_by=trim.held_by)
    return Cleaned(trim, stream.fill, stream.first_seq, purged)


async def keep_clean(memory: Log, admin: Settings, trust: Callable[[], Trust]) -> None:
    """The stream is looked after for ever. A fault is told and tried again: nothing depends on the janitor.

    `trust` reads anew what has been attested since.
    """
    while True:
        try:
            await _once(memory, admin, trust)
        except Fault as fault:
            log.warning("the janitor waits", reason=str(fault))
        await asyncio.sleep(PERIOD_S)


async def _once(memory: Log, admin: Settings, trust: Callable[[], Trust]) -> None:
    bus = await NatsBus.open(admin, admin.nats_user or ADMIN)  # a user's answers come to an inbox of its own
    try:
        if (await bus.state(FACTS_STREAM)).fill >= TRIM_FROM:
            await clean(memory, bus, admin, trust())
    finally:
        await bus.close()
