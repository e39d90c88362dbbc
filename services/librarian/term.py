"""One librarian's term: from taking the lead to losing it. What the pure parts decide is published here.

The recorder drives: each batch is folded, what is due is published, the workers' view of the goals is moved on, and the
people's views follow in a task of their own. Desk and timekeeper begin once everything is recorded that was in the
stream when the term began, so that no decision of the last librarian is taken twice.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog

from schemas.envelope import Draft
from schemas.events import ChampionCrowned, RouteAvailable
from schemas.faults import Transient
from schemas.ids import GoalId, due_id
from services.evidence.continuation import first_to_record, may_open, opening
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import GoalState
from services.evidence.leadership import Leadership
from services.evidence.log import Log
from services.evidence.views import Views
from services.librarian import curator, desk, timekeeper
from services.librarian.goal_checks import Catalogue
from services.librarian.notary import Notary
from services.librarian.recorder import Recording, record
from services.librarian.refold import refold
from services.runtime.bus import FACTS_STREAM, FULL, INTAKE_STREAM, Bucket, Bus, Delivery, PubAck
from services.runtime.goal_view import GoalStanding, GoalView
from services.runtime.handling import MAX_DELIVERIES, Backoff, patiently
from services.runtime.metrics import Metrics
from services.runtime.parked import park
from services.runtime.presence import present_routes
from services.runtime.routes import DESK_QUEUE, LIBRARIAN, create_common_queues, create_route_queues
from services.runtime.stating import Stamp, publish

TICK_S = 1.0
VIEWS_BEHIND = 16
"""Batches that the people's views may lag before recording waits for them. Chosen: at most 8,000 facts in memory."""
ENDED_REMARKED = 64
"""Goals that ended last and are marked again when a term begins. Chosen: more than one batch can end."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Office:
    """What a term works with."""

    bus: Bus
    log: Log
    leadership: Leadership
    views: Views
    goals: GoalView
    presence: Bucket
    stamp: Stamp
    metrics: Metrics
    catalogue: Catalogue
    now: Callable[[], datetime]
    ack_wait_s: float
    fetch_timeout_s: float
    presence_ttl_s: float
    notary: Notary | None = None
    """Nobody writes checkpoints where there is no signing key."""


class Term:
    """State of one term. Made by `begin`, lives while `serve` runs."""

    def __init__(self, office: Office, state: curator.CuratorState, recorded_seq: int, stream_end: int) -> None:
        self.state = state
        self._office = office
        self._recorded_seq = recorded_seq
        self._stream_end = stream_end
        self._news = asyncio.Condition()
        self._caught_up = asyncio.Event()
        self._has_room = True
        self._standings: dict[GoalId, GoalStanding] = {}
        self._unviewed: asyncio.Queue[Recording] = asyncio.Queue(VIEWS_BEHIND)
        if recorded_seq >= stream_end:
            self._caught_up.set()

    @classmethod
    async def begin(cls, office: Office) -> "Term":
        """The log is folded, the views follow it, and the queues that depend on no route are there."""
        await create_common_queues(office.bus, office.ack_wait_s)
        await _follow_new_epoch(office)
        refolded = await refold(office.log)
        head = await office.log.head()
        await office.views.start(office.log)
        stream = await office.bus.state(FACTS_STREAM)
        term = cls(office, refolded.state, head.stream_seq, stream.last_seq)
        await term._mark((*refolded.state.goals, *refolded.ended[-ENDED_REMARKED:]))
        for route, seen in refolded.state.routes.routes.items():
            if seen.available:  # the last librarian made its queues; an operator may have removed them since
                await create_route_queues(office.bus, route, office.ack_wait_s)
        log.info("leading", position=head.position, unfinished=len(refolded.state.goals))
        return term

    async def serve(self) -> None:
        """Records, decides, answers, keeps time and attests until one of them meets a fault, which is raised."""
        await first_fault(self._record(), self._view(), self._serve_desk(), self._keep_time(), self._attest())

    # ---- recorder and curator --------------------------------------------------------------------------------------

    async def _record(self) -> None:
        office = self._office
        recordings = record(office.bus, office.log, office.leadership, self._count)
        async with aclosing(recordings):
            async for recording in recordings:
                await self.absorb(recording)

    async def absorb(self, recording: Recording) -> None:
        """The batch is folded, marked and decided upon."""
        for recorded in recording.facts:
            self.state = curator.evolve(self.state, recorded)
        await self._advance(recording.appended.head.stream_seq)
        touched = dict.fromkeys(recorded.fact.about_goal for recorded in recording.facts)
        await self._mark([goal_id for goal_id in touched if goal_id is not None])
        await self.decide()
        if self._office.notary and any(isinstance(recorded.fact, ChampionCrowned) for recorded in recording.facts):
            self._office.notary.ask()
        await self._unviewed.put(recording)

    async def decide(self) -> None:
        """What is due now is published, and awaited by the fold. Nothing is decided from half a history."""
        if not self._caught_up.is_set():
            return
        drafts = curator.decide(self.state, self.state.position, self._has_room)
        await self._state_all(drafts)

    async def _advance(self, stream_seq: int) -> None:
        async with self._news:
            self._recorded_seq = stream_seq
            self._news.notify_all()
        if stream_seq >= self._stream_end:
            self._caught_up.set()

    async def _mark(self, goal_ids: Sequence[GoalId]) -> None:
        """Workers see where these goals stand."""
        for goal_id in goal_ids:
            goal = self.state.goals.get(goal_id)
            if goal is None and goal_id not in self.state.accepted:
                continue
            standing = standing_of(goal)
            if self._standings.get(goal_id) is not standing:
                await self._office.goals.advance(goal_id, standing, goal.position if goal else self.state.position)
                self._standings[goal_id] = standing

    def _count(self, recording: Recording) -> None:
        metrics = self._office.metrics
        metrics.recorder_lag.set(recording.lag)
        for type_, count in recording.unread.items():
            metrics.unread_facts.inc(count)
            log.warning("facts that this Assay cannot read", type=type_, count=count)
        divergent = sum(one.kind == "divergent" for one in recording.appended.duplicates)
        if divergent:
            metrics.divergent_duplicates.inc(divergent)
            log.warning("facts with a known id and another body", count=divergent)

    async def _view(self) -> None:
        while True:
            waiting = [await self._unviewed.get()]
            while not self._unviewed.empty():
                waiting.append(self._unviewed.get_nowait())
            facts = [recorded for recording in waiting for recorded in recording.facts]
            await self._office.views.apply(facts, waiting[-1].appended.head.position)

    async def _attest(self) -> None:
        notary = self._office.notary
        if notary is None:
            await asyncio.Event().wait()  # a task that ends would end the term
            return
        try:
            await notary.keep(self._office.log)
        finally:
            await notary.attest(self._office.log)  # the end of a term, too, is written down

    # ---- desk ------------------------------------------------------------------------------------------------------

    async def _serve_desk(self) -> None:
        office, waits = self._office, Backoff()
        await self._caught_up.wait()
        queue = await patiently("the desk's queue", lambda: office.bus.queue(INTAKE_STREAM, DESK_QUEUE))
        while True:
            try:
                delivery = await queue.fetch(office.fetch_timeout_s)
                if delivery is not None:
                    await self.reply(delivery)
            except Transient as fault:
                log.warning("the desk waits", reason=str(fault))
                await waits.sleep()
            else:
                waits = Backoff()

    async def reply(self, delivery: Delivery) -> None:
        """The request is answered, its answer is recorded and folded, and only then is it done."""
        message, bus = delivery.message, self._office.bus
        if delivery.num_delivered > MAX_DELIVERIES:
            reason = f"handed out {delivery.num_delivered - 1} times and never answered"
            await park(bus, LIBRARIAN, message, INTAKE_STREAM, delivery.seq, reason)
            await delivery.term()
            return
        request = desk.Request(message.subject, message.body, delivery.seq)
        draft = desk.answer(request, self.state, self._office.catalogue, self._has_room)
        if draft is not None:
            if draft.fact.about_goal in self.state.goals:  # which stands still until this is recorded
                self.state = curator.awaiting(self.state, (draft,))
            ack = await self._state(draft)
            await self._until_recorded(ack.seq)
            log.info("request answered", subject=message.subject, answer=draft.fact.TYPE)
        await delivery.ack()

    async def _until_recorded(self, stream_seq: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._recorded_seq >= stream_seq)

    # ---- timekeeper ------------------------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        await self._caught_up.wait()
        while True:
            try:
                await self.tick()
            except Transient as fault:
                log.warning("the timekeeper waits", reason=str(fault))
            await asyncio.sleep(TICK_S)

    async def tick(self) -> None:
        """What time and presence make true is stated, and what has room again is decided."""
        office = self._office
        stream = await office.bus.state(FACTS_STREAM)
        self._has_room = stream.bytes < FULL * stream.max_bytes
        present = await present_routes(office.presence)
        for draft in timekeeper.tick(self.state, office.now(), present, office.presence_ttl_s):
            if isinstance(draft.fact, RouteAvailable):
                await create_route_queues(office.bus, draft.fact.machine.route, office.ack_wait_s)
            await self._state_all((draft,))
        await self.decide()

    # ---- stating ---------------------------------------------------------------------------------------------------

    async def _state_all(self, drafts: Sequence[Draft[Any]]) -> None:
        self.state = curator.awaiting(self.state, drafts)
        for draft in drafts:
            await self._state(draft)

    async def _state(self, draft: Draft[Any]) -> PubAck:
        goal_id = draft.fact.about_goal
        root = due_id(goal_id, "accept") if goal_id else None
        envelope = self._office.stamp.stating(draft, root, trace_of(root) if root else None)
        return await publish(self._office.bus, self._office.stamp, envelope, self._office.metrics)


async def _follow_new_epoch(office: Office) -> None:
    """Where an operator let the log go on with another stream, the stream says so in a fact and the head follows it."""
    head, stream = await office.log.head(), await office.bus.state(FACTS_STREAM)
    if not may_open(head, stream):
        return
    envelope = office.stamp.stating(opening(head, stream))
    await publish(office.bus, office.stamp, envelope, office.metrics)
    await office.log.open_epoch(head, stream.epoch, first_to_record(stream) - 1)
    log.warning("a new epoch is open", epoch=stream.epoch, after=head.epoch, position=head.position)


def standing_of(goal: GoalState | None) -> GoalStanding:
    """What workers need to know of a goal; None stands for one that ended."""
    if goal is None or goal.phase is GoalPhase.COMPLETED:
        return GoalStanding.ENDED
    if goal.phase in (GoalPhase.FINALS, GoalPhase.RACING) or goal.settled_by_time:
        return GoalStanding.FINALS
    return GoalStanding.SEARCHING


def trace_of(root: UUID) -> str:
    """A goal is one trace, named by the id of its goal.accepted (W3C Trace Context, version 00)."""
    return f"00-{root.hex}-{root.hex[16:]}-01"


async def first_fault(*work: Coroutine[Any, Any, None]) -> None:
    """Runs all of `work` together; when one ends the others are cancelled, and what it raised is raised."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
