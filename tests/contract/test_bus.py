"""One suite for every bus: in memory and on a real nats-server."""

import asyncio
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from schemas.envelope import Message
from schemas.faults import Poison, Transient
from services.runtime.bus import FACTS_STREAM, GOALS_BUCKET, INTAKE_STREAM, Bus, Delivery, Queue, Sequenced
from services.runtime.memory_bus import MemoryBus
from tests.fixtures.nats import ConnectAs

SUBJECT = "assay.fact.candidate.proposed.null.g1"
FILTER = "assay.fact.candidate.proposed.null.*"
ACK_WAIT_S = 0.4


@pytest_asyncio.fixture
async def memory_bus() -> Bus:
    return MemoryBus()


@pytest_asyncio.fixture
async def nats_bus(connect_as: ConnectAs) -> Bus:
    return await connect_as("admin")


@pytest.fixture(params=["memory_bus", "nats_bus"])
def bus(request: pytest.FixtureRequest) -> Bus:
    found: Bus = request.getfixturevalue(request.param)
    return found


def note(text: str, subject: str = SUBJECT) -> Message:
    return Message(subject, {"ce-type": "candidate.proposed.v1"}, text.encode())


async def publish(bus: Bus, *texts: str) -> None:
    for text in texts:
        await bus.publish(note(text), uuid4())


async def work_queue(bus: Bus, name: str = "compiler-null", ack_wait_s: float = ACK_WAIT_S) -> Queue:
    await bus.create_queue(FACTS_STREAM, name, (FILTER,), ack_wait_s)
    return await bus.queue(FACTS_STREAM, name)


async def fetched(queue: Queue) -> Delivery:
    delivery = await queue.fetch(30.0)
    assert delivery is not None
    return delivery


async def read_until(bus: Bus, count: int, from_seq: int = 1) -> list[Sequenced]:
    found: list[Sequenced] = []
    async with asyncio.timeout(60):
        async for batch in bus.read(FACTS_STREAM, from_seq):
            found.extend(batch)
            if len(found) >= count:
                break
    return found


async def test_a_message_is_published_with_its_headers_and_read_back(bus: Bus) -> None:
    ack = await bus.publish(note("a"), uuid4())
    (found,) = await read_until(bus, 1)
    assert found.seq == ack.seq
    assert found.message == note("a")


async def test_publishing_leaves_the_callers_headers_alone(bus: Bus) -> None:
    message = note("a")
    await bus.publish(message, uuid4())
    assert message.headers == {"ce-type": "candidate.proposed.v1"}


async def test_the_same_id_is_stored_once_and_success_both_times(bus: Bus) -> None:
    event_id = uuid4()
    first = await bus.publish(note("a"), event_id)
    second = await bus.publish(note("a"), event_id)
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.seq == second.seq
    assert (await bus.state(FACTS_STREAM)).messages == 1


async def test_a_message_larger_than_the_bus_carries_is_poison(bus: Bus) -> None:
    with pytest.raises(Poison):
        await bus.publish(note("x" * (2 * 1024 * 1024)), uuid4())


async def test_requests_and_facts_are_two_streams(bus: Bus) -> None:
    shared_id = uuid4()
    await bus.publish(note("request", "assay.intake.goal.submitted.g1"), shared_id)
    fact = await bus.publish(note("fact"), shared_id)
    assert not fact.duplicate
    assert (await bus.state(INTAKE_STREAM)).messages == 1


async def test_a_queue_that_does_not_exist_yet_is_transient(bus: Bus) -> None:
    with pytest.raises(Transient):
        await bus.queue(FACTS_STREAM, "compiler-cpu_00000000")


async def test_a_queue_hands_out_only_what_its_filters_name(bus: Bus) -> None:
    queue = await work_queue(bus)
    await bus.publish(note("other", "assay.fact.candidate.compiled.null.g1"), uuid4())
    await bus.publish(note("elsewhere", "assay.fact.candidate.proposed.cpu_1.g1"), uuid4())
    await publish(bus, "mine")
    delivery = await fetched(queue)
    assert delivery.message.body == b"mine"
    assert delivery.seq == 3
    assert delivery.num_delivered == 1


async def test_an_empty_queue_gives_none_at_once_and_after_a_while(bus: Bus) -> None:
    queue = await work_queue(bus)
    assert await queue.fetch(0) is None
    assert await queue.fetch(0.05) is None


async def test_a_waiting_fetch_gets_what_is_published_meanwhile(bus: Bus) -> None:
    queue = await work_queue(bus)
    waiting = asyncio.create_task(queue.fetch(30.0))
    await asyncio.sleep(0.05)
    await publish(bus, "late")
    delivery = await waiting
    assert delivery is not None
    assert delivery.message.body == b"late"


async def test_an_unacknowledged_message_comes_back_with_a_higher_count(bus: Bus) -> None:
    queue = await work_queue(bus)
    await publish(bus, "a")
    first = await fetched(queue)
    second = await fetched(queue)
    assert (first.seq, first.num_delivered) == (second.seq, 1)
    assert second.num_delivered == 2


async def test_a_message_in_progress_stays_with_its_copy(bus: Bus) -> None:
    queue = await work_queue(bus)
    await publish(bus, "a")
    delivery = await fetched(queue)
    for _ in range(10):  # a stall of ACK_WAIT_S rightly loses the message: then it is held once more
        for _ in range(6):
            await asyncio.sleep(ACK_WAIT_S / 4)
            await delivery.in_progress()
        lost = await queue.fetch(0)
        if lost is None:
            break
        delivery = lost
    assert lost is None
    await delivery.ack()


@pytest.mark.parametrize("settle", ["ack", "term"])
async def test_a_settled_message_never_comes_back(bus: Bus, settle: str) -> None:
    queue = await work_queue(bus)
    await publish(bus, "a")
    await getattr(await fetched(queue), settle)()
    assert await queue.fetch(2 * ACK_WAIT_S) is None


async def test_copies_share_one_queue(bus: Bus) -> None:
    one, other = await work_queue(bus, ack_wait_s=60.0), await work_queue(bus, ack_wait_s=60.0)
    await publish(bus, "a", "b")
    bodies = {(await fetched(one)).message.body, (await fetched(other)).message.body}
    assert bodies == {b"a", b"b"}


async def test_creating_a_queue_again_keeps_its_place_and_takes_new_filters(bus: Bus) -> None:
    queue = await work_queue(bus)
    await publish(bus, "a")
    await (await fetched(queue)).ack()
    both = (FILTER, "assay.fact.candidate.compiled.null.*")
    await bus.create_queue(FACTS_STREAM, "compiler-null", both, ACK_WAIT_S)
    await bus.publish(note("compiled", "assay.fact.candidate.compiled.null.g1"), uuid4())
    assert (await fetched(queue)).message.body == b"compiled"


async def test_a_reader_starts_anywhere_and_stays_in_order_across_batches(bus: Bus) -> None:
    await publish(bus, *(str(n) for n in range(1203)))
    found = await read_until(bus, 1200, from_seq=4)
    assert [one.seq for one in found] == list(range(4, 1204))
    assert [int(one.message.body) for one in found] == list(range(3, 1203))


async def test_a_reader_at_the_end_gives_empty_batches_then_news(bus: Bus) -> None:
    await publish(bus, "a")
    reading = bus.read(FACTS_STREAM, 2)
    assert await anext(reading) == ()
    await publish(bus, "b")
    async with asyncio.timeout(60):
        while not (batch := await anext(reading)):
            pass
    assert [one.message.body for one in batch] == [b"b"]


async def test_a_bucket_keeps_the_last_value_and_a_growing_revision(bus: Bus) -> None:
    bucket = await bus.bucket(GOALS_BUCKET)
    assert await bucket.get("g1") is None
    first = await bucket.put("g1", b"one")
    second = await bucket.put("g1", b"two")
    assert second > first
    assert await bucket.get("g1") == (b"two", second)


async def test_a_bucket_updates_by_revision_only(bus: Bus) -> None:
    bucket = await bus.bucket(GOALS_BUCKET)
    made = await bucket.update("g1", b"one", 0)
    assert made is not None
    assert await bucket.update("g1", b"stolen", 0) is None
    assert await bucket.update("g1", b"two", made + 7) is None
    assert await bucket.update("g1", b"two", made) is not None


async def test_a_deleted_key_is_gone_and_may_be_made_again(bus: Bus) -> None:
    bucket = await bus.bucket(GOALS_BUCKET)
    await bucket.put("g1", b"one")
    await bucket.put("g2", b"two")
    await bucket.delete("g1")
    assert await bucket.get("g1") is None
    assert await bucket.keys() == ("g2",)
    assert await bucket.update("g1", b"again", 0) is not None
    assert await bucket.keys() == ("g1", "g2")


async def test_the_state_says_fill_and_epoch(bus: Bus) -> None:
    await publish(bus, "a", "b")
    state = await bus.state(FACTS_STREAM)
    assert (state.messages, state.first_seq, state.last_seq) == (2, 1, 2)
    assert 0 < state.bytes < state.max_bytes
    assert state.fill == state.bytes / state.max_bytes
    assert UUID(state.epoch)


async def test_a_closed_bus_is_not_connected(bus: Bus) -> None:
    assert bus.connected()
    await bus.close()
    assert not bus.connected()
