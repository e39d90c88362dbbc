"""Which copy of the librarian leads: the one that holds the advisory lock. The others are spares."""

import asyncio
from typing import Protocol, TypeAlias

import asyncpg

from schemas.faults import Transient
from services.evidence.postgres_border import translated
from services.evidence.postgres_log import CONNECT_TIMEOUT_S, Role

LEADER_KEY = 0xA55A_1EAD
"""Chosen. Advisory locks are per database, so one server may serve many logs."""
SPARE_POLL_S = 0.5
"""Chosen: how soon a spare takes over. Trying costs one round trip."""
PING_TIMEOUT_S = 5.0

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Deposed(Transient):
    """This copy leads no longer: stop deciding, forget what was folded, wait as a spare."""


class Leadership(Protocol):
    async def acquire(self) -> None:
        """This copy leads. Waits, as a spare, for as long as another one does. Raises Transient when nobody can say."""
        ...

    async def confirm(self) -> None:
        """This copy still leads. Raises Deposed when it does not."""
        ...

    async def release(self) -> None:
        """A spare may take over."""
        ...


class Alone:
    """Leadership where there is only one copy: tests, notebooks."""

    async def acquire(self) -> None: ...
    async def confirm(self) -> None: ...
    async def release(self) -> None: ...


class PostgresLeadership:
    """The advisory lock, held by a connection of its own: losing the connection is losing the lock."""

    def __init__(self, dsn: str, role: Role | None = None) -> None:
        self._dsn = dsn
        self._role = role
        self._connection: Connection | None = None

    async def acquire(self) -> None:
        with translated("asking for leadership"):
            await self.release()
            self._connection = await asyncpg.connect(
                self._dsn, user=self._role, timeout=CONNECT_TIMEOUT_S, command_timeout=PING_TIMEOUT_S
            )
            while not await self._try():  # noqa: ASYNC110  another process holds it: no event to wait for
                await asyncio.sleep(SPARE_POLL_S)

    async def _try(self) -> bool:
        assert self._connection is not None
        return bool(await self._connection.fetchval("SELECT pg_try_advisory_lock($1)", LEADER_KEY))

    async def confirm(self) -> None:
        try:
            with translated("confirming leadership"):
                if self._connection is None:
                    raise Deposed("leadership was never acquired, or was released")
                await self._connection.execute("SELECT 1")
        except Transient as lost:
            await self.release()
            raise Deposed(f"the connection that held the leader's lock is gone: {lost}") from lost

    async def release(self) -> None:
        """Ending the connection frees the lock, even when the server never hears a goodbye."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
