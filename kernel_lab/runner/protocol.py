"""The messages between the parent and a runner: fixed little-endian structs, one per SOCK_SEQPACKET packet.

Every message begins with a header (magic, kind, sequence, payload bytes). A reply carries the sequence of its request,
but for HELLO and FAULT, which nobody asked for. MARK is sent right before and right after each attempt at a sample; the
kernel stamps it, so the parent can time the sample without waking in it. A buffer with an origin is restored from it before
every call, where no clock runs: samples over such sets come in rounds that call each set once, with marks around each. `runner.c` is the other half. A reply is read
as data from a stranger.

| request | payload |
|---|---|
| LOAD | nproc u64 (0: leave), filter bytes u32, entry bytes u32, filter, entry with a zero byte; + the object's descriptor |
| MAP | per set: set, buffers, axes, origins (u32); per buffer: descriptor index, writable (u32), file offset, mapped bytes, pointer offset (u64); axes (i64); per origin: buffer, descriptor index (u32), file offset, mapped bytes, pointer offset, bytes (u64); + two descriptors, inputs and outputs |
| UNMAP | nothing: no set is mapped any longer |
| CALL | set, floats (u32), four f32 |
| TIME | min_sample_ns, pause_ns (u64), sets, floats (u32), four f32, set numbers u32 |
| QUIT | nothing |
"""  # noqa: E501 -- a table

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

MAGIC = 0x59415341
MESSAGE_BYTES = 131072
MAX_INTEGERS = 20
MAX_FLOATS = 4
MAX_BUFFERS = 16
MAX_SETS = 4096
MAX_ROUNDS = 64
"""Rounds of one attempt at a sample over sets that are restored. Chosen: twice as many marks fit into the channel, so
the runner never waits for the parent to read them."""
GUARD_BYTES = 1 << 20

HEADER = struct.Struct("<IIII")
MAP_HEAD = struct.Struct("<IIII")
BUFFER_ROW = struct.Struct("<IIQQQ")
ORIGIN_ROW = struct.Struct("<IIQQQQ")
CALL_BODY = struct.Struct("<II4f")
TIME_HEAD = struct.Struct("<QQII4f")


class Request(IntEnum):
    """What a parent asks."""

    LOAD = 1
    MAP = 2
    UNMAP = 3
    CALL = 4
    TIME = 5
    QUIT = 6


class Reply(IntEnum):
    """What a runner says."""

    HELLO = 100
    LOADED = 101
    LOAD_FAILED = 102
    MAPPED = 103
    UNMAPPED = 104
    RETURNED = 105
    TIMED = 106
    FAULT = 107
    REFUSED = 108
    MARK = 109


FIELDS = {
    Reply.HELLO: struct.Struct("<Q"),
    Reply.LOADED: struct.Struct("<QQ"),
    Reply.UNMAPPED: struct.Struct("<"),
    Reply.MARK: struct.Struct("<"),
    Reply.RETURNED: struct.Struct("<QQQQ"),
    Reply.TIMED: struct.Struct("<QQQQQQQ"),
    Reply.FAULT: struct.Struct("<QQQQ"),
}
"""Replies of fixed size; the others are text, or one address per buffer."""

TEXTS = frozenset({Reply.LOAD_FAILED, Reply.REFUSED})


@dataclass(frozen=True)
class Message:
    """A well-formed reply: `numbers` of its fields, or `text`."""

    kind: Reply
    sequence: int
    numbers: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Garbage:
    """What came is no reply of a runner."""

    why: str


@dataclass(frozen=True)
class MappedBuffer:
    """Where one buffer lies in its memory file, and how it is to be mapped."""

    descriptor: int
    """0 for the file of the inputs, 1 for that of the outputs."""
    writable: bool
    file_offset: int
    mapped_bytes: int
    pointer_offset: int
    """From the start of the mapping to the first element."""


@dataclass(frozen=True)
class Origin:
    """Where the content that a buffer is restored from lies."""

    buffer: int
    """Position of the restored buffer among the arguments."""
    place: MappedBuffer
    data_bytes: int


@dataclass(frozen=True)
class AskedMap:
    """One set of MAP."""

    number: int
    buffers: tuple[MappedBuffer, ...]
    sizes: tuple[int, ...]
    origins: tuple[Origin, ...]


def encode(kind: int, sequence: int, payload: bytes) -> bytes:
    """One packet."""
    return HEADER.pack(MAGIC, kind, sequence, len(payload)) + payload


def decode(packet: bytes) -> Message | Garbage:
    """One packet as a reply; total over all bytes."""
    if len(packet) < HEADER.size:
        return Garbage(f"{len(packet)} bytes are no message")
    magic, kind, sequence, length = HEADER.unpack_from(packet)
    payload = packet[HEADER.size :]
    if magic != MAGIC or length != len(payload):
        return Garbage(f"a packet of {len(packet)} bytes with a false header")
    if kind not in set(Reply):
        return Garbage(f"a reply of unknown kind {kind}")
    return _decode_payload(Reply(kind), sequence, payload)


def _decode_payload(kind: Reply, sequence: int, payload: bytes) -> Message | Garbage:
    if kind in TEXTS:
        return Message(kind, sequence, text=payload.decode(errors="replace"))
    layout = struct.Struct(f"<{len(payload) // 8}Q") if kind is Reply.MAPPED else FIELDS[kind]
    if len(payload) != layout.size:
        return Garbage(f"{kind.name} with {len(payload)} bytes")
    return Message(kind, sequence, layout.unpack(payload))


def load(nproc: int, filter_program: bytes, entry: str) -> bytes:
    """The payload of LOAD."""
    name = entry.encode() + b"\0"
    return struct.pack("<QII", nproc, len(filter_program), len(name)) + filter_program + name


def map_set(asked: AskedMap) -> bytes:
    """What MAP says of one set. Its payload is as many of these as fit a message."""
    head = MAP_HEAD.pack(asked.number, len(asked.buffers), len(asked.sizes), len(asked.origins))
    rows = (BUFFER_ROW.pack(b.descriptor, b.writable, *_span(b)) for b in asked.buffers)
    sizes = struct.pack(f"<{len(asked.sizes)}q", *asked.sizes)
    origins = (ORIGIN_ROW.pack(o.buffer, o.place.descriptor, *_span(o.place), o.data_bytes) for o in asked.origins)
    return b"".join((head, *rows, sizes, *origins))


def call(number: int, scalars: Sequence[float]) -> bytes:
    """The payload of CALL."""
    return CALL_BODY.pack(number, len(scalars), *_four(scalars))


def time(numbers: Sequence[int], scalars: Sequence[float], min_sample_ns: int, pause_ns: int) -> bytes:
    """The payload of TIME."""
    head = TIME_HEAD.pack(min_sample_ns, pause_ns, len(numbers), len(scalars), *_four(scalars))
    return head + struct.pack(f"<{len(numbers)}I", *numbers)


@dataclass(frozen=True)
class Asked:
    """A request, as a runner written in Python reads it. The sender is trusted."""

    kind: Request
    sequence: int
    payload: bytes


@dataclass(frozen=True)
class AskedTime:
    """The payload of TIME."""

    numbers: tuple[int, ...]
    scalars: tuple[float, ...]
    min_sample_ns: int
    pause_ns: int


def decode_request(packet: bytes) -> Asked:
    """One packet of the parent's."""
    _, kind, sequence, _ = HEADER.unpack_from(packet)
    return Asked(Request(kind), sequence, packet[HEADER.size :])


def read_map(payload: bytes) -> tuple[AskedMap, ...]:
    """The sets to map, and what to restore from where."""
    asked, at = [], 0
    while at < len(payload):
        one, at = _read_set(payload, at)
        asked.append(one)
    return tuple(asked)


def _read_set(payload: bytes, at: int) -> tuple[AskedMap, int]:
    number, buffers, axes, origins = MAP_HEAD.unpack_from(payload, at)
    at += MAP_HEAD.size
    rows = [BUFFER_ROW.unpack_from(payload, at + i * BUFFER_ROW.size) for i in range(buffers)]
    at += buffers * BUFFER_ROW.size
    sizes = struct.unpack_from(f"<{axes}q", payload, at)
    at += 8 * axes
    from_rows = [ORIGIN_ROW.unpack_from(payload, at + i * ORIGIN_ROW.size) for i in range(origins)]
    asked = AskedMap(
        number,
        tuple(MappedBuffer(d, bool(w), *span) for d, w, *span in rows),
        sizes,
        tuple(Origin(i, MappedBuffer(d, False, *span), size) for i, d, *span, size in from_rows),  # noqa: FBT003
    )
    return asked, at + origins * ORIGIN_ROW.size


def _span(mapped: MappedBuffer) -> tuple[int, int, int]:
    return mapped.file_offset, mapped.mapped_bytes, mapped.pointer_offset


def read_call(payload: bytes) -> tuple[int, tuple[float, ...]]:
    """Number of the set, and the scalars."""
    number, floats, *values = CALL_BODY.unpack(payload)
    return number, tuple(values[:floats])


def read_time(payload: bytes) -> AskedTime:
    """What to time, and for how long."""
    min_sample_ns, pause_ns, sets, floats, *values = TIME_HEAD.unpack_from(payload)
    numbers = struct.unpack_from(f"<{sets}I", payload, TIME_HEAD.size)
    return AskedTime(numbers, tuple(values[:floats]), min_sample_ns, pause_ns)


def _four(scalars: Sequence[float]) -> tuple[float, ...]:
    return (*scalars, *[0.0] * (MAX_FLOATS - len(scalars)))
