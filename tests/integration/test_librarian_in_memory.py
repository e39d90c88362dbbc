"""The whole librarian around fake workers, on the in-memory bus and log."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from schemas.enums import EndedBy, Outcome
from schemas.envelope import Message
from schemas.events import (
    CandidateProposed,
    CandidateRefused,
    CounterexampleKept,
    GenerationClosed,
    GenerationDue,
    GoalAccepted,
    GoalCompleted,
    GoalRefused,
    GoalSteered,
    RouteAvailable,
    RouteLost,
    SteerRefused,
)
from schemas.ids import due_id
from services.evidence.memory_log import MemoryLog
from services.evidence.standings import leaderboard
from services.evidence.verify import verify
from services.librarian import curator
from services.librarian.curator import CuratorState
from services.librarian.refold import refold
from services.librarian.term import Term
from services.runtime.bus import FACTS_STREAM, GOALS_BUCKET, INTAKE_STREAM, PARKED_STREAM, PRESENCE_BUCKET
from services.runtime.memory_bus import MemoryBus
from services.runtime.routes import DESK_QUEUE
from tests.integration.fake_workers import FakeWorkers
from tests.integration.librarian_office import (
    GOAL,
    facts_of,
    office_of,
    running,
    steer,
    submit,
    submit_kernel,
    until,
    until_completed,
)


@asynccontextmanager
async def working(workers: FakeWorkers) -> AsyncIterator[None]:
    task = asyncio.create_task(workers.serve())
    try:
        yield
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bus() -> MemoryBus:
    """A bus on which some copy serves the null route."""
    made = MemoryBus()
    await (await made.bucket(PRESENCE_BUCKET)).put("null.host.copy", b"{}")
    return made


async def test_a_goal_from_the_intake_stream_ends_with_a_champion(bus: MemoryBus) -> None:
    log = MemoryLog()
    async with running(await office_of(bus, log)), working(FakeWorkers(bus)):
        await submit(bus, "g")
        await until_completed(log, "g")
    (end,) = await facts_of(log, "g", GoalCompleted)
    assert (end.fact.ended_by, end.fact.outcome) == (EndedBy.BUDGET, Outcome.CHAMPION)
    everything = await facts_of(log, "g")
    assert len({recorded.id for recorded in everything}) == len(everything)
    assert len(await facts_of(log, "g", CandidateProposed)) == 16
    assert len(await facts_of(log, "g", CounterexampleKept)) == 4
    assert {recorded.envelope.correlation_id for recorded in everything} == {due_id("g", "accept")}
    assert len({(recorded.envelope.traceparent or "").split("-")[1] for recorded in everything}) == 1
    assert [standing.champion for standing in await leaderboard(log)].count(True) == 1
    mark = await (await bus.bucket(GOALS_BUCKET)).get("g")
    assert mark is not None
    assert json.loads(mark[0]) == {"state": "ended", "position": end.position}


async def test_every_cause_is_recorded_before_its_effect(bus: MemoryBus) -> None:
    log = MemoryLog()
    async with running(await office_of(bus, log)), working(FakeWorkers(bus)):
        await submit(bus, "g")
        await until_completed(log, "g")
    seen = set()
    for recorded in await facts_of(log, "g"):
        if not isinstance(recorded.fact, GoalAccepted):
            assert recorded.envelope.causation_id in seen, recorded.fact.TYPE
        seen.add(recorded.id)


async def test_goals_submitted_together_all_end(bus: MemoryBus) -> None:
    log = MemoryLog()
    names = [f"g{n}" for n in range(5)]
    async with running(await office_of(bus, log)), working(FakeWorkers(bus)):
        for name in names:
            await submit(bus, name)
        await until_completed(log, *names)
    proposed = Counter(recorded.fact.goal_id for recorded in await facts_of(log, None, CandidateProposed))
    assert proposed == dict.fromkeys(names, 16)


async def test_lost_generations_are_retried(bus: MemoryBus) -> None:
    log = MemoryLog()
    async with running(await office_of(bus, log)), working(FakeWorkers(bus, generations_lost=2)):
        await submit(bus, "g")
        await until_completed(log, "g")
    attempts = [(r.fact.generation, r.fact.attempt) for r in await facts_of(log, "g", GenerationDue)]
    assert attempts == [(1, 0), (1, 1), (1, 2), (2, 0)]


async def test_the_desk_answers_each_request_and_survives_all_of_them(bus: MemoryBus) -> None:
    log = MemoryLog()
    async with running(await office_of(bus, log)):
        for body in (b"[" * 20_000, b"\xff", b'{"name": "\\u0000"}', b"{}", b""):
            await submit(bus, "bad", body)
        await bus.publish(Message("assay.intake.nonsense", {}, b"x"), due_id("x", "nonsense"))
        await submit(bus, "good")
        await submit(bus, "good")
        await submit(bus, "good", GOAL | {"name": "other"})
        await steer(bus, "nobody", "pause")

        async def answered() -> bool:  # the last answer is recorded a moment before its request is acknowledged
            pending = bus._streams[INTAKE_STREAM].queues[DESK_QUEUE].pending
            return not pending and bool(await facts_of(log, None, SteerRefused))

        await until(answered)
    assert len(await facts_of(log, None, GoalRefused)) == 7
    assert len(await facts_of(log, None, GoalAccepted)) == 1
    assert bus.take(INTAKE_STREAM, DESK_QUEUE) is None, "everything was acknowledged"


async def test_a_request_that_keeps_coming_back_is_parked(bus: MemoryBus) -> None:
    log = MemoryLog()
    office = await office_of(bus, log)
    async with running(office):
        pass  # the desk's queue exists now
    await submit(bus, "g")
    queue = await bus.queue(INTAKE_STREAM, DESK_QUEUE)
    delivery = await queue.fetch(0.1)
    assert delivery is not None
    for _ in range(5):
        consumer = bus._streams[INTAKE_STREAM].queues[DESK_QUEUE]
        consumer.pending[delivery.seq].due_at = 0.0
        delivery = await queue.fetch(0.1)
        assert delivery is not None
    assert delivery.num_delivered == 6
    async with running(office) as term:
        await term.reply(delivery)
    assert len(bus.messages(PARKED_STREAM)) == 1
    assert await facts_of(log, None, GoalAccepted) == []


async def test_pause_resume_and_cancel_from_the_bus(bus: MemoryBus) -> None:
    log = MemoryLog()

    async def steered(count: int) -> None:
        async def recorded() -> bool:
            return len(await facts_of(log, "g", GoalSteered)) == count

        await until(recorded)

    async with running(await office_of(bus, log)) as term:
        await submit(bus, "g")
        await steer(bus, "g", "pause")
        await steered(1)
        assert term.state.goals["g"].paused_since is not None
        await steer(bus, "g", "resume")
        await steer(bus, "g", "cancel")
        await until_completed(log, "g")
    (end,) = await facts_of(log, "g", GoalCompleted)
    assert end.fact.ended_by is EndedBy.CANCELLED


async def test_kernels_from_outside_are_judged_with_the_generation_and_may_win(bus: MemoryBus) -> None:
    log = MemoryLog()
    async with running(await office_of(bus, log)) as term:
        async with working(FakeWorkers(bus)):
            await submit(bus, "g", GOAL | {"budget": {"candidates": 400, "wall": 600, "stagnation": 400}})

            async def searching() -> bool:
                return bool(await facts_of(log, "g", GenerationDue))

            await until(searching)
            await submit_kernel(bus, "g", "/* kernel 90000 */", author="ada", note="mine")
            await submit_kernel(bus, "g", "/* kernel 90000 */ // the same")
            await submit_kernel(bus, "nobody", "/* kernel 901 */")

            async def answered() -> bool:
                return len(await facts_of(log, None, CandidateRefused)) == 2

            await until(answered)
            await steer(bus, "g", "stop")
            await until_completed(log, "g")
        assert not term.state.awaited
    (mine,) = [r for r in await facts_of(log, "g", CandidateProposed) if r.fact.submitted]
    assert mine.fact.author == "unsigned/ada"
    (end,) = await facts_of(log, "g", GoalCompleted)
    assert end.fact.champion_id == mine.id
    same, nobody = await facts_of(log, None, CandidateRefused)
    assert str(mine.id) in same.fact.problems[0].message
    assert nobody.fact.problems[0].path == "subject"
    assert (await verify(log)).holds, "its cause is a request, which stands inside the fact"


async def test_a_goal_is_extended_from_the_bus_and_spends_what_it_got(bus: MemoryBus) -> None:
    log = MemoryLog()
    async with running(await office_of(bus, log)):
        await submit(bus, "g")
        await steer(bus, "g", "extend", extend={"candidates": 8})
        await steer(bus, "g", "extend", extend={})

        async def refused() -> bool:
            return bool(await facts_of(log, None, SteerRefused))

        await until(refused)
        async with working(FakeWorkers(bus)):
            await until_completed(log, "g")
    assert len(await facts_of(log, "g", CandidateProposed)) == 24


async def test_routes_come_and_go_with_presence(bus: MemoryBus) -> None:
    log = MemoryLog()
    bucket = await bus.bucket(PRESENCE_BUCKET)
    async with running(await office_of(bus, log)) as term:

        async def available() -> bool:
            return bool(await facts_of(log, None, RouteAvailable))

        await until(available)
        assert {"compiler-null", "verifier-null", "benchmarker-null", "proposer"} <= set(
            bus._streams[FACTS_STREAM].queues
        )
        await bucket.delete("null.host.copy")
        await term.tick()

        async def lost() -> bool:
            return bool(await facts_of(log, None, RouteLost))

        await until(lost)


@pytest.mark.parametrize("stop_after", [1, 3, 9, 20, 33, 60, 75])
async def test_a_librarian_that_dies_anywhere_is_replaced_without_a_trace(bus: MemoryBus, stop_after: int) -> None:
    """The next one records first what the last one published, then decides: no fact twice, none missing."""
    log = MemoryLog()
    office = await office_of(bus, log)
    async with working(FakeWorkers(bus)):
        async with running(office):
            await submit(bus, "g")

            async def far_enough() -> bool:
                return (await log.head()).position >= stop_after

            await until(far_enough)
        async with running(office):
            await until_completed(log, "g")
    assert [one for one in await log.duplicates() if one.kind == "divergent"] == []
    closed = [recorded.fact.generation for recorded in await facts_of(log, "g", GenerationClosed)]
    assert closed == [1, 2]
    (end,) = await facts_of(log, "g", GoalCompleted)
    assert end.fact.outcome is Outcome.CHAMPION


async def test_refolding_gives_what_folding_everything_gives(bus: MemoryBus) -> None:
    log = MemoryLog()
    async with running(await office_of(bus, log)), working(FakeWorkers(bus)):
        await submit(bus, "done")
        await until_completed(log, "done")
    async with running(await office_of(bus, log)):
        await submit(bus, "open")

        async def begun() -> bool:
            return bool(await facts_of(log, "open", GoalAccepted))

        await until(begun)
    whole = CuratorState()
    for recorded in await facts_of(log):
        whole = curator.evolve(whole, recorded)
    refolded = await refold(log)
    assert refolded.state == whole
    assert refolded.ended == ("done",)


async def test_a_stream_that_is_four_fifths_full_takes_no_goal_and_says_so() -> None:
    bus, log = MemoryBus(max_bytes=12_000), MemoryLog()
    await (await bus.bucket(PRESENCE_BUCKET)).put("null.host.copy", b"{}")
    async with running(await office_of(bus, log)) as term:
        await submit(bus, "first")

        async def begun() -> bool:
            return bool(await facts_of(log, "first", GoalAccepted))

        await until(begun)
        while (await bus.state(FACTS_STREAM)).bytes < 0.8 * 12_000:
            await submit(bus, "filler", b"x" * 900)
            await asyncio.sleep(0.02)
        await term.tick()
        await submit(bus, "late")

        async def refused() -> bool:
            said = [recorded.fact.problems[0].message for recorded in await facts_of(log, None, GoalRefused)]
            return any("80 % full" in message for message in said)

        await until(refused)
        await steer(bus, "first", "cancel")
        await until_completed(log, "first")


async def test_nothing_is_decided_before_the_stream_is_recorded(bus: MemoryBus) -> None:
    """What the last librarian published may still be on its way into the log."""
    log = MemoryLog()
    office = await office_of(bus, log)
    async with running(office):
        await submit(bus, "g")

        async def due() -> bool:
            return len(bus.messages(FACTS_STREAM)) >= 3

        await until(due)
    fresh = MemoryLog()
    term = await Term.begin(await office_of(bus, fresh))
    before = len(bus.messages(FACTS_STREAM))
    await term.decide()
    assert len(bus.messages(FACTS_STREAM)) == before
