"""Starting and stopping the embedded factory from another process."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from infra.embedded.tether import tethered
from schemas.faults import Fault, Misconfigured, Transient
from services.console.endpoints import STATE_FILE, SUPERVISOR_LOG, alive, find
from services.console.supervisor import COPIES_FLAG
from services.runtime.settings import PREFIX, Settings, environment_of

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.05


class FactoryFailed(Fault):
    """The supervisor ended while it was starting. The message is its own."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status  # the supervisor's own


@dataclass(frozen=True)
class Started:
    """A supervisor that serves."""

    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """The factory and everything that it started are gone."""
        stop_process(self.process.pid, self.process)


def start_factory(settings: Settings, copies: dict[str, int], *, tied: bool) -> Started:
    """A factory serves the data folder. `tied`: it ends with this process. Raises Fault with the supervisor's words."""
    log = settings.data_dir / SUPERVISOR_LOG
    _require_folder(settings.data_dir)
    command = [sys.executable, "-m", "services.console.supervisor"]
    command += [f"{COPIES_FLAG}{service}={count}" for service, count in copies.items()]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            tethered(command, signal.SIGTERM) if tied else command,
            env=environment | environment_of(settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        _await_start(process, settings, log)
    except BaseException:  # Ctrl-C included: nothing half-started is left
        stop_process(process.pid, process)
        raise
    return Started(process)


def _await_start(process: subprocess.Popen[bytes], settings: Settings, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _serves(process.pid, settings):
        if (status := process.poll()) is not None:
            said = log.read_text(errors="replace").strip().removeprefix("assay: ")
            raise FactoryFailed(said[-4000:] or f"the supervisor ended with status {status}", abs(status) or 1)
        if time.monotonic() > deadline:
            raise Transient(f"the factory did not start within {START_TIMEOUT_S:.0f} s; see {log}")
        time.sleep(POLL_S)


def _serves(pid: int, settings: Settings) -> bool:
    if not (settings.run_dir / STATE_FILE).exists():
        return False
    try:
        return find(settings).pid == pid
    except Transient:
        return False


def _require_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SUPERVISOR_LOG).touch()
    except OSError as error:
        raise Misconfigured(
            f"cannot write to the data folder {folder} ({error.strerror}); set ASSAY_DATA to a folder of yours"
        ) from error


def running_pid(settings: Settings) -> int | None:
    """The supervisor's pid, or None when no factory runs in this data folder."""
    try:
        return find(settings).pid
    except Transient:
        return None


def stop_process(pid: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """The supervisor `pid` has ended. Raises Transient when it does not within its time."""
    if process is None or process.poll() is None:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while (process.poll() is None) if process else alive(pid):
        if time.monotonic() > deadline:
            raise Transient(f"the factory (pid {pid}) did not stop within {STOP_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)
