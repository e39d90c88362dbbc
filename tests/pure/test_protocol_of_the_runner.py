"""Replies are read as data from a stranger: every packet is a message or garbage, never an exception."""

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.runner import protocol
from kernel_lab.runner.protocol import AskedMap, Garbage, MappedBuffer, Message, Origin, Reply, Request

RUNNER = (Path(protocol.__file__).parent / "runner.c").read_text()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_garbage(packet: bytes) -> None:
    assert isinstance(protocol.decode(packet), Message | Garbage)


@given(st.sampled_from(sorted(Reply)), st.integers(0, 2**32 - 1), st.binary(max_size=80))
def test_any_payload_under_a_true_header_is_a_message_or_garbage(kind: Reply, sequence: int, payload: bytes) -> None:
    reply = protocol.decode(protocol.encode(kind, sequence, payload))
    assert isinstance(reply, Message | Garbage)
    if isinstance(reply, Message):
        assert (reply.kind, reply.sequence) == (kind, sequence)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=4, max_size=4), st.integers(0, 2**32 - 1))
def test_a_true_reply_comes_back_as_it_was(numbers: list[int], sequence: int) -> None:
    packet = protocol.encode(Reply.RETURNED, sequence, struct.pack("<4Q", *numbers))
    assert protocol.decode(packet) == Message(Reply.RETURNED, sequence, tuple(numbers))


@given(st.integers(1, 47))
def test_a_cut_reply_is_garbage(length: int) -> None:
    packet = protocol.encode(Reply.RETURNED, 1, bytes(32))
    assert isinstance(protocol.decode(packet[:length]), Garbage)


@pytest.mark.parametrize("kind", [0, 1, 6, 99, 110, 2**32 - 1])
def test_a_reply_of_unknown_kind_is_garbage(kind: int) -> None:
    assert isinstance(protocol.decode(protocol.encode(kind, 1, b"")), Garbage)


POSITIVE = st.integers(0, 2**63 - 1)


def placed(writable: st.SearchStrategy[bool]) -> st.SearchStrategy[MappedBuffer]:
    return st.builds(MappedBuffer, st.integers(0, 1), writable, POSITIVE, POSITIVE, POSITIVE)


MAPS = st.builds(
    AskedMap,
    st.integers(0, protocol.MAX_SETS - 1),
    st.lists(placed(st.booleans()), max_size=protocol.MAX_BUFFERS).map(tuple),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(tuple),
    st.lists(st.builds(Origin, st.integers(0, 15), placed(st.just(value=False)), POSITIVE), max_size=3).map(tuple),
)


@given(st.lists(MAPS, max_size=4))
def test_a_map_request_is_read_as_it_was_written(wanted: list[AskedMap]) -> None:
    packet = protocol.encode(Request.MAP, 9, b"".join(map(protocol.map_set, wanted)))
    asked = protocol.decode_request(packet)
    assert (asked.kind, asked.sequence) == (Request.MAP, 9)
    assert protocol.read_map(asked.payload) == tuple(wanted)


NANOSECONDS = st.integers(0, 2**63)
FLOATS = st.lists(st.floats(width=32, allow_nan=False), max_size=protocol.MAX_FLOATS)


@given(
    st.lists(st.integers(0, protocol.MAX_SETS - 1), max_size=20), FLOATS, st.integers(0, 2**63), st.integers(0, 2**63)
)
def test_a_time_request_is_read_as_it_was_written(
    numbers: list[int], scalars: list[float], sample_ns: int, pause_ns: int
) -> None:
    asked = protocol.read_time(protocol.time(numbers, scalars, sample_ns, pause_ns))
    assert asked == protocol.AskedTime(tuple(numbers), tuple(scalars), sample_ns, pause_ns)


@given(st.integers(0, protocol.MAX_SETS - 1), FLOATS)
def test_a_call_request_is_read_as_it_was_written(number: int, scalars: list[float]) -> None:
    assert protocol.read_call(protocol.call(number, scalars)) == (number, tuple(scalars))


def test_the_largest_request_fits_a_message() -> None:
    numbers = [protocol.MAX_SETS - 1] * protocol.MAX_SETS
    assert len(protocol.encode(Request.TIME, 1, protocol.time(numbers, (), 1, 1))) <= protocol.MESSAGE_BYTES


@pytest.mark.parametrize("name", ["MAGIC", "MESSAGE_BYTES", "MAX_INTEGERS", "MAX_FLOATS", "MAX_BUFFERS", "MAX_SETS"])
def test_both_halves_agree_on_a_number(name: str) -> None:
    found = re.search(rf"#define {name} (\w+?)u?\s", RUNNER)
    assert found is not None
    assert int(found[1], 0) == getattr(protocol, name)


def test_both_halves_agree_on_the_guards() -> None:
    assert "#define GUARD_BYTES (1 << 20)" in RUNNER
    assert protocol.GUARD_BYTES == 1 << 20


@pytest.mark.parametrize(
    ("kinds", "first"), [(Request, "enum request { LOAD = 1"), (Reply, "enum reply { HELLO = 100")]
)
def test_both_halves_number_the_kinds_alike(kinds: type[Request] | type[Reply], first: str) -> None:
    line = next(line for line in RUNNER.splitlines() if line.startswith(first))
    names = [word.partition(" ")[0] for word in line[line.index("{") + 1 : line.index("}")].strip().split(", ")]
    assert names == [kind.name for kind in sorted(kinds)]
    assert [kind.value for kind in sorted(kinds)] == list(range(min(kinds), min(kinds) + len(kinds)))
