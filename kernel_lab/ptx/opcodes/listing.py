"""The opcode table as docs/ptx-executor.md shows it: `python -m kernel_lab.ptx.opcodes.listing`."""

from collections import defaultdict
from collections.abc import Iterable

from kernel_lab.ptx.opcodes.all import ENTRIES
from kernel_lab.ptx.opcodes.table import Opcode

MANY = 12
"""Chosen: longer lists of type combinations are shown by their parts."""


def markdown() -> str:
    """One row per opcode, tier and section of the manual."""
    rows: dict[tuple[int, str, str], list[Opcode]] = defaultdict(list)
    for entry in ENTRIES:
        rows[entry.tier, entry.section, entry.name].append(entry)
    lines = ["| tier | opcode | forms | types | section of the PTX ISA manual |", "|---|---|---|---|---|"]
    lines += [_row(tier, section, name, entries) for (tier, section, name), entries in sorted(rows.items())]
    return "\n".join(lines)


def _row(tier: int, section: str, name: str, entries: list[Opcode]) -> str:
    forms = sorted({".".join(sorted(entry.needs)) for entry in entries} - {""})
    types = _types(type_ for entry in entries for type_ in entry.types)
    return f"| T{tier} | `{name}` | {_code(forms)} | {types} | {section} |"


def _types(types: Iterable[str]) -> str:
    found = sorted(set(types) - {""})
    if len(found) <= MANY:
        return _code(found)
    places = [sorted({type_.split(".")[place] for type_ in found}) for place in range(found[0].count(".") + 1)]
    return " × ".join(_code(place) for place in places)


def _code(words: Iterable[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    print(markdown())
