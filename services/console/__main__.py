"""The `assay` program: as little as possible stands before Ctrl-C is understood (the rest takes a second to import)."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Runs the command line; Ctrl-C at any moment ends it in one line.

    While modules are imported there is nothing to clean up, and a KeyboardInterrupt may come out of an import as
    anything: it ends the process at once. A command unwinds.
    """
    as_started = signal.signal(signal.SIGINT, _end_at_once)
    try:
        from services.console.main import command

        run = command()
        signal.signal(signal.SIGINT, as_started)
        run()
    except KeyboardInterrupt:
        _end_as_interrupted()


def _end_at_once(_signal: int, _frame: FrameType | None) -> None:
    _end_as_interrupted()


def _end_as_interrupted() -> None:
    """Not by sys.exit: where Ctrl-C came while a string was evaluated, as dataclasses do when they are defined, Python
    notes it as unhandled and would die of the signal in the end instead of giving the status."""
    print("interrupted", file=sys.stderr)
    for output in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            output.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
