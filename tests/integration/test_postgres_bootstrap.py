"""The bootstrap job: idempotent, safe to run twice at once, and it refuses what a newer Assay wrote."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from infra.bootstrap.postgres import RECORDER_ROLE, bootstrap_postgres, migrations
from infra.embedded.postgres import EmbeddedPostgres
from schemas.faults import Misconfigured, NotAllowed, Transient
from services.evidence.postgres_log import SCHEMA_VERSION, PostgresLog, connect_log
from services.evidence.verify import Trust, verify
from tests.fixtures.facts import incoming, story
from tests.fixtures.postgres import Database
from tests.fixtures.signed import TRUSTED, older_story, signed_story


def test_the_code_knows_the_newest_schema() -> None:
    assert [step.version for step in migrations()] == list(range(1, SCHEMA_VERSION + 1))


async def test_running_it_again_keeps_what_is_recorded(
    postgres_server: EmbeddedPostgres, database: Database, postgres_log: PostgresLog
) -> None:
    appended = await postgres_log.append(incoming(story("g1")))
    assert await bootstrap_postgres(postgres_server.dsn(), database.name) == SCHEMA_VERSION
    assert await postgres_log.head() == appended.head


async def test_two_jobs_at_once_take_turns(postgres_server: EmbeddedPostgres) -> None:
    both = (bootstrap_postgres(postgres_server.dsn(), "assay_twice") for _ in range(2))
    assert await asyncio.gather(*both) == [SCHEMA_VERSION, SCHEMA_VERSION]
    await (await connect_log(postgres_server.dsn(database="assay_twice"))).close()


async def test_each_database_has_an_origin_of_its_own(postgres_server: EmbeddedPostgres) -> None:
    origins = set()
    for name in ("assay_here", "assay_there"):
        await bootstrap_postgres(postgres_server.dsn(), name)
        connection = await asyncpg.connect(postgres_server.dsn(database=name))
        origins.add(await connection.fetchval("SELECT origin FROM head"))
        await connection.close()
    assert len(origins) == 2


async def test_a_log_that_the_first_version_wrote_is_moved_forward_and_verifies(
    postgres_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written through schema 1, by an Assay that knew neither keys nor imports."""
    first = migrations()[:1]
    monkeypatch.setattr("infra.bootstrap.postgres.migrations", lambda: first)
    assert await bootstrap_postgres(postgres_server.dsn(), "assay_old") == 1
    monkeypatch.undo()
    older = PostgresLog(postgres_server.dsn(RECORDER_ROLE, "assay_old"))
    earlier = older_story("g1")
    recorded = await older.append(incoming(earlier))
    await older.close()
    with pytest.raises(Misconfigured, match="run the bootstrap job"):
        await connect_log(postgres_server.dsn(RECORDER_ROLE, "assay_old"))

    assert await bootstrap_postgres(postgres_server.dsn(), "assay_old") == SCHEMA_VERSION
    log = await connect_log(postgres_server.dsn(RECORDER_ROLE, "assay_old"))
    assert await log.head() == recorded.head
    await log.append(incoming(signed_story("g2"), first_seq=len(earlier) + 1))
    found = await verify(log, trust=Trust(TRUSTED))
    await log.close()
    assert found.first_break is None
    assert (found.unsigned, found.signed) == (len(earlier), len(signed_story("g2")))


async def test_a_database_from_a_newer_assay_is_refused_and_untouched(
    postgres_server: EmbeddedPostgres, database: Database
) -> None:
    await database.sabotage("INSERT INTO schema_version VALUES (99)")
    with pytest.raises(Misconfigured, match="newer Assay"):
        await bootstrap_postgres(postgres_server.dsn(), database.name)


async def test_a_password_is_set_whatever_signs_it_holds(postgres_server: EmbeddedPostgres) -> None:
    await bootstrap_postgres(postgres_server.dsn(), "assay_words", {RECORDER_ROLE: 'it\'s "%s" \\ $1'})
    connection = await asyncpg.connect(postgres_server.dsn())
    stored = await connection.fetchval("SELECT rolpassword FROM pg_authid WHERE rolname = $1", RECORDER_ROLE)
    await connection.close()
    assert stored.startswith("SCRAM-SHA-256$")


async def test_an_ordinary_role_may_not_bootstrap(postgres_server: EmbeddedPostgres, database: Database) -> None:
    with pytest.raises(NotAllowed):
        await bootstrap_postgres(database.reader_dsn, "assay_mine")


async def test_an_administrator_without_superuser_can_bootstrap(postgres_server: EmbeddedPostgres) -> None:
    """As on a managed Postgres. The roles exist already here, so they are granted first."""
    connection = await asyncpg.connect(postgres_server.dsn())
    await bootstrap_postgres(postgres_server.dsn(), "assay_first")
    await connection.execute(
        "CREATE ROLE cloud_admin LOGIN CREATEDB CREATEROLE;"
        "GRANT assay_owner, assay_recorder, assay_reader TO cloud_admin WITH ADMIN OPTION"
    )
    await connection.close()
    dsn = postgres_server.dsn("cloud_admin", "postgres")
    assert await bootstrap_postgres(dsn, "assay_managed") == SCHEMA_VERSION
    log = await connect_log(postgres_server.dsn(RECORDER_ROLE, "assay_managed"))
    assert (await log.append(incoming(story("g1")))).head.position == len(story("g1"))
    await log.close()


async def test_a_server_that_is_away_is_transient(tmp_path: Path) -> None:
    with pytest.raises(Transient):
        await bootstrap_postgres(f"postgresql:///postgres?user=postgres&host={tmp_path}")
