"""Constants as PTX writes them (PTX ISA manual, section 4.5)."""

import re
import struct

from kernel_lab.ptx.syntax.tree import Real

DECIMAL_REAL = re.compile(r"\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+")


def number(token: str) -> int | None:
    """The integer that a token writes, or None."""
    text = token.removesuffix("U")
    if text.isdigit():
        return int(text, 8) if len(text) > 1 and text[0] == "0" and not set(text) & {"8", "9"} else int(text)
    kind = text[:2].lower()
    if kind == "0x" and len(text) > 2:
        return int(text, 16)
    if kind == "0b" and len(text) > 2:
        return int(text, 2)
    return None


def real(token: str) -> Real | None:
    """The floating point constant that a token writes, or None."""
    kind = token[:2].lower()
    if kind == "0f" and len(token) == 10:
        bits = int(token[2:], base=16)  # noqa: FURB166  (0f is PTX's prefix, not Python's)
        return Real(struct.unpack("<f", struct.pack("<I", bits))[0], bits)
    if kind == "0d" and len(token) == 18:
        bits = int(token[2:], base=16)  # noqa: FURB166
        return Real(struct.unpack("<d", struct.pack("<Q", bits))[0])
    return Real(float(token)) if DECIMAL_REAL.fullmatch(token) else None
