"""Do two texts hold the same JSON? Postgres' jsonb reorders keys and rewrites numbers, and changes nothing else."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


def same_json(one: str | None, other: str | None) -> bool:
    """True when both are absent or both parse to the same value, numbers compared as exact decimals."""
    if one is None or other is None or one == other:
        return one == other
    try:
        return _written(json.loads(one)) == _written(json.loads(other)) or _exact(one) == _exact(other)
    except (ValueError, RecursionError):
        return False  # Assay writes neither such nesting nor such numbers


def _written(value: Any) -> str:
    """Cheap and strict: `1`, `1.0` and `true` are told apart."""
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True)
class _Number:
    """A number exactly, however it was written. Equal to no string, list or boolean."""

    negative: bool
    digits: str
    exponent: int


def _exact(text: str) -> Any:
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> _Number:
    sign, digits, exponent = Decimal(text).as_tuple()
    kept = "".join(map(str, digits)).lstrip("0")
    significant = kept.rstrip("0")
    if not significant:
        return _Number(negative=False, digits="0", exponent=0)
    return _Number(bool(sign), significant, int(exponent) + len(kept) - len(significant))
