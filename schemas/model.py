"""The one base of every wire model: frozen, strict, closed, finite."""

from pydantic import BaseModel, ConfigDict

DIAGNOSTICS_LIMIT_BYTES = 16 * 1024
"""Longest free text inside a fact (architecture.md, Facts)."""


class Model(BaseModel):
    """A value that travels: immutable, no unknown keys, no coercion, no NaN or infinity."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )


def clip(text: str, limit_bytes: int = DIAGNOSTICS_LIMIT_BYTES) -> str:
    """`text` fits a fact: storable by Postgres, at most `limit_bytes` of UTF-8, the cut said in place."""
    clean = text.replace("\x00", "\\0").encode("utf-8", "replace")
    if len(clean) <= limit_bytes:
        return clean.decode("utf-8")
    note = f"\n… cut, {len(clean)} bytes in all"
    kept = clean[: limit_bytes - len(note.encode())]
    return kept.decode("utf-8", "ignore") + note
