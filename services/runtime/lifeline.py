"""A process's life tied to its parent's (Linux PR_SET_PDEATHSIG, prctl(2))."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int) -> None:
    """The kernel kills this process when the thread that started it ends; a parent already gone ends it now.

    The signal is tied to the parent's *thread* (prctl(2), NOTES): start such a child from the main thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)
