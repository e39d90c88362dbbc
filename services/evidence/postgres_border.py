"""Where asyncpg's exceptions become Assay's faults. Nothing of asyncpg is raised past here."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from schemas.faults import Misconfigured, NotAllowed, Transient


class Unstorable(Exception):
    """Postgres, or asyncpg on the way there, refuses a value in these rows. Never leaves the log."""


_BAD_VALUES = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)
"""Classes 22 and 54: the values are at fault, not the connection."""
_AWAY = (
    asyncpg.PostgresConnectionError,  # class 08
    asyncpg.OperatorInterventionError,  # class 57: shut down, crashed, starting up
    asyncpg.InsufficientResourcesError,  # class 53: disk full, out of memory, too many connections
    asyncpg.TransactionRollbackError,  # class 40: serialization, deadlock
    asyncpg.InterfaceError,  # the connection was closed under us
    asyncpg.InternalClientError,  # the server said goodbye between two statements: "operation (2) is in progress"
    OSError,  # refused, reset, no such socket; TimeoutError is one too
)
_SETUP = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.ClientConfigurationError,
)
_REFUSED = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InsufficientPrivilegeError,
)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Inside, faults are Assay's: Transient when Postgres is away, Misconfigured or NotAllowed when it will stay so."""
    try:
        yield
    except _REFUSED as error:
        raise NotAllowed(f"Postgres does not permit {doing}: {error}") from error
    except _SETUP as error:
        raise Misconfigured(f"{doing}: {error}; run the bootstrap job first (assay up does)") from error
    except _AWAY as error:
        raise Transient(f"Postgres is away while {doing}: {error or type(error).__name__}") from error


@contextmanager
def storing() -> Iterator[None]:
    """Inside, a value that cannot be stored raises Unstorable."""
    try:
        yield
    except _BAD_VALUES as error:
        raise Unstorable(str(error)) from error
    except asyncpg.InterfaceError as error:
        if isinstance(error, ValueError):  # asyncpg could not encode an argument
            raise Unstorable(str(error)) from error
        raise
