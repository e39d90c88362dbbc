"""Who serves a route now: keys `<route>.<host>.<copy>` in a bucket that forgets what is not refreshed."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import structlog

from schemas.faults import Transient
from schemas.ids import Route
from services.runtime.bus import Bucket

log = structlog.get_logger()


@dataclass(frozen=True)
class Presence:
    """One copy's keys."""

    bucket: Bucket
    routes: tuple[Route, ...]
    host: str
    copy: str
    refresh_s: float

    async def keep(self) -> None:
        """Refreshes for ever. The bucket's own TTL forgets us (a per-key TTL is lost on update, nats-server #6959)."""
        while True:
            try:
                await self.refresh()
            except Transient as fault:
                log.warning("presence not refreshed", reason=str(fault))
            await asyncio.sleep(self.refresh_s)

    async def refresh(self) -> None:
        for route in self.routes:
            await self.bucket.put(f"{route}.{self.host}.{self.copy}", b"{}")

    async def withdraw(self) -> None:
        """The keys are gone at once: this copy has left in good order."""
        with suppress(Transient):  # the bus may be away: then the TTL does it
            for route in self.routes:
                await self.bucket.delete(f"{route}.{self.host}.{self.copy}")


async def present_routes(bucket: Bucket) -> frozenset[Route]:
    """The routes that some copy serves now."""
    return frozenset(key.split(".", 1)[0] for key in await bucket.keys())
