"""Which workers on other machines may join: a name, a service and a public key for each, beside the server's files."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from schemas.faults import Misconfigured
from schemas.ids import Token, is_token
from services.runtime.credentials import WorkerCredentials, fresh_credentials
from services.runtime.routes import ROUTED

REGISTER_FILE = "workers.json"
JOINABLE = ROUTED
"""Librarian and proposer read Postgres, which stays on the factory's own machine."""


@dataclass(frozen=True)
class Admitted:
    """One worker that may join."""

    name: Token
    service: Token
    key: str
    since: str
    """When it was admitted, ISO 8601."""


def admitted(home: Path) -> tuple[Admitted, ...]:
    """Everyone in the register. Raises Misconfigured when it is damaged."""
    path = home / REGISTER_FILE
    if not path.exists():
        return ()
    try:
        return tuple(Admitted(**row) for row in json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise Misconfigured(
            f"{path} is damaged: {error}; restore it, or remove it and admit the workers anew"
        ) from None


def admit(home: Path, service: str, name: str, now: datetime) -> WorkerCredentials:
    """`name` may join as `service`; its credentials, of which only the public half is kept. Raises Misconfigured."""
    if service not in JOINABLE:
        raise Misconfigured(f"a worker joins as one of {', '.join(JOINABLE)}; not as {service!r}")
    if not is_token(name):
        raise Misconfigured(f"{name!r}: a worker's name has letters, digits, - and _, at most 64 of them")
    with _locked(home):
        known = admitted(home)
        if any(worker.name == name for worker in known):
            raise Misconfigured(f"a worker {name!r} is admitted already; `assay credentials revoke {name}` ends that")
        credentials = fresh_credentials(service, name)
        _write(home, (*known, Admitted(name, service, credentials.key, now.isoformat(timespec="seconds"))))
    return credentials


def revoke(home: Path, name: str) -> Admitted:
    """`name` may no longer join. Raises Misconfigured when nobody is called that."""
    with _locked(home):
        known = admitted(home)
        found = next((worker for worker in known if worker.name == name), None)
        if found is None:
            names = ", ".join(worker.name for worker in known) or "nobody"
            raise Misconfigured(f"no worker is called {name!r}; admitted are: {names}")
        _write(home, tuple(worker for worker in known if worker.name != name))
    return found


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Nobody else changes the register meanwhile."""
    with (home / f"{REGISTER_FILE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(home: Path, workers: tuple[Admitted, ...]) -> None:
    fresh = home / f"{REGISTER_FILE}.new"
    fresh.write_text(json.dumps([asdict(worker) for worker in workers], indent=2), encoding="utf-8")
    fresh.replace(home / REGISTER_FILE)
