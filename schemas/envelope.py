"""CloudEvents 1.0 in NATS binary binding: the envelope in `ce-*` headers, the fact as JSON body.

Source: CloudEvents NATS protocol binding 1.0, section 3.1 (binary content mode).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import ValidationError

from schemas.events import FACTS, Fact, noun_and_participle
from schemas.faults import Bug, Poison
from schemas.ids import NO_GOAL, GoalId, answer_id, due_id
from schemas.upcasters import upcast

FACT_PREFIX = "assay.fact"
MAX_FACT_BYTES = 512 * 1024

F = TypeVar("F", bound=Fact)
F_co = TypeVar("F_co", bound=Fact, covariant=True)


@dataclass(frozen=True)
class Message:
    """What the bus carries: bytes and headers, unread."""

    subject: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Draft(Generic[F_co]):
    """A fact that a core wants stated, with its derived id. The host adds source, time and trace."""

    id: UUID
    fact: F_co
    causation_id: UUID | None


@dataclass(frozen=True)
class Envelope(Generic[F_co]):
    """A fact as published: who said it, when, and because of what."""

    id: UUID
    fact: F_co
    source: str
    """`assay/<service>/<copy>`."""
    time: datetime
    causation_id: UUID | None = None
    correlation_id: UUID | None = None
    """The goal's root: the id of its goal.accepted."""
    traceparent: str | None = None

    @property
    def goal_id(self) -> GoalId | None:
        return self.fact.about_goal

    @property
    def subject(self) -> str:
        return subject_of(self.fact)


@dataclass(frozen=True)
class Recorded(Generic[F_co]):
    """An envelope at its place in the log."""

    position: int
    envelope: Envelope[F_co]
    recorded_at: datetime

    @property
    def fact(self) -> F_co:
        return self.envelope.fact

    @property
    def id(self) -> UUID:
        return self.envelope.id


def answer(cause: Envelope[Any], slot: str, fact: F, ordinal: int = 0) -> Draft[F]:
    """A draft whose id is derived from the decision `slot` about `cause`."""
    return Draft(answer_id(cause.id, slot, ordinal), fact, cause.id)


def due(goal_id: str, slot: str, fact: F, n: int = 0, because: UUID | None = None) -> Draft[F]:
    """A draft of what the librarian states about a goal: the `n`-th of `slot`."""
    return Draft(due_id(goal_id, slot, n), fact, because)


def subject_of(fact: Fact) -> str:
    """`assay.fact.<noun>.<participle>.<route>.<goal_id>`."""
    noun, participle = noun_and_participle(type(fact))
    return f"{FACT_PREFIX}.{noun}.{participle}.{fact.routed_to}.{fact.about_goal or NO_GOAL}"


def subject_filter(fact: type[Fact], route: str = "*") -> str:
    """The subjects of one kind of fact, for a consumer's filter."""
    noun, participle = noun_and_participle(fact)
    return f"{FACT_PREFIX}.{noun}.{participle}.{route}.*"


def encode(envelope: Envelope[Fact]) -> Message:
    """The message that states `envelope`. Raises Bug when it is over 512 KiB: cut or move bulk data first."""
    body = envelope.fact.model_dump_json().encode()
    if len(body) > MAX_FACT_BYTES:
        raise Bug(f"{envelope.fact.TYPE} is {len(body)} bytes; a fact may have {MAX_FACT_BYTES}")
    headers = {
        "ce-specversion": "1.0",
        "ce-id": str(envelope.id),
        "ce-type": envelope.fact.TYPE,
        "ce-source": envelope.source,
        "ce-subject": envelope.goal_id or NO_GOAL,
        "ce-time": envelope.time.astimezone(UTC).isoformat(timespec="microseconds"),
        "content-type": "application/json",
    }
    for name, value in (
        ("ce-causationid", envelope.causation_id),
        ("ce-correlationid", envelope.correlation_id),
        ("ce-traceparent", envelope.traceparent),
    ):
        if value is not None:
            headers[name] = str(value)
    return Message(envelope.subject, headers, body)


def decode(message: Message) -> Envelope[Fact]:
    """The envelope of `message`, upcast to the newest version. Raises Poison, naming what is wrong."""
    headers = {name.lower(): value for name, value in message.headers.items()}
    type_ = headers.get("ce-type", "")
    try:
        return Envelope(
            id=UUID(headers["ce-id"]),
            fact=_parse_fact(type_, message.body),
            source=headers["ce-source"],
            time=datetime.fromisoformat(headers["ce-time"]),
            causation_id=_uuid(headers.get("ce-causationid")),
            correlation_id=_uuid(headers.get("ce-correlationid")),
            traceparent=headers.get("ce-traceparent"),
        )
    except KeyError as missing:
        raise Poison(f"{message.subject}: header {missing} is missing; every fact carries the ce-* headers") from None
    except ValidationError as error:
        raise Poison(f"{message.subject}: {type_} does not parse: {_first_error(error)}") from error
    except (ValueError, RecursionError) as error:
        raise Poison(f"{message.subject}: {error or type(error).__name__}") from error


def _parse_fact(type_: str, body: bytes) -> Fact:
    if type_ in FACTS:
        return FACTS[type_].model_validate_json(body)
    newest, data = upcast(type_, json.loads(body))
    if newest not in FACTS:
        raise ValueError(f"unknown fact type {type_!r}; a newer Assay may have written it")
    return FACTS[newest].model_validate_json(json.dumps(data))


def _uuid(text: str | None) -> UUID | None:
    return UUID(text) if text else None


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"${''.join(f'.{part}' for part in first['loc'])}: {first['msg']}"
