"""A real nats-server from a wheel: one data folder, durable, with one user per service, on loopback unless told."""

import asyncio
import errno
import json
import secrets
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from infra.bootstrap.nats_server import Server, server_binary, write_private, write_server_config
from infra.bootstrap.nats_users import ADMIN, USERS
from infra.embedded.tether import tethered
from schemas.faults import Misconfigured
from services.runtime.address import LOOPBACK, Address

HERE = Address(LOOPBACK)
"""This machine only."""
READY_TIMEOUT_S = 30.0
"""Chosen: a million facts take 1.4 s to recover (event-backbone.md), on a disk that does not stall."""
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
PORT_ATTEMPTS = 3
PORT_TAKEN = "address already in use"
"""nats-server's own words, which are Go's."""


class EmbeddedNats:
    """One nats-server on `<data_dir>/nats`. A restart keeps its port, users and streams.

    Start it from the main thread of the process that shall own it: it ends when that process does.
    """

    def __init__(self, data_dir: Path, max_store_bytes: int = 32 * 1024**3, listen: Address = HERE) -> None:
        self._home = data_dir / "nats"
        self._max_store_bytes = max_store_bytes
        self._listen = listen
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._passwords: dict[str, str] = {}

    @property
    def url(self) -> str:
        """Where this machine reaches it, once started: `nats://127.0.0.1:<port>` unless it listens elsewhere."""
        return self._listen.url(self._port)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def log_path(self) -> Path:
        return self._home / "server.log"

    def credentials(self, user: str) -> tuple[str, str]:
        """User name and password of `admin`, `person`, or a service."""
        return user, self._passwords[user]

    def environment(self, user: str) -> dict[str, str]:
        """The `ASSAY_*` variables that connect a process as `user`."""
        return {"ASSAY_NATS_URL": self.url, "ASSAY_NATS_USER": user, "ASSAY_NATS_PASSWORD": self._passwords[user]}

    async def start(self) -> None:
        """The server accepts connections and JetStream is ready. Raises Misconfigured, with its log, when it is not."""
        if self._process is not None:
            return
        self._prepare()
        await (self._launch(self._port) if self._port else self._launch_first())
        write_private(self._home / "port", str(self._port))

    def kill(self) -> None:
        """The server is gone as by kill -9: nothing was flushed, nobody was told."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    async def stop(self) -> None:
        """The server has ended in good order."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def alive(self) -> bool:
        """The server's process runs."""
        return self._process is not None and self._process.poll() is None

    def _prepare(self) -> None:
        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._passwords = _passwords(self._home / "passwords.json")
        except OSError as error:
            raise Misconfigured(f"{self._home}: {error.strerror}; choose a writable folder with ASSAY_DATA") from error

    def _choose_port(self) -> int:
        """The port asked for, else the one of the last time, else a free one. Raises Misconfigured."""
        asked = self._listen.port
        wanted = asked or self._remembered_port()
        if wanted and self._is_free(wanted):
            return wanted
        if asked:
            raise Misconfigured(f"port {asked} at {self._listen.host} is taken; choose another with --listen HOST:PORT")
        return self._free_port()

    def _is_free(self, port: int) -> bool:
        try:
            _bound(self._listen.host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise self._cannot_listen(error) from error
        return True

    def _free_port(self) -> int:
        try:
            return _bound(self._listen.host, 0)
        except OSError as error:
            raise self._cannot_listen(error) from error

    def _cannot_listen(self, error: OSError) -> Misconfigured:
        return Misconfigured(
            f"cannot listen at {self._listen.host}: {error.strerror}; give --listen an address of this machine"
        )

    async def _launch_first(self) -> None:
        """A port that was free may be taken before the server binds it. Nobody knows it yet, so another will do."""
        for attempt in range(PORT_ATTEMPTS):
            try:
                await self._launch(self._choose_port())
                break
            except Misconfigured as refused:
                self._port = 0
                if PORT_TAKEN not in str(refused) or attempt + 1 == PORT_ATTEMPTS:
                    raise

    async def _launch(self, port: int) -> None:
        self._port = port
        server = Server(self._home, replace(self._listen, port=port), self._max_store_bytes)
        config = write_server_config(server, self._passwords)
        self._process = _spawned([server_binary(), "-c", str(config)], self.log_path)
        await self._ready()

    async def _ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self.alive():
            if _greets(self._listen.reached_at, self._port):
                return
            await asyncio.sleep(POLL_S)
        alive = self.alive()
        self.kill()
        state = f"was not ready after {READY_TIMEOUT_S:.0f} s" if alive else "ended"
        raise Misconfigured(f"nats-server on port {self._port} {state}: {_last_line(self.log_path)}")

    def _remembered_port(self) -> int:
        path = self._home / "port"
        text = path.read_text().strip() if path.exists() else ""
        return int(text) if text.isdigit() else 0


def admin_credentials(data_dir: Path) -> tuple[str, str]:
    """User name and password of the admin of the embedded server in `data_dir`. Raises Misconfigured, unless the caller
    may read them: they belong to the folder's owner."""
    path = data_dir / "nats" / "passwords.json"
    try:
        return ADMIN, json.loads(path.read_text(encoding="utf-8"))[ADMIN]
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}; only the owner of the data folder may do this") from error
    except (ValueError, KeyError) as error:
        raise Misconfigured(f"{path} is damaged: it holds no password of {ADMIN}") from error


def _spawned(command: list[str], log_path: Path) -> subprocess.Popen[bytes]:
    with log_path.open("ab") as log:
        return subprocess.Popen(
            tethered(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _passwords(path: Path) -> dict[str, str]:
    """One per user, random, kept for the life of the data folder; a user new in this version gets one."""
    kept: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    complete = {user: kept.get(user) or secrets.token_urlsafe(24) for user in USERS}
    if complete != kept:
        write_private(path, json.dumps(complete, indent=2))
    return complete


def _bound(host: str, port: int) -> int:
    """The port that a server may bind now: `port`, or any free one for 0. Raises OSError."""
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        if port:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(place)
        found: int = probe.getsockname()[1]
        return found


def _greets(host: str, port: int) -> bool:
    """A NATS server sends INFO as soon as it accepts connections, which is after JetStream has recovered."""
    try:
        with socket.create_connection((host, port), timeout=1.0) as connection:
            return b'"jetstream":true' in connection.recv(4096)
    except OSError:
        return False


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    fatal = [line for line in lines if "[FTL]" in line or "nats-server:" in line]
    return (fatal or lines or ["no log"])[-1]
