"""Asynchronous copies to shared memory: done when somebody waits, and visible to nobody before."""

from dataclasses import dataclass

import numpy as np

from kernel_lab.ptx.group import Array, Group
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.memory.shadow import PENDING
from kernel_lab.ptx.memory.shared import SharedMemory


@dataclass(eq=False)
class Copy:
    """Copies of one instruction that are under way: per lane its thread, stamp, row, bytes and commit group."""

    access: Access
    lanes: Array
    threads: Array
    rows: Array
    data: Array
    groups: Array

    def part(self, chosen: Array) -> "Copy":
        """Some of its lanes."""
        return Copy(
            self.access, self.lanes[chosen], self.threads[chosen], self.rows[chosen], self.data[chosen],
            self.groups[chosen],
        )  # fmt: skip


class Copies:
    """The cp.async groups of every thread of the wave."""

    def __init__(self, shared: SharedMemory) -> None:
        self._shared = shared
        self._under_way: list[Copy] = []
        self._committed = np.zeros(0, np.int64)

    def begin_wave(self, lanes: int) -> None:
        """Nothing is under way."""
        self._under_way = []
        self._committed = np.zeros(lanes, np.int64)

    def start(self, g: Group, access: Access, addresses: Array, data: Array) -> None:
        """The lanes copy their bytes to these shared addresses, some time."""
        shared = self._shared
        rows, allowed = shared.rows_to_write(g, access, addresses)
        rows = g.full(rows)
        copy = Copy(access, g.lanes, g.r[0], rows, data, self._committed[g.lanes])
        if allowed is not None:
            copy = copy.part(allowed)
        mark(shared, access, copy.rows, copy.threads + shared.order.stamp() + PENDING)
        self._under_way.append(copy)

    def commit(self, g: Group) -> None:
        """What the lanes started since the last commit is one group."""
        self._committed[g.lanes] += 1

    def wait(self, g: Group, still: int | None) -> None:
        """All but the lanes' last `still` groups are done; None: everything, committed or not."""
        here = np.zeros(self._committed.size, bool)
        here[g.lanes] = True
        remaining = []
        for copy in self._under_way:
            done = here[copy.lanes]
            if still is not None:
                done = done & (copy.groups < self._committed[copy.lanes] - still)
            if done.any():
                finish(self._shared, copy if done.all() else copy.part(done))
            if not done.all():
                remaining.append(copy.part(~done))
        self._under_way = remaining

    def hand_over(self, lanes: Array) -> list[Copy]:
        """The copies of these lanes that are under way: somebody else finishes them."""
        taken, kept = [], []
        for copy in self._under_way:
            theirs = np.isin(copy.lanes, lanes)
            if theirs.any():
                taken.append(copy.part(theirs))
            if not theirs.all():
                kept.append(copy.part(~theirs))
        self._under_way = kept
        return taken


def mark(shared: SharedMemory, access: Access, rows: Array, stamps: Array) -> None:
    """These rows carry these stamps."""
    written = shared.shadow.rows(shared.shadow.written, access.size)
    written[rows] = stamps if written.ndim == 1 else stamps[:, None]


def finish(shared: SharedMemory, copy: Copy) -> None:
    """The bytes are there, written by their threads now."""
    shared.view(1, copy.access.size)[copy.rows] = copy.data
    mark(shared, copy.access, copy.rows, copy.threads + shared.order.stamp())
