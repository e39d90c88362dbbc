"""The log in a real Postgres: crashes, roles, refusals, and what becomes of each fault."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from infra.embedded.postgres import EmbeddedPostgres
from schemas.faults import Misconfigured, NotAllowed, Transient
from services.evidence import rows
from services.evidence.log import Incoming
from services.evidence.postgres_log import SLICE_ROWS, PostgresLog, Role, connect_log
from services.evidence.verify import verify
from tests.fixtures.facts import BEGIN, incoming, story, with_body
from tests.fixtures.postgres import Database, fresh_database

BATCH = 60


async def append_all(log: PostgresLog, everything: Sequence[Incoming]) -> None:
    """As the recorder does: from the head on, again and again until all of it is recorded."""
    while (done := await seq_when_back(log)) < len(everything):
        try:
            await log.append(everything[done : done + BATCH])
        except Transient:
            continue


async def seq_when_back(log: PostgresLog) -> int:
    for _ in range(2000):
        try:
            return (await log.head()).stream_seq
        except Transient:
            await asyncio.sleep(0.01)
    raise AssertionError("Postgres never came back")


async def stored_seqs(log: PostgresLog) -> list[int]:
    return [row.stream_seq async for row in log.rows()]


async def test_a_server_killed_inside_an_append_loses_and_repeats_nothing(own_postgres: EmbeddedPostgres) -> None:
    database = await fresh_database(own_postgres)
    everything = incoming(story("g1", candidates=60))
    looks = iter(range(100))

    def killing_clock() -> datetime:
        if next(looks) == 1:  # the second append holds the head's lock now
            own_postgres.kill()
        return BEGIN

    log = PostgresLog(database.recorder_dsn, clock=killing_clock)
    await log.append(everything[:BATCH])
    with pytest.raises(Transient):
        await log.append(everything[BATCH : 2 * BATCH])
    own_postgres.start()
    assert await seq_when_back(log) == BATCH
    await append_all(log, everything)
    assert await stored_seqs(log) == [one.stream_seq for one in everything]
    assert (await verify(log)).holds
    await log.close()


@pytest.mark.slow
async def test_a_server_killed_at_any_moment_under_load_loses_and_repeats_nothing(
    own_postgres: EmbeddedPostgres,
) -> None:
    database = await fresh_database(own_postgres)
    everything = incoming(story("g1", candidates=500))
    log = PostgresLog(database.recorder_dsn)
    appending = asyncio.create_task(append_all(log, everything))
    for pause_s in (0.05, 0.021, 0.033):
        await asyncio.sleep(pause_s)
        own_postgres.kill()
        own_postgres.start()
    await appending
    assert await stored_seqs(log) == [one.stream_seq for one in everything]
    assert (await verify(log)).holds
    again = await log.append(everything)
    assert (again.rows, again.duplicates) == ((), ())
    await log.close()


async def test_an_append_that_is_cancelled_leaves_the_log_whole(postgres_log: PostgresLog) -> None:
    everything = incoming(story("g1", candidates=200))
    appending = asyncio.create_task(postgres_log.append(everything))
    while not appending.done():
        await asyncio.sleep(0.002)
        appending.cancel()
    assert (await verify(postgres_log)).holds
    await append_all(postgres_log, everything)
    assert await stored_seqs(postgres_log) == [one.stream_seq for one in everything]


async def test_two_recorders_at_once_still_write_one_gapless_log(database: Database) -> None:
    everything = incoming(story("g1", candidates=100))
    logs = [PostgresLog(database.recorder_dsn) for _ in range(2)]
    await asyncio.gather(*(append_all(log, everything) for log in logs))
    assert await stored_seqs(logs[0]) == [one.stream_seq for one in everything]
    assert (await verify(logs[0])).holds
    for log in logs:
        await log.close()


@pytest.mark.parametrize("at", [0, 3, SLICE_ROWS - 1, SLICE_ROWS, SLICE_ROWS + 3])
@pytest.mark.parametrize("body", [b'{"a":"\\u0000"}', b'{"a":"\\ud800"}'], ids=["server", "server or client"])
async def test_a_row_that_only_postgres_refuses_is_retried_alone_and_kept_blank(
    postgres_log: PostgresLog, monkeypatch: pytest.MonkeyPatch, at: int, body: bytes
) -> None:
    """Our own rules foresee what jsonb refuses. With them switched off, Postgres itself must be survived."""
    monkeypatch.setattr(rows, "_refuse_unstorable", lambda value: None)
    messages = list(story("g1", candidates=30))
    messages[at] = with_body(messages[at], body)
    appended = await postgres_log.append(incoming(messages))
    assert [row.position for row in appended.rows if row.event_id is None] == [at + 1]
    assert appended.rows == tuple([row async for row in postgres_log.rows()]) or appended.rows[at].data is None
    assert len(await stored_seqs(postgres_log)) == len(messages)
    judged = await verify(postgres_log)
    assert judged.unparseable == 1
    assert judged.first_break is None or judged.first_break.kind == "cause"  # the lost row may have been a cause


@pytest.mark.parametrize("table", ["events", "duplicates"])
@pytest.mark.parametrize("change", ["UPDATE {} SET event_id = NULL", "DELETE FROM {}", "TRUNCATE {}"])
async def test_the_recorder_may_not_change_what_is_recorded(
    database: Database, postgres_log: PostgresLog, table: str, change: str
) -> None:
    messages = story("g1")
    await postgres_log.append(incoming([*messages, messages[0]]))
    connection = await asyncpg.connect(database.recorder_dsn)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
        await connection.execute(change.format(table))
    await connection.close()


@pytest.mark.parametrize("table", ["events", "duplicates", "head"])
@pytest.mark.parametrize("change", ["UPDATE {} SET stream_seq = 0, {}", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("who", ["assay_owner", "postgres"])
async def test_triggers_refuse_even_the_owner_and_the_superuser(
    database: Database, postgres_log: PostgresLog, table: str, change: str, who: str
) -> None:
    messages = story("g1")
    await postgres_log.append(incoming([*messages, messages[0]]))
    statement = change.format(table, "position = 0" if table != "duplicates" else "kind = 'divergent'")
    connection = await asyncpg.connect(database.admin_dsn)
    await connection.execute(f"SET ROLE {who}")
    if who == "postgres":
        await connection.execute("SET session_replication_role = replica")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match=r"append-only|only advances"):
        await connection.execute(statement)
    await connection.close()
    assert (await verify(postgres_log)).holds


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO events SELECT * FROM events",
        "UPDATE head SET position = position + 1",
        "INSERT INTO duplicates SELECT * FROM duplicates",
        "CREATE TABLE public.mine (a int)",
        "CREATE TABLE views.mine (a int)",
    ],
)
async def test_the_reader_may_only_read(database: Database, change: str) -> None:
    connection = await asyncpg.connect(database.reader_dsn)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(change)
    await connection.close()


async def test_the_recorder_owns_the_views_and_the_reader_sees_them(database: Database) -> None:
    recorder = await asyncpg.connect(database.recorder_dsn)
    await recorder.execute("CREATE TABLE views.leaderboard AS SELECT 1 AS place")
    reader = await asyncpg.connect(database.reader_dsn)
    assert await reader.fetchval("SELECT place FROM views.leaderboard") == 1
    await recorder.execute("DROP TABLE views.leaderboard")
    await recorder.close()
    await reader.close()


async def test_appending_as_the_reader_is_not_allowed(database: Database) -> None:
    log = PostgresLog(database.reader_dsn)
    with pytest.raises(NotAllowed):
        await log.append(incoming(story("g1")))
    await log.close()


async def test_a_role_replaces_the_user_of_the_dsn(database: Database) -> None:
    log = await connect_log(database.admin_dsn, Role.READER)
    with pytest.raises(NotAllowed):
        await log.append(incoming(story("g1")))
    await log.close()


async def test_a_database_without_schema_is_misconfigured(postgres_server: EmbeddedPostgres) -> None:
    with pytest.raises(Misconfigured, match="bootstrap"):
        await connect_log(postgres_server.dsn())
    with pytest.raises(Misconfigured, match="bootstrap"):
        await connect_log(postgres_server.dsn(database="nowhere"))


@pytest.mark.parametrize(("version", "advice"), [(99, "upgrade Assay"), (0, "bootstrap")])
async def test_a_log_of_another_schema_version_is_refused(database: Database, version: int, advice: str) -> None:
    await database.sabotage(f"UPDATE schema_version SET version = {version}")
    with pytest.raises(Misconfigured, match=advice):
        await connect_log(database.reader_dsn)


async def test_a_server_that_is_away_is_transient(tmp_path: Path) -> None:
    log = PostgresLog(f"postgresql:///assay?user=assay_reader&host={tmp_path}")
    with pytest.raises(Transient):
        await log.head()
    with pytest.raises(Transient):
        await log.append(incoming(story("g1")))
    await log.close()


async def test_reading_goes_on_after_a_restart(own_postgres: EmbeddedPostgres) -> None:
    database = await fresh_database(own_postgres)
    log = PostgresLog(database.recorder_dsn)
    await log.append(incoming(story("g1")))
    own_postgres.kill()
    with pytest.raises(Transient):
        await log.head()
    own_postgres.start()
    assert await seq_when_back(log) == len(story("g1"))
    await log.close()


async def test_times_are_read_back_in_utc_to_the_microsecond(postgres_log: PostgresLog) -> None:
    await postgres_log.append(incoming(story("g1")))
    async for row in postgres_log.rows():
        assert row.recorded_at.tzinfo is UTC
        assert row.occurred_at is not None
        assert (row.occurred_at - BEGIN).seconds == 0
