"""The exactly-once recipe, with an in-memory bus and an effect that does as told."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from schemas.enums import AbandonReason
from schemas.envelope import Envelope, Message, decode
from schemas.events import CandidateAbandoned, CandidateProposed, CandidateRejected
from schemas.faults import Bug, Misconfigured, Poison, Transient
from services.runtime.bus import FACTS_STREAM, GOALS_BUCKET, Delivery, PubAck, queue_name
from services.runtime.effects import EffectLost
from services.runtime.goal_view import GoalStanding, GoalView
from services.runtime.handling import MAX_DELIVERIES, Handler, Patience
from services.runtime.host import Fetching, announce, serve
from services.runtime.memory_bus import MemoryBus
from services.runtime.metrics import Metrics
from services.runtime.parked import parked
from services.runtime.quiet import Device
from services.runtime.routes import create_route_queues
from services.runtime.service import Quiet
from services.runtime.stating import Stamp
from tests.fixtures.toy_service import ROUTE, Compile, Toy, propose
from tests.fixtures.waiting import until

ACK_WAIT_S = 0.15
NOW = datetime(2026, 11, 30, tzinfo=UTC)
Behaviour = Callable[[Compile], Coroutine[Any, Any, str]]


@dataclass
class ToldEffect:
    """Performs by calling `behave`; remembers what it was asked and what was cancelled."""

    behave: Behaviour
    asked: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def start(self) -> None: ...
    async def close(self) -> None: ...

    async def perform(self, work: Any) -> Any:
        self.asked.append(work.source)
        try:
            return await self.behave(work)
        except asyncio.CancelledError:
            self.cancelled.append(work.source)
            raise


def fetching(bus: MemoryBus, *routes: str) -> Fetching:
    return Fetching(bus, [queue_name("compiler", route) for route in routes], 0.02, time.monotonic)


class Room:
    """A bus, a queue, and one host copy on it."""

    def __init__(self, folder: Path, bus: MemoryBus, goals: GoalView) -> None:
        self.bus = bus
        self.goals = goals
        self.metrics = Metrics("compiler")
        self.device = Device(folder)
        self.core = Toy()

    async def serve(self, behave: Behaviour, done: Callable[[], bool] | None = None) -> ToldEffect:
        """Serves until `done`, which is by default that an answer is stated, and all work in hand is settled."""
        effect = ToldEffect(behave)
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(fetching(self.bus, ROUTE), self.handler(effect).handle, stop))
        watching = asyncio.create_task(self._watch(done or (lambda: bool(self.answers()))))
        try:
            await asyncio.wait([serving, watching], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            async with asyncio.timeout(60.0):
                await serving
        finally:
            watching.cancel()
        return effect

    def handler(self, effect: ToldEffect) -> Handler:
        stamp = Stamp("assay/compiler/test", lambda: NOW, lambda n: "c" * 2 * n)
        patience = Patience(ACK_WAIT_S, patience_s=0.6)
        return Handler(self.core, self.bus, effect, self.device, self.goals, stamp, self.metrics, patience)

    def answers(self) -> list[Envelope[Any]]:
        envelopes = [decode(message) for message in self.bus.messages(FACTS_STREAM) if b"{" in message.body]
        return [one for one in envelopes if not isinstance(one.fact, CandidateProposed)]

    async def handed_out_again(self) -> Delivery | None:
        """What was not settled: the next delivery within two ack_waits."""
        queue = await self.bus.queue(FACTS_STREAM, queue_name("compiler", ROUTE))
        return await queue.fetch(2 * ACK_WAIT_S)

    async def _watch(self, done: Callable[[], bool]) -> None:
        async def is_done() -> bool:
            return done()

        await until(is_done, timeout_s=60.0, poll_s=0.005)


@pytest.fixture
async def room(tmp_path: Path) -> Room:
    bus = MemoryBus()
    await create_route_queues(bus, ROUTE, ACK_WAIT_S)
    return Room(tmp_path, bus, GoalView(await bus.bucket(GOALS_BUCKET)))


async def succeed(work: Compile) -> str:
    return "done"


async def test_a_fact_is_answered_with_the_cores_conclusion(room: Room) -> None:
    cause = await propose(room.bus, "one")
    await room.serve(succeed)
    (answered,) = room.answers()
    assert isinstance(answered.fact, CandidateRejected)
    assert answered.fact.message == "one: done"
    assert answered.causation_id == cause.id
    assert answered.correlation_id == cause.correlation_id
    assert answered.source == "assay/compiler/test"


async def test_an_answer_stays_in_its_causes_trace_under_a_new_span(room: Room) -> None:
    cause = await propose(room.bus, "one")
    await room.serve(succeed)
    (answered,) = room.answers()
    assert cause.traceparent
    assert answered.traceparent
    assert answered.traceparent.split("-")[1] == cause.traceparent.split("-")[1]
    assert answered.traceparent.split("-")[2] != cause.traceparent.split("-")[2]


async def test_a_redelivered_message_states_its_result_once(room: Room) -> None:
    await propose(room.bus, "one")
    lost_acks = 4
    effect = ToldEffect(succeed)
    handler = room.handler(effect)
    queue = await room.bus.queue(FACTS_STREAM, queue_name("compiler", ROUTE))
    for attempt in range(1, lost_acks + 1):
        delivery = await queue.fetch(2.0)
        assert delivery is not None
        assert delivery.num_delivered == attempt
        await handler.handle(ForgottenAck(delivery))
    assert effect.asked == ["one"] * lost_acks
    assert len(room.answers()) == 1
    assert room.metrics.value("assay_redeliveries_total") == lost_acks - 1
    assert room.metrics.value("assay_events_published_total", type="candidate.rejected.v1", duplicate="true") == 3


@dataclass(frozen=True)
class ForgottenAck:
    """A delivery whose acknowledgement never reaches the server."""

    inner: Any

    @property
    def message(self) -> Message:
        found: Message = self.inner.message
        return found

    @property
    def seq(self) -> int:
        return int(self.inner.seq)

    @property
    def num_delivered(self) -> int:
        return int(self.inner.num_delivered)

    async def in_progress(self) -> None:
        await self.inner.in_progress()

    async def ack(self) -> None: ...
    async def term(self) -> None: ...


async def test_work_handed_out_more_than_five_times_is_abandoned_without_being_done(room: Room) -> None:
    cause = await propose(room.bus, "killer")

    async def die(work: Compile) -> str:
        raise EffectLost("killed")

    effect = await room.serve(die)
    (answered,) = room.answers()
    assert isinstance(answered.fact, CandidateAbandoned)
    assert answered.fact.reason is AbandonReason.WORKER_LOST
    assert answered.causation_id == cause.id
    assert effect.asked == ["killer"] * MAX_DELIVERIES
    assert room.metrics.value("assay_effect_losses_total") == MAX_DELIVERIES
    assert await room.handed_out_again() is None


async def test_a_message_is_kept_while_its_work_outlasts_ack_wait(room: Room) -> None:
    await propose(room.bus, "long")

    async def be_long(work: Compile) -> str:
        await asyncio.sleep(4 * ACK_WAIT_S)
        return "done"

    effect = await room.serve(be_long)
    assert effect.asked == ["long"]
    assert room.metrics.value("assay_redeliveries_total") == 0


async def test_publishing_while_the_bus_is_away_waits_and_loses_nothing(room: Room) -> None:
    await propose(room.bus, "one")
    await propose(room.bus, "two")

    async def lose_the_bus(work: Compile) -> str:
        room.bus.go_away()
        asyncio.get_running_loop().call_later(2 * ACK_WAIT_S, room.bus.come_back)
        return "done"

    effect = await room.serve(lose_the_bus, done=lambda: len(room.answers()) == 2)
    assert effect.asked[0] == "one"
    assert {one.fact.message for one in room.answers()} == {"one: done", "two: done"}


class ForgetfulBus(MemoryBus):
    """Stores an answer, then says that it failed, twice: an exception does not mean unpublished."""

    failures = 2

    async def publish(self, message: Message, event_id: UUID) -> PubAck:
        ack = await super().publish(message, event_id)
        if ".rejected." in message.subject and self.failures:
            self.failures -= 1
            raise Transient("the PubAck was lost")
        return ack


async def test_a_publish_that_fails_and_then_succeeds_states_the_fact_once(tmp_path: Path) -> None:
    bus = ForgetfulBus()
    await create_route_queues(bus, ROUTE, ACK_WAIT_S)
    room = Room(tmp_path, bus, GoalView(await bus.bucket(GOALS_BUCKET)))
    await propose(bus, "one")
    published = {"type": "candidate.rejected.v1", "duplicate": "true"}
    effect = await room.serve(
        succeed, done=lambda: room.metrics.value("assay_events_published_total", **published) == 1
    )
    assert effect.asked == ["one"] * 3
    assert len(room.answers()) == 1
    assert await room.handed_out_again() is None


async def test_work_of_an_ended_goal_is_dropped_before_it_starts(room: Room) -> None:
    await room.goals.advance("g1", GoalStanding.ENDED, 40)
    await propose(room.bus, "unwanted")
    effect = await room.serve(succeed, done=lambda: room.metrics.value("assay_work_dropped_total") == 1)
    assert effect.asked == []
    assert room.answers() == []
    assert room.metrics.value("assay_work_dropped_total") == 1
    assert await room.handed_out_again() is None


async def test_search_work_is_dropped_in_finals_and_an_older_mark_changes_nothing(room: Room) -> None:
    await room.goals.advance("g1", GoalStanding.FINALS, 40)
    await room.goals.advance("g1", GoalStanding.SEARCHING, 39)
    await propose(room.bus, "late")
    await propose(room.bus, "other", goal_id="g2")
    effect = await room.serve(succeed)
    assert effect.asked == ["other"]


async def test_a_goal_that_ends_while_its_work_runs_cancels_the_effect_and_states_nothing(room: Room) -> None:
    await propose(room.bus, "endless")

    async def end_the_goal(work: Compile) -> str:
        await room.goals.advance("g1", GoalStanding.ENDED, 40)
        await asyncio.sleep(60)
        return "done"

    effect = await room.serve(end_the_goal, done=lambda: room.metrics.value("assay_work_dropped_total") == 1)
    assert effect.cancelled == ["endless"]
    assert room.answers() == []
    assert await room.handed_out_again() is None


async def test_a_message_that_does_not_parse_is_parked_with_its_reason_and_the_next_is_done(room: Room) -> None:
    broken = Message(f"assay.fact.candidate.proposed.{ROUTE}.g1", {"ce-type": "candidate.proposed.v1"}, b"[" * 20_000)
    await room.bus.publish(broken, uuid4())
    await propose(room.bus, "good")
    effect = await room.serve(succeed)
    assert effect.asked == ["good"]
    (found,) = [one async for one in parked(room.bus)]
    assert "ce-id" in found.reason
    assert found.message == broken
    assert (found.service, found.stream, found.stream_seq) == ("compiler", FACTS_STREAM, 1)


async def test_poison_from_the_effect_is_an_abandonment_and_parked(room: Room) -> None:
    await propose(room.bus, "bad")

    async def poison(work: Compile) -> str:
        raise Poison("the tool cannot read this")

    await room.serve(poison)
    (answered,) = room.answers()
    assert isinstance(answered.fact, CandidateAbandoned)
    assert answered.fact.reason is AbandonReason.TOOL_FAILURE
    assert [one.reason async for one in parked(room.bus)] == ["the tool cannot read this"]


async def test_a_transient_fault_of_the_effect_is_waited_out_while_the_message_is_held(room: Room) -> None:
    await propose(room.bus, "patient")
    attempts = []

    async def fail_twice(work: Compile) -> str:
        attempts.append(work)
        if len(attempts) < 2:
            raise Transient("Postgres is away")
        return "done"

    await room.serve(fail_twice)
    assert len(attempts) == 2
    assert room.metrics.value("assay_redeliveries_total") == 0
    assert len(room.answers()) == 1


@pytest.mark.parametrize("fault", [Misconfigured("no compiler"), Bug("impossible"), ValueError("unforeseen")])
async def test_a_fault_that_is_nobodys_result_ends_the_host_and_leaves_the_message(
    room: Room, fault: Exception
) -> None:
    await propose(room.bus, "one")

    async def fail(work: Compile) -> str:
        raise fault

    with pytest.raises(type(fault)):
        await room.serve(fail)
    queue = await room.bus.queue(FACTS_STREAM, queue_name("compiler", ROUTE))
    again = await queue.fetch(2.0)
    assert again is not None
    assert again.num_delivered == 2


async def test_work_takes_the_quiet_lock_its_core_asks_for(room: Room, tmp_path: Path) -> None:
    await propose(room.bus, "one")
    other = Device(tmp_path)
    seen = []

    async def try_alone(work: Compile) -> str:
        try:
            async with asyncio.timeout(0.05), other.held(Quiet.EXCLUSIVE):
                seen.append("alone")
        except TimeoutError:
            seen.append("not alone")
        return "done"

    await room.serve(try_alone)
    assert seen == ["not alone"]


async def test_two_queues_are_asked_in_turn(tmp_path: Path) -> None:
    bus = MemoryBus()
    for route in ("null", "cpu_1"):
        await create_route_queues(bus, route, ACK_WAIT_S)
        for n in range(3):
            await propose(bus, f"{route} {n}", route=route)
    room = Room(tmp_path, bus, GoalView(await bus.bucket(GOALS_BUCKET)))
    effect = ToldEffect(succeed)
    both, first = fetching(bus, "null", "cpu_1"), 0
    for _ in range(6):
        found = await both.next(first)
        assert found is not None
        await room.handler(effect).handle(found[0])
        first = found[1] + 1
    assert [source.split()[0] for source in effect.asked] == ["null", "cpu_1"] * 3


async def test_a_route_that_is_not_available_yet_keeps_no_other_waiting(tmp_path: Path) -> None:
    bus, now = MemoryBus(), [0.0]
    ack_wait_s = 60.0  # nothing is acknowledged here, and nothing shall be handed out again
    await create_route_queues(bus, "null", ack_wait_s)
    await propose(bus, "early", route="null")
    both = Fetching(bus, [queue_name("compiler", route) for route in ("cpu_1", "null")], 0.02, lambda: now[0])
    assert await both.next(0) is not None
    await create_route_queues(bus, "cpu_1", ack_wait_s)
    await propose(bus, "later", route="cpu_1")
    assert await both.next(0) is None
    now[0] += 1.0
    assert await both.next(0) is not None


async def test_an_announcing_core_states_what_it_is_with_one_fresh_id_for_all_attempts(room: Room) -> None:
    class Announcing(Toy):
        def announce(self) -> tuple[Compile, ...]:
            return (Compile("who am I"),)

        def announced(self, work: Compile, outcome: str) -> tuple[Any, ...]:
            facts = self.abandon(told, AbandonReason.TOOL_FAILURE, outcome)
            return tuple(draft.fact for draft in facts)

    told = await propose(room.bus)
    room.core = Announcing()
    attempts = []

    async def lose_once(work: Compile) -> str:
        attempts.append(work)
        if len(attempts) == 1:
            raise EffectLost("killed")
        return "I am"

    fresh = uuid4()
    await announce(room.handler(ToldEffect(lose_once)), lambda: fresh)
    (stated,) = room.answers()
    assert (stated.id, stated.causation_id, stated.fact.message) == (fresh, None, "I am")
