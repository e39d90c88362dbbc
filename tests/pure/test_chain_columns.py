"""Deriving columns from raw: what is a fact, and what is kept as raw only."""

import json
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.envelope import Message
from schemas.events import FACTS
from schemas.framing import frame
from services.evidence.rows import Derived, derive
from services.evidence.same_json import same_json
from tests.fixtures.facts import BEGIN, golden, id_of, story, with_body, with_headers

MESSAGES = {message.headers["ce-type"]: message for message in reversed(story("g1"))}
PROPOSED, MEASURED = MESSAGES["candidate.proposed.v1"], MESSAGES["candidate.measured.v1"]

UNPARSEABLE = {
    "a NUL": b'{"a":"x\\u0000"}',
    "a lone surrogate": b'{"a":"\\ud800"}',
    "a lone surrogate in a key": b'{"\\udfff":1}',
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "a number past a double": b'{"a":1e400000}',
    "a number under a double": b'{"a":1e-400000}',
    "a number of 20,000 digits": b'{"a":' + b"9" * 20_000 + b"}",
    "a fraction of 20,000 digits": b'{"a":0.' + b"9" * 20_000 + b"}",
    "20,000 brackets": b"[" * 20_000,
    "20,000 closed brackets": b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "300 brackets": b'{"a":' + b"[" * 300 + b"]" * 300 + b"}",
    "no JSON": b"{",
    "nothing": b"",
    "a list": b"[1]",
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "broken UTF-8": b'{"a":"\xff"}',
    "a candidate id that is none": b'{"candidate_id":"x"}',
}
MALFORMED = {
    "no id": {"ce_id": None},
    "no type": {"ce_type": None},
    "no source": {"ce_source": None},
    "no time": {"ce_time": None},
    "an id that is none": {"ce_id": "x"},
    "a time that is none": {"ce_time": "yesterday"},
    "a time without zone": {"ce_time": "2026-11-30T12:00:00"},
    "a time before the first year": {"ce_time": "0001-01-01T00:00:00+23:59"},
    "a cause that is none": {"ce_causationid": "x"},
    "a type longer than an index entry": {"ce_type": "t" * 3000},
    "a NUL in a header": {"ce_source": "a\0b"},
    "a lone surrogate in a header": {"ce_source": "\ud800"},
}


@pytest.mark.parametrize("body", UNPARSEABLE.values(), ids=UNPARSEABLE.keys())
def test_a_body_that_is_no_storable_json_gives_null_columns(body: bytes) -> None:
    assert derive(frame(with_body(MEASURED, body))) == Derived(MEASURED.subject)


@pytest.mark.parametrize("changes", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_envelope_gives_null_columns(changes: dict[str, str | None]) -> None:
    assert derive(frame(with_headers(PROPOSED, **changes))) == Derived(PROPOSED.subject)


@pytest.mark.parametrize("subject", ["x", "assay.fact.goal", "assay.fact.a.b.c.d.e", "assay.fact.a.b.c.", "s\0\ud800"])
def test_a_subject_that_is_no_facts_gives_null_columns(subject: str) -> None:
    derived = derive(frame(Message(subject, PROPOSED.headers, PROPOSED.body)))
    assert derived == Derived(derived.subject)
    assert "\0" not in derived.subject
    assert derived.subject.encode()


@pytest.mark.parametrize(
    "body",
    [b'{"a":"\\\\u0000"}', b'{"a":"\\ud83d\\ude00"}', b'{"a":' + b"[" * 150 + b"]" * 150 + b"}", b'{"a":0.0e999}'],
    ids=["an escaped backslash before u0000", "a surrogate pair", "150 brackets", "zero with a large exponent"],
)
def test_json_that_only_looks_dangerous_is_kept(body: bytes) -> None:
    assert derive(frame(with_body(PROPOSED, body))).data == body.decode()


def test_every_column_comes_from_raw() -> None:
    derived = derive(frame(MEASURED))
    assert derived == Derived(
        subject=MEASURED.subject,
        event_id=id_of(MEASURED),
        type="candidate.measured.v1",
        source="assay/test/1",
        goal_id="g1",
        candidate_id=id_of(PROPOSED),
        generation=0,
        island=None,
        correlation_id=None,
        causation_id=id_of(MESSAGES["candidate.verified.v1"]),
        occurred_at=derived.occurred_at,
        data=MEASURED.body.decode(),
    )
    assert derived.occurred_at is not None
    assert derived.occurred_at > BEGIN


def test_a_proposals_candidate_is_itself() -> None:
    derived = derive(frame(PROPOSED))
    assert derived.candidate_id == derived.event_id == id_of(PROPOSED)


def test_an_unknown_type_still_gets_its_columns() -> None:
    newer = with_headers(with_body(PROPOSED, b'{"generation":4}'), ce_type="candidate.dreamt.v9")
    derived = derive(frame(newer))
    assert (derived.type, derived.generation, derived.goal_id) == ("candidate.dreamt.v9", 4, "g1")


def test_no_goal_is_null() -> None:
    lost = Message("assay.fact.route.lost.cpu_1.none", with_headers(PROPOSED, ce_type="route.lost.v1").headers, b"{}")
    assert derive(frame(lost)).goal_id is None
    assert derive(frame(lost)).event_id is not None


@pytest.mark.parametrize("value", ["true", "1.0", '"1"', "1" + "0" * 30])
def test_a_generation_that_is_no_integer_is_null(value: str) -> None:
    body = f'{{"generation":{value}}}'.encode()
    assert derive(frame(with_body(PROPOSED, body))).generation is None


@pytest.mark.parametrize("name", sorted(FACTS))
def test_every_fact_ever_written_has_an_id_and_data(name: str) -> None:
    message = Message(
        f"assay.fact.a.b.c.{'none' if 'refused' in name else 'g1'}",
        {**PROPOSED.headers, "ce-type": name, "ce-id": str(uuid4())},
        golden(FACTS[name]).model_dump_json().encode(),
    )
    assert derive(frame(message)).event_id == UUID(message.headers["ce-id"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_json_equals_itself_however_it_is_written(value: object) -> None:
    assert same_json(json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False))


@pytest.mark.parametrize(
    ("one", "other"),
    [("1e5", "100000"), ("1.50", "1.5"), ("1e-7", "0.0000001"), ("-0.0", "0"), ('{"a":1,"b":2}', '{"b":2, "a":1}')],
)
def test_what_jsonb_rewrites_is_the_same(one: str, other: str) -> None:
    assert same_json(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "true"),
        ("1", '"1"'),
        ("0", "false"),
        ("1", "-1"),
        ("1", "10"),
        ("[1,2]", "[2,1]"),
        ("{}", "[]"),
        ("9007199254740993", "9007199254740992"),
        ('{"a":1}', '{"a":1,"b":1}'),
        ("null", "0"),
        ("1", '["number","+","1","0"]'),
    ],
)
def test_what_differs_is_not_the_same(one: str, other: str) -> None:
    assert not same_json(one, other)
    assert not same_json(one, None)
