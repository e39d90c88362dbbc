"""The views on real Postgres: they follow, survive a crash, and a rebuild gives the very same rows."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from schemas.enums import RatioKind
from schemas.envelope import Envelope, encode
from schemas.events import ChampionCrowned, FinalistProven, GoalCompleted, RaceFinished
from schemas.faults import Transient
from services.evidence.log import Incoming
from services.evidence.postgres_log import PostgresLog
from services.evidence.rows import facts_of as facts_of_rows
from services.evidence.standings import leaderboard
from services.evidence.views import PostgresViews
from services.runtime.bus import PRESENCE_BUCKET
from services.runtime.memory_bus import MemoryBus
from tests.fixtures.postgres import Database
from tests.integration.fake_workers import FakeWorkers
from tests.integration.librarian_office import facts_of, office_of, running, steer, submit, until, until_completed
from tests.pure.floor import Floor, race


@pytest.fixture
async def log(database: Database) -> AsyncIterator[PostgresLog]:
    made = PostgresLog(database.recorder_dsn)
    yield made
    await made.close()


@pytest.fixture
async def views(database: Database) -> AsyncIterator[PostgresViews]:
    made = PostgresViews(database.recorder_dsn)
    yield made
    await made.close()


async def append(log: PostgresLog, floor: Floor) -> None:
    """Everything on the floor is in the log, once."""
    head = await log.head()
    incoming = [
        Incoming(encode(recorded.envelope), "epoch", seq)
        for seq, recorded in enumerate(floor.log, 1)
        if seq > head.stream_seq
    ]
    await log.append(incoming)


async def follow(views: PostgresViews, log: PostgresLog, floor: Floor) -> None:
    """The floor's new facts are recorded and shown, as a librarian does it."""
    head = await log.head()
    new = floor.log[head.position :]
    appended = await log.append([Incoming(encode(recorded.envelope), "epoch", recorded.position) for recorded in new])
    await views.apply(facts_of_rows(appended.rows), appended.head.position)


async def shown(views: PostgresViews) -> tuple[Any, ...]:
    return await views.goals(), await views.candidates()


def played(**changes: Any) -> Floor:
    return Floor().with_route().accept(**changes).play()


async def test_candidates_are_paged_filtered_and_found_by_the_first_digits(
    views: PostgresViews, log: PostgresLog
) -> None:
    await append(log, played())
    await views.start(log)
    everyone = await views.candidates("g")
    assert await views.candidates("g", limit=3, offset=2) == everyone[2:5]
    measured = tuple(row for row in everyone if row["status"] == "measured")
    assert measured
    assert await views.candidates("g", status="measured") == measured
    one = everyone[0]["candidate_id"]
    assert [row["candidate_id"] for row in await views.candidates_named(str(one)[:13], 2)] == [one]
    assert len(await views.candidates_named("", 3)) == 3
    assert await views.goals(offset=1) == ()


async def test_the_views_show_a_goal_as_it_goes(views: PostgresViews, log: PostgresLog) -> None:
    floor = Floor()
    await views.start(log)
    floor.accept()
    await follow(views, log, floor)
    (row,) = await views.goals()
    assert (row["goal_id"], row["phase"], row["proposed"]) == ("g", "waiting", 0)
    floor.with_route()
    floor.choose_baseline()
    first, *_ = floor.propose()
    floor.climb(first)
    await follow(views, log, floor)
    (row,) = await views.goals("g")
    assert (row["phase"], row["generation"], row["proposed"], row["measured"]) == ("searching", 1, 4, 1)
    statuses = [candidate["status"] for candidate in await views.candidates("g")]
    assert sorted(statuses) == ["measured", "proposed", "proposed", "proposed"]
    assert row["rejections"] == {}
    (candidate,) = await views.candidates(candidate_id=first.id)
    assert (candidate["search_ratio"], candidate["verdict"]) == (1.0, "FASTER")


async def test_a_rebuild_gives_the_very_same_rows(views: PostgresViews, log: PostgresLog) -> None:
    await views.start(log)
    floor = Floor()
    for step in (
        lambda: floor.with_route().accept(),
        floor.play,
        lambda: floor.accept("second"),
        floor.choose_baseline,
    ):
        step()
        await follow(views, log, floor)
    before = await shown(views)
    assert len(before[0]) == 2
    assert {row["finals"] for row in before[1]} >= {"champion", "proven", None}
    await views.rebuild(log)
    assert await shown(views) == before
    floor.generation()
    await follow(views, log, floor)
    assert await shown(views) != before, "a rebuilt view goes on following"


async def test_dropped_views_come_back_and_a_restart_goes_on_where_it_was(
    views: PostgresViews, log: PostgresLog, database: Database
) -> None:
    floor = played()
    await append(log, floor)
    await views.start(log)
    whole = await shown(views)
    connection = await asyncpg.connect(database.recorder_dsn)
    await connection.execute("DROP TABLE views.goals, views.candidates, views.checkpoint")
    await connection.close()
    again = PostgresViews(database.recorder_dsn)
    await again.start(log)
    assert await shown(again) == whole
    floor.accept("later")
    floor.choose_baseline()
    floor.propose()
    await append(log, floor)  # recorded, and the librarian died before it was shown
    restarted = PostgresViews(database.recorder_dsn)
    await restarted.start(log)
    assert {row["goal_id"] for row in await restarted.goals()} == {"g", "later"}
    for one in (again, restarted):
        await one.close()


@pytest.mark.parametrize("table", ["goals", "candidates", "checkpoint"])
async def test_one_view_dropped_under_a_working_librarian_is_made_anew(
    views: PostgresViews, log: PostgresLog, database: Database, table: str
) -> None:
    floor = played()
    await views.start(log)
    await follow(views, log, floor)
    whole = await shown(views)
    connection = await asyncpg.connect(database.recorder_dsn)
    await connection.execute(f"DROP TABLE views.{table}")
    await connection.close()
    floor.accept("later")
    floor.choose_baseline()
    floor.propose()
    with pytest.raises(Transient, match="makes missing views anew"):
        await follow(views, log, floor)  # ends the term; the next one begins with:
    await views.start(log)
    goals, candidates = await shown(views)
    assert tuple(row for row in goals if row["goal_id"] == "g") == whole[0]
    assert tuple(row for row in candidates if row["goal_id"] == "g") == whole[1]
    assert {row["goal_id"] for row in candidates} == {"g", "later"}


async def test_views_of_another_version_are_rebuilt(views: PostgresViews, log: PostgresLog, database: Database) -> None:
    await append(log, played())
    await views.start(log)
    connection = await asyncpg.connect(database.recorder_dsn)
    await connection.execute("UPDATE views.checkpoint SET version = 0")
    await connection.execute("DELETE FROM views.candidates")
    await connection.close()
    again = PostgresViews(database.recorder_dsn)
    await again.start(log)
    assert len(await again.candidates()) == 8
    await again.close()


async def test_a_batch_applied_twice_changes_nothing(views: PostgresViews, log: PostgresLog) -> None:
    floor = played()
    await views.start(log)
    await follow(views, log, floor)
    before = await shown(views)
    await views.apply(tuple(floor.log), len(floor.log))
    assert await shown(views) == before


async def test_late_facts_are_shown_nowhere(views: PostgresViews, log: PostgresLog) -> None:
    floor = Floor().with_route().accept()
    floor.choose_baseline()
    first, second, *_ = floor.propose()
    floor.climb(first)
    floor.wait(200)
    floor.climb(second)
    await append(log, floor)
    await views.start(log)
    status = {row["candidate_id"]: row["status"] for row in await views.candidates()}
    assert status[first.id] == "measured"
    assert status[second.id] == "dropped"


async def test_whoever_was_told_of_a_fact_finds_it_in_the_views(
    views: PostgresViews, log: PostgresLog, database: Database
) -> None:
    await views.start(log)
    floor = Floor().with_route().accept()
    await append(log, floor)
    reader = PostgresViews(database.reader_dsn)
    looking = asyncio.create_task(reader.catch_up(timeout_s=60.0))
    await asyncio.sleep(0.1)
    assert not looking.done()
    await views.apply(floor.log, (await log.head()).position)
    await looking
    assert [row["goal_id"] for row in await reader.goals()] == ["g"]
    await reader.close()


async def test_views_that_nobody_keeps_are_read_as_they_are(views: PostgresViews, log: PostgresLog) -> None:
    await views.start(log)
    await append(log, Floor().with_route().accept())
    await views.catch_up(timeout_s=0.05)
    assert await views.goals() == ()


async def test_a_reader_may_look_and_not_touch(views: PostgresViews, log: PostgresLog, database: Database) -> None:
    await append(log, played())
    await views.start(log)
    reader = PostgresViews(database.reader_dsn)
    assert len(await reader.goals()) == 1
    assert len(await reader.leaderboard()) == 2
    await reader.close()
    connection = await asyncpg.connect(database.reader_dsn)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("DELETE FROM views.goals")
    await connection.close()


async def test_the_leaderboard_query_and_its_twin_give_the_same_answer(views: PostgresViews, log: PostgresLog) -> None:
    floor = played()
    floor.accept("second", workload="rms_norm").play()
    await append(log, floor)
    await views.start(log)
    rows = await views.leaderboard()
    twin = await leaderboard(log)
    assert len(rows) == 4
    assert [tuple(row.values()) for row in rows] == [
        tuple(getattr(standing, name) for name in standing.__slots__) for standing in twin
    ]
    assert [row["champion"] for row in rows].count(True) == 2
    assert await views.leaderboard("g") == tuple(row for row in rows if row["goal_id"] == "g")
    assert await views.leaderboard(None, "softmax") == ()


@pytest.mark.parametrize("missing", [FinalistProven, RaceFinished])
async def test_without_proof_or_race_nobody_is_on_the_leaderboard(
    views: PostgresViews, log: PostgresLog, missing: type[Any]
) -> None:
    floor = played()
    floor.log = [r for r in floor.log if not isinstance(r.fact, missing)]
    await append(log, floor)
    await views.start(log)
    assert await views.leaderboard() == ()
    assert await leaderboard(log) == ()


async def test_a_race_that_came_after_the_goals_end_is_not_on_the_leaderboard(
    views: PostgresViews, log: PostgresLog
) -> None:
    floor = played()
    late = [r for r in floor.log if isinstance(r.fact, RaceFinished | ChampionCrowned)]
    floor.log = [r for r in floor.log if r not in late] + late
    assert isinstance(floor.log[-3].fact, GoalCompleted)
    await append(log, floor)
    await views.start(log)
    assert await views.leaderboard() == ()
    assert await leaderboard(log) == ()


async def test_search_numbers_never_reach_the_leaderboard(views: PostgresViews, log: PostgresLog) -> None:
    """A race whose comparisons are search comparisons is no race."""
    floor = played()
    finished = floor.last(RaceFinished)
    entrants = [
        one.model_copy(update={"comparison": one.comparison.model_copy(update={"kind": RatioKind.SEARCH})})
        for one in finished.fact.race.entrants
    ]
    forged = finished.fact.model_copy(update={"race": race(*entrants)})
    envelope = Envelope(finished.id, forged, "assay/test/1", datetime.now(UTC), finished.envelope.causation_id)
    floor.log[finished.position - 1] = type(finished)(finished.position, envelope, finished.recorded_at)
    await append(log, floor)
    await views.start(log)
    assert await views.leaderboard() == ()
    assert await leaderboard(log) == ()


async def test_the_librarian_keeps_the_views_while_it_works(
    views: PostgresViews, log: PostgresLog, database: Database
) -> None:
    bus = MemoryBus()
    await (await bus.bucket(PRESENCE_BUCKET)).put("null.host.copy", b"{}")
    workers = asyncio.create_task(FakeWorkers(bus).serve())
    async with running(await office_of(bus, log, views)):
        await submit(bus, "a")
        await submit(bus, "b")
        await until_completed(log, "a", "b")
        await submit(bus, "c")
        await steer(bus, "c", "cancel")
        await until_completed(log, "c")

        async def viewed() -> bool:
            return len([row for row in await views.goals() if row["phase"] == "completed"]) == 3

        await until(viewed)
    workers.cancel()
    before = await shown(views)
    await views.rebuild(log)
    assert await shown(views) == before
    assert len(await facts_of(log, None, GoalCompleted)) == 3
    assert [row["outcome"] for row in await views.goals("a")] == ["champion"]
