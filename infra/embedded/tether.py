"""Runs a program whose life ends with its owner's: `tether.py OWNER_PID SIGNAL PROGRAM ARGUMENT…`, run as a script.

The kernel sends the signal when the owner's thread that started us ends (prctl(2), PR_SET_PDEATHSIG); the setting
survives execve. An owner that was already gone is noticed by our parent being another.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1


def tethered(command: Sequence[str], how: signal.Signals = signal.SIGKILL) -> list[str]:
    """`command`, to be started by this process, ends when this process does: it gets the signal `how`.

    SIGTERM is for a program that has others to end and folders to remove, and is known to heed it.
    Only from the main thread: the tie is to the starting thread, and a worker thread ends early.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("start tethered programs from the main thread: they end with the thread that starts them")
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid()), str(int(how)), *command]


def main(owner: int, how: int, command: Sequence[str]) -> None:
    """This process has become `command`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, how, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != owner:
        sys.exit(1)
    os.execv(command[0], list(command))  # noqa: S606 — no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
