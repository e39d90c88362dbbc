"""The chain and the framing: what is hashed, byte by byte, and what it must catch."""

import hashlib
import struct
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.envelope import Message
from schemas.faults import Broken
from schemas.framing import frame, kept, unframe
from services.evidence.chain import GENESIS, link, microseconds

NOW = datetime(2026, 11, 30, 12, 0, 0, 123457, tzinfo=UTC)
LINK = {
    "previous": GENESIS,
    "position": 1,
    "origin": "o1",
    "epoch": "e1",
    "stream_seq": 7,
    "recorded_at": NOW,
    "raw": b"raw",
}
HEADERS = st.dictionaries(st.sampled_from(["ce-id", "ce-type", "ce-source", "signature"]), st.text(max_size=20))


def test_a_link_hashes_exactly_the_documented_bytes() -> None:
    moment_us = int(NOW.timestamp()) * 1_000_000 + 123457
    documented = b"".join(
        (
            GENESIS,
            struct.pack(">Q", 1),
            struct.pack(">I", 2) + b"o1",
            struct.pack(">I", 2) + b"e1",
            struct.pack(">Qq", 7, moment_us),
            struct.pack(">Q", 3) + b"raw",
        )
    )
    assert link(**LINK) == hashlib.sha256(documented).digest()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("previous", b"\1" * 32),
        ("position", 2),
        ("origin", "o2"),
        ("epoch", "e2"),
        ("stream_seq", 8),
        ("recorded_at", NOW + timedelta(microseconds=1)),
        ("raw", b"raW"),
    ],
)
def test_a_change_of_any_part_changes_the_link(part: str, other: object) -> None:
    assert link(**{**LINK, part: other}) != link(**LINK)  # type: ignore[arg-type]


def test_text_cannot_move_between_origin_and_epoch() -> None:
    moved = {**LINK, "origin": "o1e", "epoch": "1"}
    assert link(**moved) != link(**LINK)  # type: ignore[arg-type]


def test_microseconds_are_exact_in_any_time_zone() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert microseconds(elsewhere) == microseconds(NOW)
    assert microseconds(datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)) % 1_000_000 == 999_999
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)) == -1


@given(subject=st.text(max_size=40), headers=HEADERS, body=st.binary(max_size=200))
def test_a_framed_message_comes_back_whole(subject: str, headers: dict[str, str], body: bytes) -> None:
    assert unframe(frame(Message(subject, headers, body))) == Message(subject, headers, body)


@given(subject=st.text(max_size=40), headers=st.dictionaries(st.text(max_size=12), st.text(max_size=20), max_size=6))
def test_what_is_kept_is_what_comes_back(subject: str, headers: dict[str, str]) -> None:
    message = Message(subject, {**headers, "Ce-Id": "1", "Nats-Msg-Id": "1"}, b"body")
    assert unframe(frame(message)) == kept(message)


def test_lone_surrogates_in_headers_survive_framing() -> None:
    message = Message("s\ud800", {"ce-source": "\udfff"}, b"")
    assert unframe(frame(message)) == message


def test_header_order_and_case_do_not_change_the_bytes() -> None:
    one = Message("s", {"ce-id": "1", "ce-type": "t"}, b"b")
    other = Message("s", {"CE-Type": "t", "Ce-Id": "1"}, b"b")
    assert frame(one) == frame(other)


def test_transport_headers_are_no_evidence() -> None:
    assert unframe(frame(Message("s", {"ce-id": "1", "Nats-Msg-Id": "1", "content-type": "x"}, b""))).headers == {
        "ce-id": "1"
    }


@given(raw=st.binary(max_size=60))
def test_bytes_that_were_never_framed_are_refused_and_never_crash(raw: bytes) -> None:
    try:
        unframe(raw)
    except Broken:
        return
    assert raw[:1] == b"\x01"


def test_a_frame_cut_inside_its_texts_is_refused() -> None:
    raw = frame(Message("subject", {"ce-id": "1"}, b""))
    with pytest.raises(Broken):
        unframe(raw[:-1])
