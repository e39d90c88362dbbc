"""Data flow over the blocks: what is live where, and which reads may come before any write."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_lab.ptx.program import Block, Code


def _mask(slots: Iterable[int]) -> int:
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits


def _slots(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def live_slots(blocks: Sequence["Block"], registers: frozenset[int]) -> list[list[int]]:
    """The register slots that each block, or what follows it, may read before writing them."""
    used, killed = [], []
    for block in blocks:
        reads, writes = 0, 0
        for code in block.codes:
            reads |= _mask(code.reads_if_guarded) & ~writes
            writes |= 0 if code.guard else _mask(code.writes)
        used.append(reads | (_mask(block.end_reads) & ~writes))
        killed.append(writes)
    live = [0] * (len(blocks) + 1)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            after = 0
            for target in block.targets:
                after |= live[target]
            now = used[block.index] | (after & ~killed[block.index])
            if now != live[block.index]:
                live[block.index], changed = now, True
    every = _mask(registers)
    return [_slots(bits & every) for bits in live[:-1]]


Suspect = tuple[int, int, int]
"""Block, position in it, register slot."""


def definitely_assigned(blocks: Sequence["Block"], registers: frozenset[int]) -> tuple[set[Suspect], set[int]]:
    """Reads that some path reaches before a write, and the registers to watch for them.

    A mov of an unwritten register is no read: it makes the copy unwritten (compilers move undefined values around).
    """
    every = _mask(registers)
    at_start = [-1] * (len(blocks) + 1)  # all known, until a path says otherwise
    at_start[0] = ~every
    changed = True
    while changed:
        changed = False
        for block in blocks:
            after = at_start[block.index]
            for code in block.codes:
                after = _assign(after, code)
            for target in block.targets:
                if at_start[target] & after != at_start[target]:
                    at_start[target] &= after
                    changed = True
    return _suspects(blocks, at_start)


def _assign(known: int, code: "Code") -> int:
    if code.guard is not None:
        return known
    if code.is_move and not known >> code.reads[0] & 1:
        return known & ~_mask(code.writes)
    return known | _mask(code.writes)


def _suspects(blocks: Sequence["Block"], at_start: list[int]) -> tuple[set[Suspect], set[int]]:
    suspects: set[Suspect] = set()
    watched: set[int] = set()
    for block in blocks:
        known = at_start[block.index]
        for position, code in enumerate(block.codes):
            unknown = [slot for slot in code.inputs if not known >> slot & 1]
            watched.update(unknown)
            if code.is_move:
                watched.update(code.writes if unknown else ())
                unknown = [slot for slot in unknown if code.guard and slot == code.guard[0]]
            suspects.update((block.index, position, slot) for slot in unknown)
            known = _assign(known, code)
    return suspects, watched
