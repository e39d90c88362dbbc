"""Which copy of the librarian leads: the one that holds the advisory lock. The others are spares."""

import asyncio
from contextlib import suppress
from typing import Protocol, TypeAlias

import asyncpg

from schemas.faults import Transient
from services.evidence.postgres_border import translated
from services.evidence.postgres_log import CONNECT_TIMEOUT_S, Role

LEADER_KEY = 0xA55A_1EAD
"""Chosen. Advisory locks are per database, so one server may serve many logs."""
TRY_TO_LEAD = "SELECT pg_try_advisory_lock($1)"
SPARE_POLL_S = 0.5
"""Chosen: how soon a spare takes over. Trying costs one round trip."""
PING_TIMEOUT_S = 5.0
HEARTBEAT_S = 5.0
SILENCE_S = 30.0
"""Chosen: six heartbeats. Until then a frozen leader keeps its spares waiting."""

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
    """The advisory lock, held by a connection of its own: losing the connection is losing the lock.

    A copy that is frozen, or cut off, stops its heartbeat; the server then ends the connection and a spare takes over.
    """

    def __init__(
        self, dsn: str, role: Role | None = None, heartbeat_s: float = HEARTBEAT_S, silence_s: float = SILENCE_S
    ) -> None:
        self._dsn = dsn
        self._role = role
        self._heartbeat_s = heartbeat_s
        self._silence_s = silence_s
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()
        self._heart: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        await self.release()
        with translated("asking for leadership"):
            self._connection = await asyncpg.connect(
                self._dsn,
                user=self._role,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=PING_TIMEOUT_S,
                server_settings={"idle_session_timeout": f"{self._silence_s * 1000:.0f}ms"},
            )
            while not await self._ask(TRY_TO_LEAD, LEADER_KEY):  # noqa: ASYNC110  another process holds it
                await asyncio.sleep(SPARE_POLL_S)
        self._heart = asyncio.create_task(self._beat())

    async def confirm(self) -> None:
        try:
            with translated("confirming leadership"):
                await self._ask("SELECT true")
        except Transient as lost:
            await self.release()
            raise Deposed(f"the connection that held the leader's lock is gone: {lost}") from lost

    async def release(self) -> None:
        """Ending the connection frees the lock, even when the server never hears a goodbye."""
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.gather(self._heart, return_exceptions=True)
            self._heart = None
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _ask(self, question: str, *arguments: int) -> bool:
        async with self._one_at_a_time:
            if self._connection is None:
                raise Deposed("leadership was never acquired, or was released")
            return bool(await self._connection.fetchval(question, *arguments))

    async def _beat(self) -> None:
        """The server hears from this copy while it lives, also during a long fold. Ends when the connection is lost."""
        with suppress(Transient):
            while True:
                await asyncio.sleep(self._heartbeat_s)
                with translated("keeping leadership"):
                    await self._ask("SELECT true")
