"""From the bytes of a request to a JSON object that Assay can keep, with everything wrong on the way."""

import base64
import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from schemas.requests import MAX_REQUEST_BYTES, Problem, RawRequest

MAX_DEPTH = 32
"""Brackets within brackets. Chosen: a goal file needs six; Python's parser gives up near a thousand."""
RAW_KEPT_BYTES = 64 * 1024
"""Chosen: escaped sixfold by JSON it still fits a fact of 512 KiB."""
MAX_INTEGER_DIGITS = 18
"""Chosen: every field that takes an integer is below 2**63."""

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request's JSON object; None when the text gives none."""

    value: dict[str, Any] | None
    problems: tuple[Problem, ...]


def raw_request(subject: str, body: bytes, author: str = "unsigned") -> RawRequest:
    """The request as its answer carries it: text when Postgres can store the text, else base64."""
    kept = body[:RAW_KEPT_BYTES]
    cut = len(body) > len(kept)
    text = _storable_text(kept, cut)
    if text is None:
        kept = body[: RAW_KEPT_BYTES * 3 // 4]
        text, encoding = base64.b64encode(kept).decode(), "base64-cut" if len(kept) < len(body) else "base64"
    else:
        encoding = "utf-8-cut" if cut else "utf-8"
    return RawRequest.model_validate(
        {
            "subject": printable(subject)[:256],
            "sha256": hashlib.sha256(body).hexdigest(),
            "size": len(body),
            "body": text,
            "encoding": encoding,
            "author": printable(author)[:256] or "unsigned",
        }
    )


def parse(body: bytes) -> Parsed:
    """The object in `body`, or why there is none. Nothing in `body` can crash, stall or flood this."""
    if len(body) > MAX_REQUEST_BYTES:
        return _refused(f"the request has {len(body)} bytes; at most {MAX_REQUEST_BYTES} are read")
    if not body.strip():
        return _refused(
            "the request is empty", 'send a JSON object, for example {"workload": "softmax", "target": "cpu"}'
        )
    if nests_deeper_than(MAX_DEPTH, body):
        return _refused(f"nested more than {MAX_DEPTH} brackets deep", "a goal file needs six")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return _refused(f"not UTF-8: byte {error.start} is 0x{body[error.start]:02x}")
    return _parse_text(text)


def nests_deeper_than(limit: int, body: bytes) -> bool:
    """Some bracket outside strings stands more than `limit` deep. Linear in `body`, well-formed or not."""
    outside_strings = b"".join(_ESCAPE.sub(b"", body).split(b'"')[::2])
    depth = 0
    for bracket in outside_strings.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > limit:
            return True
    return False


def json_path(*parts: object) -> str:
    """`$.shapes[0].T`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{printable(str(part))}" for part in parts)


def scrubbed(value: Any) -> Any:
    """`value` with every character that cannot be stored as `?`: for checking the rest of a refused request."""
    match value:
        case dict():
            return {scrubbed(name): scrubbed(item) for name, item in value.items()}
        case list():
            return [scrubbed(item) for item in value]
        case str():
            return value.replace("\0", "?").encode("utf-8", "replace").decode()
        case _:
            return value


def printable(text: str) -> str:
    """`text` on one storable line, whatever was in it."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _parse_text(text: str) -> Parsed:
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            twice.extend(name for name, times in Counter(name for name, _ in items).items() if times > 1)
        return found

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_int=_integer)
    except json.JSONDecodeError as error:
        return _refused(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    if not isinstance(value, dict):
        return _refused("the request is not a JSON object", "wrap it in { }")
    problems = [
        Problem(path="$", message=f"the key {printable(name)[:80]} is given twice", hint="keep one") for name in twice
    ]
    return Parsed(value, (*problems, *_unstorable(value, ())))


def _integer(digits: str) -> int | float:
    """Longer ones become floats that no field takes, so they are refused where they stand."""
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS + 1 else float(digits)


def _unstorable(value: Any, path: tuple[object, ...]) -> list[Problem]:
    """Strings that Postgres refuses and numbers that are none, each with its path."""
    match value:
        case dict():
            inside = [_unstorable(item, (*path, name)) for name, item in value.items()]
            return [p for name in value for p in _bad_text(name, (*path, name))] + [p for some in inside for p in some]
        case list():
            return [p for index, item in enumerate(value) for p in _unstorable(item, (*path, index))]
        case str():
            return _bad_text(value, path)
        case float() if not math.isfinite(value):
            return [Problem(path=json_path(*path), message=f"{value} is not a number that JSON knows")]
        case _:
            return []


def _bad_text(text: str, path: tuple[object, ...]) -> list[Problem]:
    if "\0" in text:
        return [Problem(path=json_path(*path), message="contains the character \\u0000, which cannot be stored")]
    if any("\ud800" <= c <= "\udfff" for c in text):
        return [
            Problem(path=json_path(*path), message="contains half of a surrogate pair", hint="send whole characters")
        ]
    return []


def _storable_text(kept: bytes, cut: bool) -> str | None:
    try:
        text = kept.decode("utf-8", "ignore" if cut else "strict")
    except UnicodeDecodeError:
        return None
    lost_in_the_middle = cut and len(text.encode()) < len(kept) - 3  # a cut costs at most three bytes of a character
    return None if "\0" in text or lost_in_the_middle else text


def _refused(message: str, hint: str = "") -> Parsed:
    return Parsed(None, (Problem(path="$", message=message, hint=hint),))
