"""The effect's own process: opens one effect, then serves work items until its parent closes the pipe.

An exception that is no Fault is a bug: it ends this process with a traceback and status 1, which the host tells from a
killed child by the exit status.
"""

import os
import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO

from schemas.faults import Fault, Misconfigured
from services.runtime.effect_wire import LENGTH, Done, Opening, Raised, pack
from services.runtime.lifeline import die_with
from services.runtime.settings import Settings


def main() -> None:
    """Serves until the parent hangs up."""
    die_with(int(sys.argv[1]))
    requests, replies = _take_pipes()
    opening = _next(requests)
    if isinstance(opening, Opening):
        _serve(opening, requests, replies)


def _serve(opening: Opening, requests: BinaryIO, replies: BinaryIO) -> None:
    try:
        perform = _load(opening.entry)(opening.settings)
    except Fault as fault:
        _reply(replies, Raised(fault))
        return
    _reply(replies, Done(None))
    while (work := _next(requests)) is not None:
        _reply(replies, _attempt(perform, work))


def _attempt(perform: Callable[[Any], Any], work: object) -> Done | Raised:
    try:
        return Done(perform(work))
    except Fault as fault:
        return Raised(fault)


def _load(entry: str) -> Callable[[Settings], Callable[[Any], Any]]:
    module, _, name = entry.partition(":")
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise Misconfigured(f"{entry} names no function")
    opener: Callable[[Settings], Callable[[Any], Any]] = found
    return opener


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The protocol's pipes, moved away from 0 and 1 so that a stray print cannot break a frame."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")


def _next(requests: BinaryIO) -> Any:
    head = requests.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = requests.read(length)
    if len(body) < length:
        return None
    return pickle.loads(body)  # noqa: S301 — both ends are this program; the pipe is private


def _reply(replies: BinaryIO, value: Done | Raised) -> None:
    replies.write(pack(value))
    replies.flush()


if __name__ == "__main__":
    main()
