"""The one host of every worker service: takes work from its queues and lets the core answer it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, NoReturn
from uuid import UUID, uuid4

import structlog

from schemas.envelope import Draft
from schemas.faults import Transient
from schemas.ids import Route
from services.runtime.bus import FACTS_STREAM, GOALS_BUCKET, PRESENCE_BUCKET, Bus, Delivery, Queue, queue_name
from services.runtime.effects import EffectLost, EffectProcess
from services.runtime.goal_view import GoalView
from services.runtime.handling import Backoff, Handler, Patience, patiently
from services.runtime.language import require_same_language
from services.runtime.presence import Presence
from services.runtime.process import Hosted, drained, hosted, run_process, unless_stopped
from services.runtime.quiet import Device
from services.runtime.routes import OUTPUTS
from services.runtime.service import Quiet, Service
from services.runtime.settings import Settings, host_id
from services.runtime.stating import publish

LINGER_S = 0.05
"""With several queues each is waited on in turn, so the others wait at most this long (chosen)."""
BINDING_PERIOD_S = 0.5
"""How often a queue that does not exist yet is looked for (chosen: a newcomer should not wait for it)."""
ANNOUNCE_ATTEMPTS = 3

log = structlog.get_logger()


class Fetching:
    """Takes one message at a time from several queues, none before the others when all have work.

    A queue is bound once the librarian has made it: a route that is not available yet keeps no other waiting.
    """

    def __init__(self, bus: Bus, names: Sequence[str], timeout_s: float, clock: Callable[[], float]) -> None:
        self.queues: list[Queue] = []
        self._bus = bus
        self._unbound = list(names)
        self._timeout_s = timeout_s
        self._clock = clock
        self._look_again_at = 0.0

    async def next(self, first: int) -> tuple[Delivery, int] | None:
        """A delivery and the index of its queue, `first` asked first; None when there was none in time."""
        await self.bind()
        if not self.queues:
            await asyncio.sleep(min(BINDING_PERIOD_S, self._timeout_s))
            return None
        order = [(first + offset) % len(self.queues) for offset in range(len(self.queues))]
        if len(order) > 1:
            found = await self._sweep(order, 0.0)
            if found is not None:
                return found
        return await self._sweep(order, self._timeout_s if len(order) == 1 else LINGER_S)

    async def bind(self) -> None:
        """Queues that exist by now are bound; looked for once a period."""
        if not self._unbound or self._clock() < self._look_again_at:
            return
        self._look_again_at = self._clock() + BINDING_PERIOD_S
        for name in tuple(self._unbound):
            try:
                self.queues.append(await self._bus.queue(FACTS_STREAM, name))
            except Transient as fault:
                log.debug("no such queue yet", queue=name, reason=str(fault))
                continue
            self._unbound.remove(name)
            log.info("serving", queue=name)

    async def _sweep(self, order: Sequence[int], timeout_s: float) -> tuple[Delivery, int] | None:
        for index in order:
            delivery = await self.queues[index].fetch(timeout_s)
            if delivery is not None:
                return delivery, index
        return None


async def serve(fetching: Fetching, handle: Callable[[Delivery], Awaitable[None]], stop: asyncio.Event) -> None:
    """Deliveries are handled one by one until `stop`. While the bus is away nothing is fetched."""
    first, waits = 0, Backoff()
    while not stop.is_set():
        try:
            found = await fetching.next(first)
        except Transient as fault:
            log.warning("fetching waits", reason=str(fault))
            await waits.sleep(until=stop)
            continue
        waits = Backoff()
        if found is not None:
            delivery, index = found
            await handle(delivery)
            first = index + 1


async def announce(handler: Handler, fresh_id: Callable[[], UUID]) -> None:
    """What the core says at start is stated. A lost effect is tried again; each fact has one id for all attempts."""
    core: Any = handler.core
    if not hasattr(core, "announce"):
        return
    for work in core.announce():
        outcome = await _announced(handler, work)
        for draft in [Draft(fresh_id(), fact, None) for fact in core.announced(work, outcome)]:
            await publish(handler.bus, handler.stamp, handler.stamp.stating(draft), handler.metrics)


async def _announced(handler: Handler, work: Any) -> Any:
    for _ in range(ANNOUNCE_ATTEMPTS - 1):
        try:
            return await handler.perform(work)
        except EffectLost as lost:
            log.warning("announcing again", reason=str(lost))
    return await handler.perform(work)


def run_service(
    core: Service[Any, Any],
    effect: str,
    routes: tuple[Route, ...] | Callable[[Settings], tuple[Route, ...]] | None = None,
    settings: Settings | None = None,
    presence: bool = False,
) -> NoReturn:
    """Serves `core` until SIGTERM, then exits. `effect` is `module:open_effect`; no `routes` means the common queue.

    `routes` may be found out from the settings: then what is wrong with this machine ends the process as a fault does.
    """

    async def main(known: Settings) -> None:
        async with hosted(core.name, known) as process:
            served = routes if routes is None or isinstance(routes, tuple) else routes(known)
            await _serve_core(core, effect, served, presence, process)

    run_process(core.name, main, settings)


async def _serve_core(
    core: Service[Any, Any], effect: str, routes: tuple[Route, ...] | None, presence: bool, process: Hosted
) -> None:
    settings = process.settings
    spoken = (*core.inputs, *OUTPUTS[core.name])
    speaking = patiently("the facts stream", lambda: require_same_language(process.bus, spoken))
    await unless_stopped(speaking, process.stop)
    async with AsyncExitStack() as stack:
        device = Device(settings.quiet)
        stack.callback(device.close)
        child = EffectProcess(effect, settings, inherited=(device.descriptor,))
        stack.push_async_callback(child.close)
        handler = await unless_stopped(_prepared(core, child, device, process), process.stop)
        if presence and routes:
            await _keep_presence(stack, routes, process)
        names = [queue_name(core.name, route) for route in routes or (None,)]
        fetching = Fetching(process.bus, names, settings.fetch_timeout_s, time.monotonic)
        process.health.ready = True
        log.info("ready", routes=routes)
        await drained(serve(fetching, handler.handle, process.stop), process)
        log.info("stopped")


async def _prepared(core: Service[Any, Any], child: EffectProcess, device: Device, process: Hosted) -> Handler:
    async with device.held(Quiet.SHARED):  # imports and compilers at start would spoil a measurement beside them
        await child.start()
    handler = await _handler(core, child, device, process)
    await announce(handler, uuid4)
    return handler


async def _handler(core: Service[Any, Any], child: EffectProcess, device: Device, process: Hosted) -> Handler:
    settings = process.settings
    bucket = await patiently("the goals bucket", lambda: process.bus.bucket(GOALS_BUCKET))
    patience = Patience(settings.ack_wait_s, settings.patience_s)
    return Handler(core, process.bus, child, device, GoalView(bucket), process.stamp, process.metrics, patience)


async def _keep_presence(stack: AsyncExitStack, routes: tuple[Route, ...], process: Hosted) -> None:
    settings = process.settings
    bucket = await patiently("the presence bucket", lambda: process.bus.bucket(PRESENCE_BUCKET))
    host = host_id(settings.data_dir)
    present = Presence(bucket, routes, host, settings.copy_id, settings.presence_refresh_s)
    keeping = asyncio.create_task(present.keep())
    stack.push_async_callback(present.withdraw)
    stack.callback(keeping.cancel)
