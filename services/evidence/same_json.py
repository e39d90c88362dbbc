"""Do two texts hold the same JSON? Postgres' jsonb reorders keys and rewrites numbers, and changes nothing else."""

import json
from decimal import Decimal
from typing import Any


def same_json(one: str | None, other: str | None) -> bool:
    """True when both are absent or both parse to the same value, numbers compared as exact decimals."""
    if one is None or other is None:
        return one is other
    try:
        return _written(json.loads(one)) == _written(json.loads(other)) or _exact(one) == _exact(other)
    except (ValueError, RecursionError):
        return False  # Assay writes neither such nesting nor such numbers


def _written(value: Any) -> str:
    """Cheap and strict: `1`, `1.0` and `true` are told apart."""
    return json.dumps(value, sort_keys=True)


def _exact(text: str) -> str:
    return _written(json.loads(text, parse_int=_decimal, parse_float=_decimal))


def _decimal(text: str) -> list[str]:
    """A number as sign, digits and exponent without trailing zeros, in a list so that no string equals it."""
    sign, digits, exponent = Decimal(text).as_tuple()
    kept = "".join(map(str, digits)).lstrip("0")
    stripped = kept.rstrip("0")
    if not stripped:
        return ["number", "0"]
    return ["number", "-" if sign else "+", stripped, str(int(exponent) + len(kept) - len(stripped))]
