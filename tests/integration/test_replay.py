"""Replays: the world at a position, views held against their log, history re-emitted, decisions taken again."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import nats as nats_client
import pytest

from infra.embedded.nats import EmbeddedNats
from kernel_lab.spaces import SPACES
from schemas.envelope import Draft, Envelope, Message, encode
from schemas.events import (
    CandidateProposed,
    ChampionCrowned,
    FinalistNominated,
    FinalsDue,
    GenerationDue,
    GenerationOpened,
    RaceFinished,
)
from schemas.faults import Bug, Misconfigured
from schemas.framing import unframe
from schemas.work import Build
from services.console.replaying.decisions import Audited, audit_decisions
from services.console.replaying.publishing import History, publish_history, replay_subject
from services.evidence.log import Incoming, Log
from services.evidence.memory_log import MemoryLog
from services.evidence.past import World, position_of, read_world
from services.evidence.postgres_log import PostgresLog
from services.evidence.standings import leaderboard
from services.evidence.view_check import Checked, Projection, check_projection
from services.evidence.view_rows import MemoryViews
from services.evidence.views import PostgresViews
from services.proposer.core import Nominate, Propose, Proposer
from services.proposer.work import Thinker
from services.runtime.bus import FACTS_STREAM, PRESENCE_BUCKET
from services.runtime.memory_bus import MemoryBus
from tests.fixtures.facts import BEGIN, incoming, story, ticking, with_headers
from tests.fixtures.nats import ConnectAs
from tests.fixtures.postgres import Database
from tests.integration.fake_workers import FakeWorkers
from tests.integration.librarian_office import GOAL, office_of, running, submit, until_completed
from tests.pure.floor import Floor


def unwatched(_done: int, _of: int) -> None:
    """Nobody looks at the progress."""


def at(floor: Floor, position: int) -> MemoryViews:
    """The views of the floor's first facts."""
    views = MemoryViews()
    views.apply(floor.log[:position], position)
    return views


def statuses(views: MemoryViews) -> dict[Any, Any]:
    return {row["candidate_id"]: row["status"] for row in views.candidates()}


async def log_of(floor: Floor, log: Log | None = None) -> Log:
    log = log or MemoryLog(clock=ticking())
    for recorded in floor.log:
        await log.append([Incoming(encode(recorded.envelope), "epoch", recorded.position)])
    return log


# ---- the world as it was -------------------------------------------------------------------------------------------


async def test_the_world_at_a_position_knows_every_fact_up_to_it_and_none_after() -> None:
    floor = Floor().with_route().accept().play()
    log = await log_of(floor)
    for position in range(1, len(floor.log) + 1):
        world = await read_world(log, position, unwatched)
        known = at(floor, position)
        assert [row["proposed"] for row in world.views.goals()] == [row["proposed"] for row in known.goals()]
        assert statuses(world.views) == statuses(known)
        proposed = sum(isinstance(recorded.fact, CandidateProposed) for recorded in floor.log[:position])
        assert len(world.views.candidates()) == proposed


async def world(to: int | datetime | None, log: Log | None = None) -> World:
    log = log or await log_of(Floor().with_route().accept().play())
    return await read_world(log, await position_of(log, to), unwatched)


async def test_a_time_is_the_world_as_it_was_recorded_by_then() -> None:
    log = await log_of(Floor().with_route().accept().play())
    by_time = await world(BEGIN + timedelta(seconds=9.5), log)
    assert (by_time.position, by_time.recorded_at) == (10, BEGIN + timedelta(seconds=9))
    assert [by_time.hash] == [row.hash async for row in log.rows(9, 10)]
    end = (await log.head()).position
    assert (await world(None, log)).position == (await world(BEGIN + timedelta(days=1), log)).position == end


@pytest.mark.parametrize(
    ("to", "says"),
    [
        (0, "positions 1 to"),
        (10_000, "position 10000 is not in the log"),
        (BEGIN - timedelta(seconds=1), "before the log's first fact"),
    ],
)
async def test_what_the_log_does_not_reach_is_refused_with_its_bounds(to: Any, says: str) -> None:
    with pytest.raises(Misconfigured, match=says):
        await world(to)


async def test_an_empty_log_has_nothing_to_replay() -> None:
    with pytest.raises(Misconfigured, match="the log is empty"):
        await position_of(MemoryLog(), None)


async def test_facts_of_a_newer_version_take_no_part_and_are_counted() -> None:
    log = MemoryLog()
    one, two, *rest = story("g")
    await log.append(incoming([one, two, with_headers(rest[0], ce_type="candidate.proposed.v9"), *rest[1:]]))
    found = await read_world(log, (await log.head()).position, unwatched)
    assert dict(found.unreadable) == {"candidate.proposed.v9": 1}


# ---- views held against their log ----------------------------------------------------------------------------------


@pytest.fixture
async def views(database: Database) -> AsyncIterator[PostgresViews]:
    made = PostgresViews(database.recorder_dsn)
    yield made
    await made.close()


@asynccontextmanager
async def shown(views: PostgresViews, database: Database) -> AsyncIterator[Log]:
    """A log of two goals, one of them half-way, and views that show it."""
    floor = Floor().with_route().accept().play().accept("second")
    floor.choose_baseline()
    first, *_ = floor.propose()
    floor.climb(first)
    log = PostgresLog(database.recorder_dsn)
    await log_of(floor, log)
    await views.start(log)
    yield log
    await log.close()


async def checked(log: Log, views: PostgresViews) -> list[Checked]:
    return [await check_projection(log, views, projection, unwatched) for projection in Projection]


async def test_live_views_are_what_their_log_says(views: PostgresViews, database: Database) -> None:
    async with shown(views, database) as log:
        found = await checked(log, views)
        end = (await log.head()).position
    assert [(one.rows, one.differences) for one in found] == [(2, ()), (12, ()), (2, ())]
    assert {one.position for one in found} == {end}


@pytest.mark.parametrize(
    ("statement", "projection", "column"),
    [
        ("UPDATE views.goals SET measured = 7 WHERE goal_id = 'g'", Projection.GOALS, "measured"),
        (
            "UPDATE views.candidates SET search_ratio = 99 WHERE search_ratio > 1.06",
            Projection.CANDIDATES,
            "search_ratio",
        ),
        ("DELETE FROM views.candidates WHERE status = 'proposed'", Projection.CANDIDATES, None),
        ("UPDATE views.goals SET goal_id = 'forged' WHERE goal_id = 'second'", Projection.GOALS, None),
    ],
)
async def test_a_view_that_says_something_else_is_named_with_row_and_column(
    views: PostgresViews, database: Database, statement: str, projection: Projection, column: str | None
) -> None:
    async with shown(views, database) as log:
        connection = await asyncpg.connect(database.recorder_dsn)
        await connection.execute(statement)
        await connection.close()
        found = {one.projection: one.differences for one in await checked(log, views)}
    assert {one.column for one in found.pop(projection)} == {column}
    assert set(found.values()) == {()}, "and nothing else"


async def test_a_leaderboard_that_a_forged_row_leads_is_found(views: PostgresViews, database: Database) -> None:
    """Whoever may write views may write this one; the log says otherwise."""
    async with shown(views, database) as log:
        await database.sabotage("UPDATE views.standings SET low = 9.5 WHERE champion")
        *_, leaderboard = await checked(log, views)
    assert [(one.column, one.live) for one in leaderboard.differences] == [("low", 9.5)]


async def test_the_leaderboard_as_it_was_names_its_champion_once_he_is_crowned() -> None:
    floor = Floor().with_route().accept().play()
    raced, crowned = floor.last(RaceFinished).position, floor.last(ChampionCrowned).position
    assert at(floor, raced - 1).leaderboard() == ()
    assert [row["champion"] for row in at(floor, raced).leaderboard()] == [False, False]
    assert [row["champion"] for row in at(floor, crowned).leaderboard("g")] == [True, False]
    standings = await leaderboard(await log_of(floor))
    assert [asdict(one) | {"raced_at": None} for one in standings] == [
        row | {"raced_at": None} for row in at(floor, crowned).leaderboard()
    ]


# ---- history re-emitted --------------------------------------------------------------------------------------------


async def test_history_is_sent_as_it_was_said_and_no_stream_takes_it() -> None:
    log, bus = MemoryLog(clock=ticking()), MemoryBus()
    messages = story("g", "other")
    await log.append(incoming(messages))
    before = await bus.state(FACTS_STREAM)
    history = History(log, (await log.head()).position, "g")
    assert await publish_history(history, bus, replay_subject("r"), 0, unwatched) == len(story("g"))
    assert [one.subject for one in bus.emitted] == [
        one.subject.replace("assay.", "assay.replay.r.", 1) for one in story("g")
    ]
    assert [one.body for one in bus.emitted] == [one.body for one in story("g")]
    assert [one.headers["assay-replay-position"] for one in bus.emitted][:2] == ["1", "2"]
    assert bus.emitted[0].headers["ce-id"] == messages[0].headers["ce-id"]
    assert await bus.state(FACTS_STREAM) == before


async def test_history_keeps_its_pace_times_the_speed() -> None:
    log, slept = MemoryLog(clock=ticking()), list[float]()
    for one in incoming(story("g")):
        await log.append([one])

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await publish_history(History(log, 4), MemoryBus(), replay_subject("r"), 10, unwatched, sleep)
    assert slept == [0.1, 0.1, 0.1]


@pytest.mark.parametrize("subject", ["assay.fact.goal.accepted.any.g", "assay.intake.goal.submitted.g", "assay.replay"])
async def test_nothing_live_can_be_emitted(subject: str) -> None:
    with pytest.raises(Bug, match="no replay's subject"):
        await MemoryBus().emit(Message(subject, {}, b"{}"))


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "x" * 65])
def test_a_replay_has_a_name_that_is_one_token(name: str) -> None:
    with pytest.raises(Misconfigured, match="--name"):
        replay_subject(name)


async def test_a_person_sends_history_to_whoever_listens_on_a_real_bus(
    nats: EmbeddedNats, connect_as: ConnectAs
) -> None:
    user, password = nats.credentials("person")
    listener = await nats_client.connect(nats.url, user=user, password=password, inbox_prefix="_INBOX_person")
    heard = await listener.subscribe("assay.replay.r.>")
    await listener.flush()
    log, bus = MemoryLog(), await connect_as("person")
    await log.append(incoming(story("g")))
    await publish_history(History(log, 5), bus, replay_subject("r"), 0, unwatched)
    got = [await heard.next_msg(timeout=30) for _ in range(5)]
    assert [message.subject for message in got] == [
        one.subject.replace("assay.", "assay.replay.r.", 1) for one in story("g")[:5]
    ]
    assert [message.data for message in got] == [one.body for one in story("g")[:5]]
    assert (await bus.state(FACTS_STREAM)).messages == 0
    await listener.close()


# ---- decisions taken again -----------------------------------------------------------------------------------------


@dataclass
class ThinkingWorkers(FakeWorkers):
    """Fake workers around a real proposer."""

    log: Log = field(default_factory=MemoryLog)

    async def serve(self) -> None:
        self._thinker = Thinker(self.log, SPACES)
        await super().serve()

    async def prepared(self, cause: Envelope[Any]) -> None:
        if isinstance(cause.fact, GenerationDue | FinalsDue):
            while (await self.log.head()).position < cause.fact.position:  # noqa: ASYNC110 — the recorder is coming
                await asyncio.sleep(0.01)
            work = Propose(cause.fact) if isinstance(cause.fact, GenerationDue) else Nominate(cause.fact)
            self._answer = Proposer().conclude(cause, work, await self._thinker.perform(work))

    def _propose(self, cause: Envelope[Any], due: GenerationDue) -> Iterator[Draft[Any]]:
        yield from self._answer

    def _nominate(self, cause: Envelope[Any], due: FinalsDue) -> Iterator[Draft[Any]]:
        yield from self._answer

    @staticmethod
    def _number(made: Build) -> int:
        return int(made.kernel.fingerprint[:4], 16)


@pytest.fixture(scope="module")
def searched() -> tuple[Message, ...]:
    """The facts of two goals that a real proposer and a real curator took to their end."""

    async def run() -> tuple[Message, ...]:
        bus, log = MemoryBus(), MemoryLog()
        await (await bus.bucket(PRESENCE_BUCKET)).put("null.host.copy", b"{}")
        workers = ThinkingWorkers(bus, log=log)
        serving = asyncio.create_task(workers.serve())
        async with running(await office_of(bus, log)):
            for goal_id, seed in (("g", 3), ("later", 4)):
                await submit(bus, goal_id, GOAL | {"search": {"generation_size": 8, "seed": seed}})
                await until_completed(log, goal_id)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return tuple([unframe(row.raw) async for row in log.rows()])

    return asyncio.run(run())


async def audited(messages: tuple[Message, ...], goal_id: str | None = None) -> Audited:
    """The audit of a log with these facts, its chain computed anew."""
    log = MemoryLog()
    await log.append(incoming(messages))
    return await audit_decisions(log, SPACES, len(messages), goal_id, unwatched)


async def test_every_decision_of_a_whole_search_follows_from_its_log(searched: tuple[Message, ...]) -> None:
    found = await audited(searched)
    assert found.findings == ()
    assert found.recomputed[CandidateProposed.TYPE] == 32
    assert found.recomputed[FinalistNominated.TYPE] == 4
    assert {"baseline.due.v1", "generation.closed.v1", "race.due.v1", "goal.completed.v1"} <= set(found.recomputed)


def altered(messages: tuple[Message, ...], type_: str, alter: Any) -> tuple[tuple[Message, ...], int]:
    """The facts with the last one of `type_` altered, and its position."""
    index = max(n for n, message in enumerate(messages) if message.headers["ce-type"] == type_)
    body = json.loads(messages[index].body)
    alter(body)
    forged = replace(messages[index], body=json.dumps(body).encode())
    return (*messages[:index], forged, *messages[index + 1 :]), index + 1


async def test_a_proposal_altered_in_a_copied_log_is_named(searched: tuple[Message, ...]) -> None:
    def alter(body: Any) -> None:
        body["kernel"]["source"] += "/* smuggled in */"

    forged, position = altered(searched, CandidateProposed.TYPE, alter)
    found = await audited(forged)
    assert [(one.position, one.type) for one in found.findings] == [(position, CandidateProposed.TYPE)]
    assert "$.kernel.source" in found.findings[0].message


async def test_a_nomination_altered_in_a_copied_log_is_named(searched: tuple[Message, ...]) -> None:
    forged, position = altered(searched, FinalistNominated.TYPE, lambda body: body.update(rank=7))
    found = await audited(forged)
    assert position in {one.position for one in found.findings}
    assert await audited(forged, "g") == await audited(searched, "g"), "the other goal is untouched by it"


async def test_a_proposal_left_out_of_a_copied_log_is_missed(searched: tuple[Message, ...]) -> None:
    index = max(n for n, one in enumerate(searched) if one.headers["ce-type"] == CandidateProposed.TYPE)
    found = await audited((*searched[:index], *searched[index + 1 :]))
    assert any(
        one.type == GenerationOpened.TYPE and "is not recorded before it" in one.message for one in found.findings
    )


async def test_a_stranger_among_the_proposals_is_named(searched: tuple[Message, ...]) -> None:
    index = max(n for n, one in enumerate(searched) if one.headers["ce-type"] == CandidateProposed.TYPE)
    stranger = with_headers(searched[index], ce_id="00000000-0000-4000-8000-0000000000aa")
    found = await audited((*searched[: index + 1], stranger, *searched[index + 1 :]))
    assert (index + 2, CandidateProposed.TYPE) in {(one.position, one.type) for one in found.findings}
