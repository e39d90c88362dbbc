"""Exit statuses, for scripts (docs: console)."""

from enum import IntEnum
from typing import NoReturn

import typer


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    WAIT_TIMED_OUT = 3
    NOT_ALLOWED = 4
    NO_IMPROVEMENT = 5
    EVIDENCE_BROKEN = 6
    DEPENDENCY_DOWN = 7
    NO_VERDICT = 8
    UNFIT = 9
    INTERRUPTED = 130


def exit_with(status: Exit) -> NoReturn:
    """The command ends with `status`."""
    raise typer.Exit(int(status))
