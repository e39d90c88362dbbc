"""What crosses the pipe between the host and its effect's process: an 8-byte big-endian length, then a pickle.

First in: `Opening`. First out: `Done(None)` when the effect is open, or `Raised`. Then one reply for each work item.
Its own module, because a class of a program run with `-m` would be pickled as `__main__`'s.
"""

import pickle
import struct
from dataclasses import dataclass
from typing import Any

from schemas.faults import Fault
from services.runtime.settings import Settings

LENGTH = struct.Struct(">Q")


@dataclass(frozen=True)
class Opening:
    """What to open: `entry` is `module:function`, called once with the settings."""

    entry: str
    settings: Settings


@dataclass(frozen=True)
class Done:
    outcome: Any


@dataclass(frozen=True)
class Raised:
    fault: Fault


def pack(value: object) -> bytes:
    """One frame."""
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body
