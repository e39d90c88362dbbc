"""Who may use a device together: work shares it, a measurement has it alone (architecture.md, The runner and quiet).

Two files per device. Everyone takes `gate` exclusively, then `quiet` (shared or exclusive), then drops `gate`: a
waiting measurement holds the gate, so later sharers queue behind it and nobody starves. The locks are flock(2) on open
file descriptions, so a child that inherits `descriptor` holds them too, and they vanish with the last holder.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from schemas.faults import Misconfigured
from services.runtime.service import Quiet

POLL_S = 0.005
"""Chosen: far below any work's duration, and 200 cheap system calls a second while waiting."""

_MODES = {Quiet.SHARED: fcntl.LOCK_SH, Quiet.EXCLUSIVE: fcntl.LOCK_EX}


class Device:
    """The gate and quiet files of one device, open for as long as this object is."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self._gate = _open(folder / device / "gate")
        self._quiet = _open(folder / device / "quiet")

    @property
    def descriptor(self) -> int:
        """The quiet file, to be inherited by the effect's process."""
        return self._quiet

    @asynccontextmanager
    async def held(self, quiet: Quiet) -> AsyncIterator[None]:
        """The device is held as asked; waiting polls, so the loop's heartbeats go on and a cancel is heard."""
        if quiet is Quiet.NONE:
            yield
            return
        await _poll(self._gate, fcntl.LOCK_EX)
        try:
            await _poll(self._quiet, _MODES[quiet])
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._quiet, fcntl.LOCK_UN)

    @contextmanager
    def held_blocking(self, quiet: Quiet) -> Iterator[None]:
        """The same for a program without a loop."""
        if quiet is Quiet.NONE:
            yield
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._quiet, _MODES[quiet])
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._quiet, fcntl.LOCK_UN)

    def close(self) -> None:
        """Both files are closed; a lock still held by a child stays the child's."""
        os.close(self._gate)
        os.close(self._quiet)


async def _poll(descriptor: int, mode: int) -> None:
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(POLL_S)
        else:
            return


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise Misconfigured(
            f"{path}: {error.strerror}; set ASSAY_QUIET_DIR to a folder all copies can write"
        ) from error
