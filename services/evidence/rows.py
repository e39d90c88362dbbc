"""From raw bytes to the columns of a row: one derivation, used when appending and when verifying.

A row whose raw is no fact keeps its raw and has null columns: no fold sees it, nothing is lost, and it shadows no id.
What is no fact: headers missing or malformed, a subject that is no fact's, a body that is not one JSON object in UTF-8,
or JSON that Postgres' jsonb refuses (`\\u0000`, lone surrogates, NaN, numbers past a double, deep nesting). An unknown
type is a fact: a newer Assay wrote it.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from schemas.envelope import FACT_PREFIX, Message, Recorded, decode
from schemas.events import CandidateProposed
from schemas.faults import Poison
from schemas.framing import unframe
from schemas.ids import NO_GOAL, is_token
from services.evidence.log import Row

MAX_TYPE_CHARACTERS = 256
"""Chosen: an index entry must stay under Postgres' 2,704 bytes."""
MAX_NUMBER_CHARACTERS = 64
"""Chosen: a double prints in 25. Longer digits overflow Postgres' numeric somewhere past 16,383."""
MAX_DEPTH = 200
"""Chosen: far deeper than any fact, far shallower than Python's recursion limit, so every caller agrees."""


@dataclass(frozen=True)
class Derived:
    """The columns that `raw` alone determines."""

    subject: str
    event_id: UUID | None = None
    type: str | None = None
    source: str | None = None
    goal_id: str | None = None
    candidate_id: UUID | None = None
    generation: int | None = None
    island: int | None = None
    correlation_id: UUID | None = None
    causation_id: UUID | None = None
    occurred_at: datetime | None = None
    data: str | None = None


def derive(raw: bytes) -> Derived:
    """Every column of a row that holds `raw`."""
    return derive_from(unframe(raw))


def derive_from(message: Message) -> Derived:
    """The same, of a message with the headers that framing keeps."""
    try:
        return _derive_fact(message)
    except (KeyError, ValueError, OverflowError, RecursionError):
        return Derived(_storable(message.subject))


def blanked(row: Row) -> Row:
    """`row` as kept when its columns could not be stored: raw and chain unchanged, the rest null."""
    empty = Derived(row.subject)
    return replace(row, **{name: value for name, value in vars(empty).items() if name != "subject"})


def derived_of(row: Row) -> Derived:
    """The derived columns of `row` as stored."""
    return Derived(**{name: getattr(row, name) for name in Derived.__dataclass_fields__})


def recorded(position: int, raw: bytes, recorded_at: datetime) -> Recorded[Any] | None:
    """The fact in `raw` at its place, upcast to the newest version; None when this Assay cannot parse it."""
    try:
        return Recorded(position, decode(unframe(raw)), recorded_at)
    except Poison:
        return None


def facts_of(rows: Sequence[Row]) -> tuple[Recorded[Any], ...]:
    """The facts among `rows`, for whoever folds them in the same process."""
    found = (recorded(row.position, row.raw, row.recorded_at) for row in rows if row.event_id is not None)
    return tuple(fact for fact in found if fact is not None)


def parse_body(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`, all of which Postgres can store. Raises ValueError or RecursionError."""
    text = body.decode()
    value = _DECODER.decode(text)
    if not isinstance(value, dict):
        raise ValueError("the body is not a JSON object")  # noqa: TRY004  the sender's value, not our type
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        _refuse_unstorable(value)
    return value


def _derive_fact(message: Message) -> Derived:
    headers = message.headers
    body = parse_body(message.body)
    event_id, type_, source = UUID(headers["ce-id"]), headers["ce-type"], headers["ce-source"]
    if len(type_) > MAX_TYPE_CHARACTERS or not _is_storable(type_ + source):
        raise ValueError("a header cannot be stored")
    return Derived(
        subject=message.subject,
        event_id=event_id,
        type=type_,
        source=source,
        goal_id=_goal_of(message.subject),
        candidate_id=event_id if type_ == CandidateProposed.TYPE else _uuid_in(body, "candidate_id"),
        generation=_integer_in(body, "generation"),
        island=_integer_in(body, "island"),
        correlation_id=_uuid(headers.get("ce-correlationid")),
        causation_id=_uuid(headers.get("ce-causationid")),
        occurred_at=_moment(headers["ce-time"]),
        data=message.body.decode(),
    )


def _goal_of(subject: str) -> str | None:
    """The goal token of `assay.fact.<noun>.<participle>.<route>.<goal_id>`."""
    tokens = subject.removeprefix(f"{FACT_PREFIX}.").split(".")
    if not subject.startswith(f"{FACT_PREFIX}.") or len(tokens) != 4 or not all(map(is_token, tokens)):
        raise ValueError("the subject is no fact's subject")
    return None if tokens[3] == NO_GOAL else tokens[3]


def _uuid(text: str | None) -> UUID | None:
    return UUID(text) if text else None


def _uuid_in(body: dict[str, Any], key: str) -> UUID | None:
    value = body.get(key)
    return UUID(value) if isinstance(value, str) else None


def _integer_in(body: dict[str, Any], key: str) -> int | None:
    value = body.get(key)
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("ce-time has no time zone")
    return moment.astimezone(UTC)


def _finite(text: str) -> float:
    value = float(text)
    vanished = value == 0.0 and any(digit in "123456789" for digit in text.lower().partition("e")[0])
    if len(text) > MAX_NUMBER_CHARACTERS or math.isinf(value) or vanished:
        raise ValueError("a number is past a double")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)


def _refuse_unstorable(value: dict[str, Any]) -> None:
    """Raises ValueError when a string in `value` has no UTF-8 or a NUL, or when `value` is nested too deep."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper += (*item.keys(), *item.values())
            elif isinstance(item, list):
                deeper += item
            elif isinstance(item, str) and not _is_storable(item):
                raise ValueError("a string cannot be stored")
        if not deeper:
            return
        level = deeper
    raise ValueError(f"nested deeper than {MAX_DEPTH}")


def _is_storable(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text))


def _storable(text: str) -> str:
    return text if _is_storable(text) else text.replace("\0", "\\0").encode("utf-8", "replace").decode()
