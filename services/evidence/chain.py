"""The hash chain over the log: an edit of any recorded byte shows.

Byte layout of one link, all integers big-endian:

    previous      32 bytes   hash of the row before, 32 zero bytes before the first
    position      u64
    origin        u32 length, then UTF-8
    epoch         u32 length, then UTF-8
    stream_seq    u64
    recorded_at   i64        microseconds since 1970-01-01T00:00:00Z, the precision Postgres stores
    raw           u64 length, then the bytes (schemas/framing.py)

A chain catches edits. Only checkpoints kept outside the database catch a cut tail with a rewritten head, or a history
rewritten from some row to the end (event-backbone.md, Postgres).
"""

import hashlib
import struct
from datetime import UTC, datetime, timedelta
from functools import lru_cache

GENESIS = bytes(32)
"""What the first row's `previous` is."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_UNSIGNED, _REST = struct.Struct(">Q").pack, struct.Struct(">QqQ").pack


def link(
    previous: bytes, position: int, origin: str, epoch: str, stream_seq: int, recorded_at: datetime, raw: bytes
) -> bytes:
    """The hash of the row that holds these."""
    place = _UNSIGNED(position) + _prefixed(origin) + _prefixed(epoch)
    rest = _REST(stream_seq, microseconds(recorded_at), len(raw))
    return hashlib.sha256(previous + place + rest + raw).digest()  # one call costs less than six updates


def microseconds(moment: datetime) -> int:
    """Whole microseconds since 1970, exactly: no float on the way."""
    return (moment - EPOCH) // MICROSECOND


@lru_cache(maxsize=16)  # a log has one origin and few epochs, and every link is over both
def _prefixed(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">I", len(encoded)) + encoded
