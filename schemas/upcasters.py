"""Older versions of a fact, lifted on reading. Golden files of every version ever written stay readable.

An upcaster maps the JSON body of one type to the JSON body of the next version's type. None is needed yet: every fact
is at v1, and `tests/golden/facts/` holds one body of each.
"""

from collections.abc import Callable, Mapping
from typing import Any

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

UPCASTERS: Mapping[str, tuple[str, Upcaster]] = {}
"""Old type to (next type, function)."""


def upcast(type_: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The newest type and body that the upcasters lead to."""
    while type_ in UPCASTERS:
        type_, lift = UPCASTERS[type_][0], UPCASTERS[type_][1]
        body = lift(body)
    return type_, body
