"""The recorder: the stream is copied in order, once, by the one copy that leads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest

from infra.embedded.postgres import EmbeddedPostgres
from schemas.envelope import Message, decode
from schemas.faults import Broken, Transient
from services.evidence.leadership import Alone, Deposed, Leadership, PostgresLeadership
from services.evidence.log import Log
from services.evidence.memory_log import MemoryLog
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import verify
from services.librarian.recorder import Recording, record
from services.runtime.bus import FACTS_STREAM, Bus, StreamState
from services.runtime.memory_bus import MemoryBus
from tests.fixtures.facts import id_of, incoming, story, with_body
from tests.fixtures.nats import ConnectAs
from tests.fixtures.postgres import Database, fresh_database
from tests.fixtures.waiting import until

MESSAGES = story("g1", "g2", candidates=40)


async def publish(bus: Bus, messages: tuple[Message, ...]) -> None:
    for message in messages:
        await bus.publish(message, id_of(message))


async def record_until(bus: Bus, log: Log, position: int, leadership: Leadership | None = None) -> list[Recording]:
    """Every recording up to the one that reaches `position`."""
    recordings: list[Recording] = []
    recorder = record(bus, log, leadership or Alone(), recordings.append)
    async with asyncio.timeout(120):
        async for recording in recorder:
            if recording.appended.head.position >= position:
                break
    await recorder.aclose()
    return recordings


class Restored(MemoryBus):
    """A bus whose stream is not what it was."""

    def __init__(self, epoch: str | None = None, first_seq: int | None = None) -> None:
        super().__init__()
        self._other_epoch = epoch
        self._first_seq = first_seq

    async def state(self, stream: str) -> StreamState:
        found = await super().state(stream)
        return replace(found, epoch=self._other_epoch or found.epoch, first_seq=self._first_seq or found.first_seq)


async def test_the_stream_is_recorded_in_order_and_handed_on_as_facts() -> None:
    bus, log = MemoryBus(), MemoryLog()
    await publish(bus, MESSAGES)
    recordings = await record_until(bus, log, len(MESSAGES))
    handed = [fact for recording in recordings for fact in recording.facts]
    assert [fact.envelope for fact in handed] == [decode(message) for message in MESSAGES]
    assert [fact.position for fact in handed] == list(range(1, len(MESSAGES) + 1))
    assert handed == [fact async for fact in log.read()]
    assert recordings[-1].lag == 0


async def test_a_restarted_recorder_goes_on_where_the_log_ends() -> None:
    bus, log = MemoryBus(), MemoryLog()
    await publish(bus, MESSAGES[:30])
    await record_until(bus, log, 30)
    await publish(bus, MESSAGES[30:])
    recordings = await record_until(bus, log, len(MESSAGES))
    assert recordings[0].facts[0].position == 31
    assert (await verify(log)).holds


async def test_facts_published_later_are_recorded_as_they_come() -> None:
    bus, log = MemoryBus(), MemoryLog()
    recording = asyncio.create_task(record_until(bus, log, len(MESSAGES)))
    for message in MESSAGES:
        await bus.publish(message, id_of(message))
        await asyncio.sleep(0)
    assert sum(len(one.facts) for one in await recording) == len(MESSAGES)


async def test_a_message_that_does_not_parse_is_recorded_and_not_handed_on() -> None:
    bus, log = MemoryBus(), MemoryLog()
    bad = with_body(MESSAGES[1], b'{"a":"\\u0000"}')
    await publish(bus, (MESSAGES[0], bad, *MESSAGES[2:5]))
    (recording,) = await record_until(bus, log, 5)
    assert [fact.position for fact in recording.facts] == [1, 3, 4, 5]
    assert recording.unparseable == 1


async def test_a_duplicate_is_reported_and_takes_no_position() -> None:
    bus, log = MemoryBus(), MemoryLog()
    for message in (*MESSAGES[:3], MESSAGES[0], MESSAGES[3]):
        await bus.publish(message, id_of(with_unique_bus_id(message, bus)))
    (recording,) = await record_until(bus, log, 4)
    assert [one.stream_seq for one in recording.appended.duplicates] == [4]
    assert recording.appended.head.stream_seq == 5


def with_unique_bus_id(message: Message, bus: MemoryBus) -> Message:
    """As after the bus forgot the id: outside its window, the same message is stored again."""
    number = len(bus.messages(FACTS_STREAM))
    return replace(message, headers={"ce-id": f"00000000-0000-4000-8000-{number:012d}"})


async def test_a_recreated_stream_is_broken_and_nothing_is_recorded() -> None:
    bus, log = MemoryBus(), MemoryLog()
    await publish(bus, MESSAGES[:5])
    await record_until(bus, log, 5)
    other = Restored(epoch="another")
    await publish(other, MESSAGES)
    with pytest.raises(Broken, match="recreated"):
        await record_until(other, log, 6)
    assert (await log.head()).position == 5


async def test_a_stream_restored_from_an_older_copy_is_broken() -> None:
    bus, log = MemoryBus(), MemoryLog()
    await log.append(incoming(MESSAGES[:5], epoch=(await bus.state(FACTS_STREAM)).epoch))
    await publish(bus, MESSAGES[:3])
    with pytest.raises(Broken, match="older copy"):
        await record_until(bus, log, 6)


async def test_messages_removed_before_they_were_recorded_are_a_named_break() -> None:
    bus, log = Restored(first_seq=4), MemoryLog()
    await publish(bus, MESSAGES)
    with pytest.raises(Broken, match="begins at 4"):
        await record_until(bus, log, 6)


async def test_a_bus_that_is_away_is_transient_and_nothing_is_lost() -> None:
    bus, log = MemoryBus(), MemoryLog()
    await publish(bus, MESSAGES[:5])
    bus.go_away()
    with pytest.raises(Transient):
        await record_until(bus, log, 5)
    bus.come_back()
    await record_until(bus, log, 5)
    assert (await verify(log)).rows == 5


async def test_closing_the_recorder_leaves_no_task_behind() -> None:
    bus, log = MemoryBus(), MemoryLog()
    await publish(bus, MESSAGES)
    before = asyncio.all_tasks()
    await record_until(bus, log, len(MESSAGES))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_only_one_copy_leads_and_a_spare_follows_it(database: Database) -> None:
    first, spare = (PostgresLeadership(database.recorder_dsn) for _ in range(2))
    await first.acquire()
    waiting = asyncio.create_task(spare.acquire())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await first.confirm()
    await first.release()
    async with asyncio.timeout(30):
        await waiting
    await spare.confirm()
    with pytest.raises(Deposed):
        await first.confirm()
    await spare.release()


async def test_a_leader_that_falls_silent_is_deposed_and_a_spare_takes_over(database: Database) -> None:
    frozen = PostgresLeadership(database.recorder_dsn, heartbeat_s=3600, silence_s=0.3)
    spare = PostgresLeadership(database.recorder_dsn)

    async def led() -> bool:
        with suppress(Transient):  # on a busy machine, silent before it has asked for the lock
            await frozen.acquire()
            return True
        return False

    await until(led)
    async with asyncio.timeout(30):
        await spare.acquire()
    with pytest.raises(Deposed):
        await frozen.confirm()
    await spare.release()


async def test_a_leader_that_is_busy_folding_stays_the_leader(database: Database) -> None:
    busy = PostgresLeadership(database.recorder_dsn, heartbeat_s=0.1, silence_s=4.0)
    await busy.acquire()
    await asyncio.sleep(5.0)  # longer than the silence that would depose it
    await busy.confirm()
    await busy.release()


async def test_a_leader_whose_server_died_is_deposed_and_records_nothing_more(own_postgres: EmbeddedPostgres) -> None:
    database = await fresh_database(own_postgres)
    bus, log, leadership = MemoryBus(), PostgresLog(database.recorder_dsn), PostgresLeadership(database.recorder_dsn)
    await leadership.acquire()
    await publish(bus, MESSAGES[:5])
    recorder = record(bus, log, leadership)
    await anext(recorder)
    own_postgres.kill()
    own_postgres.start()
    await publish(bus, MESSAGES[5:])
    with pytest.raises(Deposed):
        await anext(recorder)
    await leadership.acquire()
    await record_until(bus, log, len(MESSAGES), leadership)
    assert (await verify(log)).holds
    await leadership.release()
    await log.close()


async def test_leadership_of_a_server_that_is_away_is_transient(own_postgres: EmbeddedPostgres) -> None:
    dsn = own_postgres.dsn()
    own_postgres.kill()
    with pytest.raises(Transient):
        await PostgresLeadership(dsn).acquire()


@pytest.fixture
async def real_log(database: Database) -> AsyncIterator[PostgresLog]:
    log = PostgresLog(database.recorder_dsn)
    yield log
    await log.close()


async def test_a_real_stream_is_recorded_in_a_real_log(
    connect_as: ConnectAs, database: Database, real_log: PostgresLog
) -> None:
    publisher, librarian = await connect_as("admin"), await connect_as("librarian")
    leadership = PostgresLeadership(database.recorder_dsn)
    await leadership.acquire()
    await publish(publisher, MESSAGES[:50])
    await record_until(librarian, real_log, 50, leadership)
    recording = asyncio.create_task(record_until(librarian, real_log, len(MESSAGES), leadership))
    await publish(publisher, MESSAGES[50:])
    await recording
    assert [fact.envelope async for fact in real_log.read()] == [decode(message) for message in MESSAGES]
    assert (await verify(real_log)).holds
    await leadership.release()
