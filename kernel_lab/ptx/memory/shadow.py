"""Who accessed which granule of memory last: the race checkers' memory.

A granule is as small as the narrowest access of the kernel to that space, so this finds what bytes would find.
`written` holds a stamp, or one of the marks below. `read` is the last reader, `other` one more of another team where
there is one (warps in shared memory, CTAs in global memory): a write that conflicts with any reader conflicts with one
of these two.
"""

import numpy as np

from kernel_lab.ptx.order import thread_of

Array = np.ndarray

RED = 1 << 62
"""A granule that belongs to no buffer."""
PENDING = 1 << 61
"""Added to the stamp of an asynchronous copy that nobody has waited for."""
UNSIGNED = np.uint64


class Shadow:
    """The shadow of one memory of `size_bytes`."""

    def __init__(self, size_bytes: int, granule: int, team_shift: int, team_size: int) -> None:
        self.granule = granule
        count = size_bytes // granule
        self.written = np.full(count, RED, np.int64)
        self.read = np.zeros(count, np.int64)
        self.other = np.zeros(count, np.int64)
        self._team_shift, self._team_size = team_shift, team_size

    def rows(self, array: Array, size: int) -> Array:
        """An array of the shadow, one row per aligned access of `size` bytes; flat where that is one granule."""
        per_access = size // self.granule
        return array if per_access == 1 else array.reshape(-1, per_access)

    def mark(self, start: int, stop: int, mark: int) -> None:
        """Bytes [start, stop) now carry a mark; a granule that is partly outside does too."""
        self.written[start // self.granule : -(-stop // self.granule)] = mark

    def granules(self, rows: Array, size: int) -> Array:
        """The granules of accesses, flat, access by access."""
        per_access = size // self.granule
        if per_access == 1:
            return rows
        return (rows[:, None] * per_access + np.arange(per_access)).ravel()

    def remember(self, granules: Array, stamps: Array, floor: int) -> None:
        """These granules were read; readers below `floor` are known to everybody and may be forgotten."""
        before = self.read[granules]
        self.read[granules] = stamps
        winner = self.read[granules]
        lost = thread_of(winner) != thread_of(stamps)
        if lost.any():
            self._second(granules[lost], stamps[lost], winner[lost], floor)
        earlier = (before >= max(floor, 1)) & (thread_of(before) != thread_of(winner))
        if earlier.any():
            self._second(granules[earlier], before[earlier], winner[earlier], floor)

    def _second(self, granules: Array, candidates: Array, winner: Array, floor: int) -> None:
        current = self.other[granules]
        foreign = self._team(candidates) != self._team(winner)
        keep = (current >= max(floor, 1)) & (self._team(current) != self._team(winner)) & ~foreign
        self.other[granules[~keep]] = candidates[~keep]

    def _team(self, stamps: Array) -> Array:
        return (thread_of(stamps) >> self._team_shift) // self._team_size
