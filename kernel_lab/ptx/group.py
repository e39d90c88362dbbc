"""A group of lanes that share a program counter: each register is one array over its lanes.

Arrays are never written in place, so registers may share them. A register that is the same in all lanes may be one lane
wide: numpy broadcasts it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray

THREAD = 0
"""Hidden register: the padded linear thread of the launch, shifted left by one as the stamps of a shadow want it."""
LANE = 1
"""Hidden register: the padded linear thread of the wave."""
ROW = 2
"""Hidden register: where the CTA's shared memory begins in the wave's."""
HIDDEN = 3


@dataclass(frozen=True, slots=True)
class Warps:
    """How the lanes of a group lie in warps.

    `table[w, l]` is the position in the group of lane l of the group's w-th warp, -1 where it is not here; `row[i]` is
    the warp of position i, `lane[i]` its lane. `whole` says that every warp is complete and in order.
    """

    table: Array
    row: Array
    lane: Array
    whole: bool
    ids: Array


class Group:
    """Lanes at one block. `forced` says that nobody else can come: warp operations go on with the lanes at hand."""

    __slots__ = ("_warps", "block", "forced", "last_run", "n", "r")

    def __init__(self, registers: list[Array], n: int, block: int) -> None:
        self.r, self.n, self.block = registers, n, block
        self.forced = False
        self.last_run = 0
        self._warps: Warps | None = None

    @property
    def lanes(self) -> Array:
        """The padded linear threads of the wave, ascending."""
        return self.r[LANE]

    @property
    def threads(self) -> Array:
        """The padded linear threads of the launch, ascending."""
        return self.r[THREAD] >> 1

    def full(self, values: Array) -> Array:
        """A register's value in every lane."""
        return values if values.shape[0] == self.n else np.broadcast_to(values, (self.n, *values.shape[1:]))

    def warps(self) -> Warps:
        """How the lanes lie in warps."""
        if self._warps is None:
            self._warps = _warps_of(self.lanes)
        return self._warps

    def part(self, chosen: Array, live: Sequence[int], block: int) -> "Group":
        """The chosen lanes (a mask or positions) with their live registers, at a block; the others are never read."""
        registers = list(self.r)
        for slot in live:
            value = registers[slot]
            if value.shape[0] == self.n:
                registers[slot] = value[chosen]
        return Group(registers, registers[LANE].size, block)


def _warps_of(lanes: Array) -> Warps:
    n = lanes.size
    if n % 32 == 0:
        table = np.arange(n).reshape(-1, 32)
        first = lanes[::32]
        if not (first & 31).any() and (lanes.reshape(-1, 32) == first[:, None] + np.arange(32)).all():
            return Warps(table, table.ravel() >> 5, lanes & 31, True, first >> 5)  # noqa: FBT003
    ids, row = np.unique(lanes >> 5, return_inverse=True)
    table = np.full((ids.size, 32), -1)
    lane = lanes & 31
    table[row, lane] = np.arange(n)
    return Warps(table, row, lane, False, ids)  # noqa: FBT003


def merged(groups: list[Group], live: Sequence[int], block: int) -> Group:
    """Groups that met at a block, as one with its lanes in ascending order."""
    n = sum(group.n for group in groups)
    order = np.argsort(np.concatenate([group.lanes for group in groups]), kind="stable")
    registers = list(groups[0].r)
    for slot in live:
        values = [group.r[slot] for group in groups]
        first = values[0]
        if first.shape[0] == 1 and all(value is first for value in values):
            registers[slot] = first
        else:
            registers[slot] = np.concatenate([g.full(v) for g, v in zip(groups, values, strict=True)])[order]
    return Group(registers, n, block)
