"""A lost stream: nothing is recorded until a new epoch is opened, and then unfinished goals end and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from infra.bootstrap.nats import bootstrap_nats, let_follow, restore_streams
from schemas.enums import Outcome
from schemas.envelope import Envelope, Message, encode
from schemas.events import (
    CandidateProposed,
    EpochOpened,
    FinalistNominated,
    FinalsDue,
    GenerationClosed,
    GenerationDue,
    GoalCompleted,
)
from schemas.faults import Broken
from schemas.ids import epoch_id
from services.evidence.breaks import BreakKind
from services.evidence.log import Log
from services.evidence.memory_log import MemoryLog
from services.evidence.unsettled import unsettled_work
from services.evidence.verify import verify
from services.librarian.term import Term
from services.runtime.bus import FACTS_STREAM, INTAKE_STREAM, PRESENCE_BUCKET
from services.runtime.memory_bus import MemoryBus
from services.runtime.nats_link import Link
from services.runtime.settings import Settings
from tests.fixtures.facts import BEGIN, incoming, story
from tests.fixtures.nats import ConnectAs
from tests.integration.fake_workers import FakeWorkers
from tests.integration.librarian_office import facts_of, office_of, running, submit, until, until_completed
from tests.integration.test_replay import log_of
from tests.pure.floor import Floor


@pytest.fixture
async def bus() -> MemoryBus:
    made = MemoryBus()
    await (await made.bucket(PRESENCE_BUCKET)).put("null.host.copy", b"{}")
    return made


@asynccontextmanager
async def working(workers: FakeWorkers) -> AsyncIterator[None]:
    task = asyncio.create_task(workers.serve())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def interrupted(bus: MemoryBus, log: Log, workers: FakeWorkers, at: int) -> None:
    """A goal runs until the log is at `at`; then the factory stops and its stream is lost."""
    async with running(await office_of(bus, log)), working(workers):
        await submit(bus, "g")

        async def far_enough() -> bool:
            return (await log.head()).position >= at

        await until(far_enough)


async def hand_out_again(bus: MemoryBus, log: Log) -> int:
    """What `assay epoch open` does once the librarian has gone on."""

    async def followed() -> bool:
        head, stream = await log.head(), await bus.state(FACTS_STREAM)
        return (head.epoch, head.stream_seq) == (stream.epoch, stream.last_seq)

    await until(followed)
    work = await unsettled_work(log, (await log.head()).position)
    for message in work:
        await bus.publish(message, UUID(message.headers["ce-id"]))
    return len(work)


@pytest.mark.parametrize("at", [2, 5, 12, 25, 40, 60, 75])
async def test_a_goal_whose_stream_was_lost_anywhere_ends_in_the_new_epoch(bus: MemoryBus, at: int) -> None:
    log, workers = MemoryLog(), FakeWorkers(bus)
    await interrupted(bus, log, workers, at)
    before = await log.head()
    bus.recreate(FACTS_STREAM, follows=before.epoch)
    async with running(await office_of(bus, log)), working(FakeWorkers(bus, measured=workers.measured)):
        await hand_out_again(bus, log)
        await until_completed(log, "g")
    (opened,) = await facts_of(log, None, EpochOpened)
    assert (opened.fact.previous_epoch, opened.fact.position) == (before.epoch, before.position)
    assert opened.fact.previous_seq == before.stream_seq
    (end,) = await facts_of(log, "g", GoalCompleted)
    assert end.fact.outcome is Outcome.CHAMPION
    assert [one.fact.generation for one in await facts_of(log, "g", GenerationClosed)] == [1, 2]
    assert len(await facts_of(log, "g", CandidateProposed)) == 16
    done = await verify(log)
    assert done.first_break is None
    assert done.divergent == 0


async def test_a_stream_that_nobody_opened_is_not_recorded_and_the_fault_says_what_to_do(bus: MemoryBus) -> None:
    log = MemoryLog()
    await interrupted(bus, log, FakeWorkers(bus), 12)
    before = await log.head()
    for follows in ("", "another epoch"):
        bus.recreate(FACTS_STREAM, follows=follows)
        term = await Term.begin(await office_of(bus, log))
        with pytest.raises(Broken, match="assay epoch open"):
            await term.serve()
        assert await log.head() == before


async def test_an_epoch_is_opened_once_however_often_a_term_begins(bus: MemoryBus) -> None:
    log = MemoryLog()
    await interrupted(bus, log, FakeWorkers(bus), 12)
    bus.recreate(FACTS_STREAM, follows=(await log.head()).epoch)
    for _ in range(2):
        async with running(await office_of(bus, log)):
            await until(lambda: _recorded(log, EpochOpened))
    assert len(await facts_of(log, None, EpochOpened)) == 1


async def _recorded(log: Log, fact: type[EpochOpened]) -> bool:
    return bool(await facts_of(log, None, fact))


async def test_an_epoch_that_no_fact_opened_is_a_break() -> None:
    """Somebody moved the head by hand."""
    log, messages = MemoryLog(), story("g")
    await log.append(incoming(messages[:4]))
    await log.open_epoch(await log.head(), "epoch-2", 0)
    assert (await verify(log)).first_break is not None
    await log.append(incoming(messages[4:], epoch="epoch-2"))
    found = (await verify(log)).first_break
    assert found is not None
    assert (found.position, found.kind) == (5, BreakKind.SEQUENCE)
    assert "no fact opened it" in found.message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"position": 2}, "it was opened after epoch-1 at 2"),
        ({"previous_epoch": "epoch-0"}, "it was opened after epoch-0"),
        ({"previous_seq": 6}, "stream sequence 5 of epoch epoch-1"),
    ],
)
async def test_an_opening_that_says_another_thing_than_the_rows_is_a_break(
    changes: dict[str, object], says: str
) -> None:
    log = MemoryLog()
    told = {"position": 4, "previous_epoch": "epoch-1", "previous_seq": 4} | changes
    await log.append(incoming(story("g")[:4]))
    await log.open_epoch(await log.head(), "epoch-2", 0)
    await log.append(incoming([opening_message(**told), *story("g")[4:]], epoch="epoch-2"))
    found = (await verify(log)).first_break
    assert found is not None
    assert says in found.message


async def test_an_honest_opening_holds() -> None:
    log = MemoryLog()
    told = {"position": 4, "previous_epoch": "epoch-1", "previous_seq": 4}
    await log.append(incoming(story("g")[:4]))
    await log.open_epoch(await log.head(), "epoch-2", 0)
    await log.append(incoming([story("g")[4], opening_message(**told), *story("g")[5:]], epoch="epoch-2"))
    assert (await verify(log)).first_break is None


def opening_message(**told: Any) -> Message:
    body: dict[str, Any] = {"epoch": "epoch-2", "first_seq": 1, "reason": "a test"} | told
    fact = EpochOpened(**body)
    return encode(Envelope(epoch_id("epoch-2"), fact, "assay/librarian/1", BEGIN))


# ---- unanswered work -----------------------------------------------------------------------------------------------


async def unsettled(floor: Floor) -> list[str]:
    log = await log_of(floor)
    return [message.headers["ce-type"] for message in await unsettled_work(log, len(floor.log))]


async def test_work_is_unsettled_until_its_own_answer_is_recorded() -> None:
    floor = Floor().with_route().accept()
    assert await unsettled(floor) == ["baseline.due.v1"]
    floor.choose_baseline()
    assert await unsettled(floor) == [GenerationDue.TYPE]
    first, *_ = floor.propose(opened=False)
    assert await unsettled(floor) == [GenerationDue.TYPE, *[CandidateProposed.TYPE] * 4], "half of a generation"
    floor.climb(first)
    assert await unsettled(floor) == [GenerationDue.TYPE, *[CandidateProposed.TYPE] * 3]


async def test_finals_and_races_are_handed_out_again_and_ended_goals_are_not() -> None:
    floor = Floor().with_route().accept().search()
    assert await unsettled(floor) == [FinalsDue.TYPE]
    one, other = floor.nominate()
    assert await unsettled(floor) == [FinalistNominated.TYPE] * 2
    for nominated in (one, other):
        floor.prove(nominated)
    assert await unsettled(floor) == ["race.due.v1"]
    floor.finish_race()
    assert await unsettled(floor) == []


# ---- the stream's own metadata -------------------------------------------------------------------------------------


async def test_a_stream_that_is_gone_is_made_anew_and_the_others_keep_their_size(
    connect_as: ConnectAs, nats_settings: Callable[[str], Settings]
) -> None:
    admin, settings = await connect_as("admin"), nats_settings("admin")
    before = await admin.state(INTAKE_STREAM), await admin.state(FACTS_STREAM)
    await delete_stream(settings)
    await restore_streams(settings.model_copy(update={"stream_max_bytes": 2 * 1024**2}))
    after = await admin.state(INTAKE_STREAM), await admin.state(FACTS_STREAM)
    assert after[0] == before[0]
    assert after[1].epoch != before[1].epoch
    await restore_streams(settings.model_copy(update={"stream_max_bytes": 4 * 1024**2}))
    assert (await admin.state(FACTS_STREAM)).max_bytes == 2 * 1024**2, "what is there stays as it is"


async def test_a_stream_says_what_it_follows_and_a_bootstrap_keeps_it(
    connect_as: ConnectAs, nats_settings: Callable[[str], Settings]
) -> None:
    admin, settings = await connect_as("admin"), nats_settings("admin")
    before = await admin.state(FACTS_STREAM)
    await let_follow(settings, "the old epoch", "a test", renamed=False)
    await bootstrap_nats(settings)
    told = await admin.state(FACTS_STREAM)
    assert (told.epoch, told.follows, told.reason) == (before.epoch, "the old epoch", "a test")
    await let_follow(settings, before.epoch, "again", renamed=True)
    renamed = await admin.state(FACTS_STREAM)
    assert renamed.epoch != before.epoch
    assert renamed.follows == before.epoch


async def delete_stream(settings: Settings) -> None:
    link = await Link.open(settings, "admin")
    await link.api(f"STREAM.DELETE.{FACTS_STREAM}")
    await link.close()
