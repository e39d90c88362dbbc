"""The effect, run in its own child process so that nothing it does can stall, corrupt or outlive the host's loop."""

import asyncio
import os
import pickle
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from schemas.faults import Bug, Transient
from services.runtime.effect_wire import LENGTH, Done, Opening, Raised, pack
from services.runtime.settings import Settings


class EffectLost(Transient):
    """The effect's process died under its work: the message is left to ack_wait, the process is started anew."""


class Effect(Protocol):
    """Performs one work item at a time. A cancelled `perform` leaves nothing running."""

    async def start(self) -> None: ...
    async def perform(self, work: Any) -> Any: ...
    async def close(self) -> None: ...


class EffectProcess:
    """A persistent child that serves `entry`. It dies with this process, and holds the inherited descriptors."""

    def __init__(self, entry: str, settings: Settings, inherited: tuple[int, ...] = ()) -> None:
        self._opening = Opening(entry, settings)
        self._inherited = inherited
        self._child: Process | None = None
        self._folder: Path | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """The child's process id, which is also its group's and session's."""
        return self._child.pid if self._child else None

    async def start(self) -> None:
        """The effect is open. Raises the fault that its opening raised."""
        if self._child is not None and _dead(self._child):
            await self.close()
        if self._child is None:
            self.starts += 1
            self._child = await self._spawn()
            await self._exchange(self._child, self._opening)

    async def perform(self, work: Any) -> Any:
        """The outcome of `work`. Raises its fault, EffectLost when the child was killed, Bug when it crashed.

        Cancelled, it kills the child with its whole process group.
        """
        await self.start()
        assert self._child
        return await self._exchange(self._child, work)

    async def close(self) -> None:
        """No child is left."""
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _spawn(self) -> Process:
        """The child makes its temporary files in a folder of its own, which goes when it is killed over its work."""
        temporary = self._opening.settings.temporary
        temporary.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="effect-", dir=temporary.absolute()))
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "services.runtime.effect_child",
            str(os.getpid()),
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=self._inherited,
            env=os.environ | {"TMPDIR": str(self._folder)},
            start_new_session=True,
        )

    async def _exchange(self, child: Process, value: object) -> Any:
        assert child.stdin
        try:
            child.stdin.write(pack(value))
            await child.stdin.drain()
            reply = await _read(child)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise await self._buried(child) from error
        except asyncio.CancelledError:
            await self.close()
            raise
        if isinstance(reply, Raised):
            raise reply.fault
        return reply.outcome

    async def _buried(self, child: Process) -> Transient | Bug:
        status = await child.wait()
        await self.close()
        if status > 0:
            return Bug(f"{self._opening.entry} ended with status {status}; its traceback is on stderr")
        cause = signal.Signals(-status).name if status else "an early exit"
        return EffectLost(f"{self._opening.entry} was lost to {cause}")


def _dead(child: Process) -> bool:
    """Asked of the kernel: asyncio learns of a death a moment later, and work sent meanwhile would be lost."""
    if child.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # reaped by asyncio, not yet told
        return True


async def _read(child: Process) -> Done | Raised:
    assert child.stdout
    (length,) = LENGTH.unpack(await child.stdout.readexactly(LENGTH.size))
    reply: Done | Raised = pickle.loads(await child.stdout.readexactly(length))  # noqa: S301 — our own child
    return reply
