"""The wire language: goal file, ids, envelope, limits."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.envelope import Envelope, Message, answer, decode, encode, subject_of
from schemas.events import FACTS, Fact, GenerationOpened, GoalSteered
from schemas.faults import Bug, Poison
from schemas.goal import Goal, Shape
from schemas.ids import answer_id, due_id, is_token, request_id
from schemas.model import DIAGNOSTICS_LIMIT_BYTES, clip
from schemas.requests import RawRequest
from tests.golden.sample import sample_model

NOW = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)
MINIMAL = {"workload": "rms_norm", "target": "cpu"}


def goal(**fields: Any) -> Goal:
    return Goal.model_validate_json(json.dumps(MINIMAL | fields))


def envelope(fact: Fact) -> Envelope[Fact]:
    return Envelope(UUID(int=7), fact, "assay/test/0", NOW, UUID(int=1), UUID(int=2), "00-ab-cd-01")


def test_only_workload_and_target_are_required() -> None:
    assert goal().budget.candidates == 200
    for missing in MINIMAL:
        with pytest.raises(ValidationError, match="Field required"):
            Goal.model_validate_json(json.dumps({k: v for k, v in MINIMAL.items() if k != missing}))


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1500ms", 1.5), (45, 45)])
def test_a_duration_reads_as_seconds(text: str | int, seconds: float) -> None:
    assert goal(budget={"wall": text}).budget.wall == seconds


@pytest.mark.parametrize("text", ["", "10", "10 m", "m10", "10x", "1h-5m", "1e3s"])
def test_a_malformed_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValidationError, match="write for example"):
        goal(budget={"wall": text})


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": []},
        {"budget": {"candidates": "200"}},
        {"budget": {"candidates": 10**9}},
        {"budget": {"wall": 0}},
        {"target": "abacus"},
        {"tolerance": {"scale": 2.0}},
        {"search": {"strategies": []}},
        {"search": {"seed": True}},
        {"shapes": [{"t": 1}]},
        {"shapes": [{"T": 1, "weight": 0}]},
    ],
)
def test_a_wrong_goal_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        goal(**fields)


def test_a_flat_shape_and_its_dump_read_the_same() -> None:
    shapes = goal(shapes=[{"T": 1, "H": 4096, "weight": 0.7}]).shapes
    assert shapes == (Shape(axes={"T": 1, "H": 4096}, weight=0.7),)
    again = goal(shapes=[shape.model_dump() for shape in shapes if isinstance(shape, Shape)])
    assert again.shapes == shapes


def test_a_goal_survives_its_own_json() -> None:
    first = goal(shapes=[{"T": 1, "H": 8}], budget={"wall": "10m"})
    assert Goal.model_validate_json(first.model_dump_json()) == first


def test_ids_come_from_the_decision_and_not_from_its_result() -> None:
    cause = UUID(int=5)
    assert answer_id(cause, "verify") == answer_id(cause, "verify")
    assert len({answer_id(cause, "verify"), answer_id(cause, "verify", 1), answer_id(cause, "compile")}) == 3
    assert due_id("g", "generation", 1) != due_id("g", "generation", 2)
    assert request_id("s", b"x") != request_id("s", b"y")


@pytest.mark.parametrize("text", ["", "a.b", "a b", "a*", ">", "x" * 65, "naïve", "a\n"])
def test_what_cannot_stand_in_a_subject_is_no_token(text: str) -> None:
    assert not is_token(text)


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_every_fact_survives_the_bus(fact: type[Fact]) -> None:
    stated = sample_model(fact)
    assert isinstance(stated, Fact)
    sent = envelope(stated)
    assert decode(encode(sent)) == sent
    assert all(is_token(token) for token in subject_of(stated).split("."))


def test_an_answer_is_caused_by_what_it_answers() -> None:
    cause = envelope(sample_fact(GenerationOpened))
    draft = answer(cause, "open", sample_fact(GenerationOpened))
    assert (draft.id, draft.causation_id) == (answer_id(cause.id, "open"), cause.id)


def sample_fact(fact: type[Fact]) -> Fact:
    stated = sample_model(fact)
    assert isinstance(stated, Fact)
    return stated


def test_a_fact_over_the_limit_is_a_bug_of_its_author() -> None:
    request = RawRequest(subject="s", sha256="0", size=1, body="x" * (600 * 1024), encoding="utf-8")
    steered = sample_fact(GoalSteered).model_copy(update={"request": request})
    with pytest.raises(Bug, match="a fact may have"):
        encode(envelope(steered))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"headers": {}}, "ce-"),
        ({"body": b"{"}, "does not parse"),
        ({"body": b'{"goal_id": "g"}'}, "generation"),
        ({"body": b"[" * 20_000}, "recursion|depth|does not parse"),
        ({"type": "candidate.imagined.v1"}, "unknown fact type"),
        ({"id": "not-a-uuid"}, "UUID"),
    ],
)
def test_a_message_that_is_no_fact_is_poison_and_says_why(change: dict[str, Any], complaint: str) -> None:
    good = encode(envelope(sample_fact(GenerationOpened)))
    headers = dict(change.get("headers", good.headers))
    if "type" in change:
        headers["ce-type"] = change["type"]
    if "id" in change:
        headers["ce-id"] = change["id"]
    with pytest.raises(Poison, match=f"(?i){complaint}"):
        decode(Message(good.subject, headers, change.get("body", good.body)))


@given(st.text(max_size=200), st.integers(min_value=64, max_value=400))
def test_clipped_text_fits_and_is_storable(text: str, limit: int) -> None:
    clipped = clip(text * 5, limit)
    assert len(clipped.encode()) <= limit
    assert "\x00" not in clipped


def test_clipped_diagnostics_say_that_they_were_cut() -> None:
    assert "bytes in all" in clip("é" * DIAGNOSTICS_LIMIT_BYTES)
    assert clip("short") == "short"
    assert clip("\ud800") == "?"
