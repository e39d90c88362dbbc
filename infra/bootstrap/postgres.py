"""The one job that administers Postgres: roles, database, schema. Idempotent; every mode runs it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import TypeAlias

import asyncpg

from schemas.faults import Misconfigured, NotAllowed, Transient

DATABASE = "assay"
RECORDER_ROLE = "assay_recorder"
READER_ROLE = "assay_reader"
LOCK_KEY = 0xA55A_B007
"""Chosen: two bootstrap jobs started together take turns."""

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@dataclass(frozen=True)
class Migration:
    """One step of the schema, from `infra/sql/NNN_name.sql`. Never edited once released: add the next number."""

    version: int
    name: str
    sql: str


async def bootstrap_postgres(
    admin_dsn: str, database: str = DATABASE, passwords: Mapping[str, str] = MappingProxyType({})
) -> int:
    """Roles, `database` and its schema exist at the version returned.

    `passwords` by role, where the server asks for them (the embedded one trusts its private socket folder). Raises
    Misconfigured when the database was written by a newer Assay, NotAllowed when the credentials are not enough,
    Transient when the server is away.
    """
    async with _connected(admin_dsn) as admin:
        await admin.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
        await admin.execute(_read_sql("roles.sql"))
        for role, password in passwords.items():
            await _set_password(admin, role, password)
        await _create_database(admin, database)
        async with _connected(admin_dsn, database) as connection:
            return await _migrate(connection, database)


def migrations() -> tuple[Migration, ...]:
    """Every step of the schema, in order."""
    names = sorted(entry.name for entry in files("infra.sql").iterdir() if entry.name[:3].isdigit())
    return tuple(Migration(int(name[:3]), name, _read_sql(name)) for name in names)


@asynccontextmanager
async def _connected(dsn: str, database: str | None = None) -> AsyncIterator[Connection]:
    """A connection whose faults are Assay's. Administration happens once, so a lost connection is simply reported."""
    try:
        connection = await asyncpg.connect(dsn, database=database, timeout=10.0)
        try:
            yield connection
        finally:
            await connection.close()
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        raise NotAllowed(f"Postgres refuses these credentials: {error}") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotAllowed(f"the administrator's role is not enough to set up the log: {error}") from error
    except (OSError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError) as error:
        raise Transient(f"Postgres is away: {error or type(error).__name__}") from error


async def _set_password(admin: Connection, role: str, password: str) -> None:
    """ALTER ROLE takes no parameters: the server itself quotes them."""
    await admin.execute(
        await admin.fetchval("SELECT format('ALTER ROLE %I PASSWORD %L', $1::text, $2::text)", role, password)
    )


async def _create_database(admin: Connection, database: str) -> None:
    if not await admin.fetchval("SELECT true FROM pg_database WHERE datname = $1", database):
        await admin.execute(await admin.fetchval("SELECT format('CREATE DATABASE %I', $1::text)", database))
    for template in (
        "REVOKE ALL ON DATABASE %I FROM PUBLIC",
        f"GRANT CONNECT ON DATABASE %I TO {RECORDER_ROLE}, {READER_ROLE}",
    ):
        await admin.execute(await admin.fetchval("SELECT format($1::text, $2::text)", template, database))


async def _migrate(connection: Connection, database: str) -> int:
    steps = migrations()
    async with connection.transaction():
        await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
        current: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_version")
        if current > steps[-1].version:
            raise Misconfigured(
                f"database {database} has schema version {current}, written by a newer Assay; "
                f"this one knows {steps[-1].version}: upgrade Assay, or choose another data folder"
            )
        for step in steps:
            if step.version > current:
                await connection.execute(step.sql)
                await connection.execute("INSERT INTO schema_version VALUES ($1)", step.version)
    return steps[-1].version


def _read_sql(name: str) -> str:
    return (files("infra.sql") / name).read_text()
