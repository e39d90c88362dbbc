"""One work message, from delivery to acknowledgement: the exactly-once recipe of architecture.md.

Every fact has an id derived from the decision, so doing the work twice states it once. Hence the order here: facts
first, acknowledgement last, and whatever goes wrong between them ends in the message being handed out again. Nothing is
ever nak'd: a nak burns a delivery and ignores BackOff.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from structlog.contextvars import bound_contextvars

from schemas.enums import AbandonReason
from schemas.envelope import Envelope, decode
from schemas.events import Fact
from schemas.faults import Poison, Transient
from services.runtime.bus import FACTS_STREAM, Bus, Delivery
from services.runtime.effects import Effect, EffectLost
from services.runtime.goal_view import GoalView
from services.runtime.metrics import Metrics
from services.runtime.parked import park
from services.runtime.quiet import Device
from services.runtime.service import Do, Facts, Service
from services.runtime.stating import Stamp, publish
from services.runtime.telemetry import about

MAX_DELIVERIES = 5
HEARTBEATS_PER_ACK_WAIT = 3
RETRY_FIRST_S = 0.25
RETRY_LIMIT_S = 8.0

log = structlog.get_logger()
T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How long things may take."""

    ack_wait_s: float
    patience_s: float
    """For a dependency of the effect, while the message is held."""

    @property
    def heartbeat_s(self) -> float:
        return self.ack_wait_s / HEARTBEATS_PER_ACK_WAIT


class GoalEnded(Exception):
    """The goal ended, or left the phase this work belongs to. Never leaves this module."""


@dataclass(frozen=True)
class Handler:
    """Handles deliveries for one core, one at a time."""

    core: Service[Any, Any]
    bus: Bus
    effect: Effect
    device: Device
    goals: GoalView
    stamp: Stamp
    metrics: Metrics
    patience: Patience

    async def handle(self, delivery: Delivery) -> None:
        """`delivery` is answered with facts, dropped, parked, or left to be handed out again after ack_wait."""
        began = time.monotonic()
        if delivery.num_delivered > 1:
            self.metrics.redeliveries.inc()
        try:
            cause = decode(delivery.message)
        except Poison as poison:
            await self._park(delivery, poison)
            await self._settled(delivery.term)
            return
        with bound_contextvars(**about(cause)):
            await self._handle(delivery, cause)
        self.metrics.handler_duration.labels(cause.fact.TYPE).observe(time.monotonic() - began)

    async def _handle(self, delivery: Delivery, cause: Envelope[Fact]) -> None:
        if delivery.num_delivered > MAX_DELIVERIES:
            reason = f"handed out {delivery.num_delivered - 1} times and never answered"
            await self._kept(delivery, self._abandon(cause, AbandonReason.WORKER_LOST, reason))
            await self._settled(delivery.term)
            return
        try:
            await self._refuse_unwanted(cause)
            await self._kept(delivery, self._answer(delivery, cause), cause)
        except GoalEnded:
            self.metrics.dropped.inc()
            log.info("work dropped: its goal has ended or moved on")
        except Transient as fault:
            self.metrics.transients.inc()
            log.warning("left to be handed out again", reason=str(fault), delivery=delivery.num_delivered)
            return
        await self._settled(delivery.ack)

    async def _answer(self, delivery: Delivery, cause: Envelope[Fact]) -> None:
        try:
            facts = await self._facts(cause)
        except Poison as poison:
            await self._abandon(cause, AbandonReason.TOOL_FAILURE, str(poison))
            await self._park(delivery, poison)
            return
        await self._publish(facts, cause)

    async def _facts(self, cause: Envelope[Fact]) -> Facts:
        decision = self.core.decide(cause)
        if not isinstance(decision, Do):
            return decision
        outcome = await self.perform(decision.work)
        return self.core.conclude(cause, decision.work, outcome)

    async def perform(self, work: Any) -> Any:
        """The outcome. Waits in place, holding the message, while a dependency of the effect is away."""
        waits = Backoff()
        while True:
            try:
                async with self.device.held(work.quiet):
                    return await self._performed(work)
            except EffectLost:
                self.metrics.effect_losses.inc()
                raise
            except Transient as fault:
                self.metrics.transients.inc()
                if waits.total_s >= self.patience.patience_s:
                    raise
                log.warning("effect waits for a dependency", reason=str(fault))
            await waits.sleep()

    async def _performed(self, work: Any) -> Any:
        """The outcome, and in the log how long the effect alone took."""
        began = time.monotonic()
        outcome = await self.effect.perform(work)
        log.debug("performed", work=type(work).__name__, seconds=round(time.monotonic() - began, 6))
        return outcome

    async def _publish(self, facts: Facts, cause: Envelope[Fact]) -> None:
        for draft in facts:
            await publish(self.bus, self.stamp, self.stamp.answering(draft, cause), self.metrics)

    async def _abandon(self, cause: Envelope[Fact], reason: AbandonReason, message: str) -> None:
        self.metrics.abandoned.inc()
        log.error("work abandoned", abandon_reason=reason, reason=message)
        await self._publish(self.core.abandon(cause, reason, message), cause)

    async def _park(self, delivery: Delivery, poison: Poison) -> None:
        self.metrics.parked.inc()
        log.error("message parked", reason=str(poison), subject=delivery.message.subject, seq=delivery.seq)
        await park(self.bus, self.core.name, delivery.message, FACTS_STREAM, delivery.seq, str(poison))

    async def _refuse_unwanted(self, cause: Envelope[Fact]) -> None:
        if await self.goals.drops(cause):
            raise GoalEnded

    async def _kept(
        self, delivery: Delivery, work: Coroutine[Any, Any, None], cause: Envelope[Fact] | None = None
    ) -> None:
        """`work` is done while the message is kept ours. Given a `cause`, its goal's end cancels the work."""
        working = asyncio.create_task(work)
        keeping = asyncio.create_task(self._keep(delivery, cause))
        both: set[asyncio.Task[None]] = {working, keeping}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await (working if working in done else keeping)
        finally:
            await _cancelled(keeping)
            await _cancelled(working)

    async def _keep(self, delivery: Delivery, cause: Envelope[Fact] | None) -> None:
        """Heartbeats for ever; ends only by GoalEnded. A bus that is away is no reason to stop working."""
        while True:
            await asyncio.sleep(self.patience.heartbeat_s)
            with suppress(Transient):
                await delivery.in_progress()
                if cause is not None:
                    await self._refuse_unwanted(cause)

    async def _settled(self, settle: Callable[[], Awaitable[None]]) -> None:
        """The queue knows. Given up after ack_wait: the message was handed out again by then, which harms nothing."""
        waits = Backoff()
        while True:
            try:
                await settle()
            except Transient as fault:
                if waits.total_s >= self.patience.ack_wait_s:
                    log.warning("not acknowledged", reason=str(fault))
                    return
            else:
                return
            await waits.sleep()


@dataclass
class Backoff:
    """Exponential waits."""

    next_s: float = RETRY_FIRST_S
    total_s: float = 0.0

    async def sleep(self, until: asyncio.Event | None = None) -> None:
        """Waits a little longer than the last time, but not past `until`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.next_s):
                await (until or asyncio.Event()).wait()
        self.total_s += self.next_s
        self.next_s = min(2 * self.next_s, RETRY_LIMIT_S)


async def patiently(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """The result of `attempt()`, however long its dependency is away."""
    waits = Backoff()
    while True:
        try:
            return await attempt()
        except Transient as fault:
            log.warning(f"waiting for {what}", reason=str(fault))
        await waits.sleep()


async def _cancelled(task: asyncio.Task[None]) -> None:
    """`task` has ended; what it raised when cancelled is of no interest."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task})
