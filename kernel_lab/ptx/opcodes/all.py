"""The whole table."""

from kernel_lab.ptx.opcodes import (
    atomics,
    bits,
    bulk,
    compare,
    control,
    convert,
    copying,
    floating,
    integer,
    matrix,
    mbarrier,
    memory,
    move,
    sync,
    warp,
)
from kernel_lab.ptx.opcodes.table import Opcode, Table

FAMILIES = (
    integer,
    floating,
    compare,
    bits,
    convert,
    move,
    memory,
    sync,
    warp,
    atomics,
    matrix,
    copying,
    mbarrier,
    bulk,
    control,
)
ENTRIES: tuple[Opcode, ...] = tuple(entry for family in FAMILIES for entry in family.ENTRIES)


def _table() -> Table:
    table = Table()
    table.add(ENTRIES)
    return table


TABLE = _table()
