"""What an audit of decisions finds, and how two facts differ."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from schemas.envelope import Draft, Recorded
from schemas.events import Fact

SHOWN_CHARACTERS = 120
"""Of a value in a finding. Chosen: a line of a terminal."""


@dataclass(frozen=True)
class Finding:
    """A recorded fact that does not follow from the log before it."""

    position: int
    type: str
    id: UUID
    message: str


def finding(recorded: Recorded[Any], message: str) -> Finding:
    """`recorded` does not follow, because `message`."""
    return Finding(recorded.position, recorded.fact.TYPE, recorded.id, message)


def disagreement(recorded: Recorded[Any], again: Draft[Any]) -> str | None:
    """How the recorded fact differs from the decision taken again, at the first place; None when it does not."""
    if recorded.fact != again.fact:
        return difference(recorded.fact, again.fact)
    if recorded.envelope.causation_id != again.causation_id:
        return f"its cause is {recorded.envelope.causation_id}, recomputed {again.causation_id}"
    return None


def difference(told: Fact, again: Fact) -> str:
    """The first JSON path at which `told` and `again` differ, with both values."""
    if told.TYPE != again.TYPE:
        return f"recomputed, it is a {again.TYPE}"
    for path, one, other in _differing("$", told.model_dump(mode="json"), again.model_dump(mode="json")):
        return f"{path} is {_short(one)}, recomputed {_short(other)}"
    return "it differs in a value that JSON does not show"


def _differing(path: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _differing(f"{path}.{key}", one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differing(f"{path}[{index}]", left, right)
    elif one != other:
        yield path, one, other


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
