"""Global, constant and parameter memory: one arena, with a shadow that outlives the waves of CTAs."""

import numpy as np

from kernel_lab.ptx.findings import Findings
from kernel_lab.ptx.group import THREAD, Group
from kernel_lab.ptx.launch import Checks
from kernel_lab.ptx.memory.arena import Layout, Region, raw_bytes
from kernel_lab.ptx.memory.checked import Access, Checked, Words
from kernel_lab.ptx.memory.shadow import PENDING, Shadow
from kernel_lab.ptx.order import Order, thread_of
from kernel_lab.ptx.report import Kind

Array = np.ndarray
UNSIGNED = np.uint64
ROWS_AT_ONCE = 1024
"""Chosen: at most 4 KiB for each CTA of a wave."""


class GlobalMemory(Checked):
    """In the shadow, -1 is read only, 0 initialised by the host, 1 uninitialised, more a stamp."""

    def __init__(self, layout: Layout, granule: int, order: Order, findings: Findings, checks: Checks) -> None:
        words = Words(
            "global", Kind.UNINITIALISED_GLOBAL, Kind.GLOBAL_RACE, checks.uninitialised_global, checks.global_race
        )
        shadow = Shadow(layout.size, granule, 0, order.padded)
        super().__init__(layout.size, shadow, layout, order, findings, checks, words)

    def fill(self, region: Region, content: Array | None) -> None:
        """A region is there: with this content, or uninitialised."""
        mark = {"in": self.read_only, "out": self.uninitialised, "inout": self.initial}[region.role]
        self.shadow.mark(region.start, region.stop, mark)
        if content is not None:
            self.bytes[region.start : region.stop] = raw_bytes(content)

    def rows_to_read(self, g: Group, access: Access, addresses: Array) -> Array:
        """The rows that these addresses read, after every check."""
        size = access.size
        rows = (addresses >> UNSIGNED(size.bit_length() - 1)).view(np.int64)
        if int(np.bitwise_or.reduce(addresses)) & (size - 1):
            self.misaligned(g, access, addresses)
        entries = self.shadow.rows(self.shadow.written, size).take(rows, 0, None, "clip")
        worst = int(entries.max())
        if worst != self.read_only:
            if worst > 0:
                self.judge_read(g, access, addresses, entries)
            self._remember(g, access, rows, entries)
        return rows

    def _remember(self, g: Group, access: Access, rows: Array, entries: Array) -> None:
        if access.updates or not self.words.check_race:
            return
        granules = self.shadow.granules(np.clip(g.full(rows), 0, self._last_row(access)), access.size)
        stamps = np.repeat(g.r[THREAD] + self.order.stamp(access.strong), access.size // self.shadow.granule)
        writable = g.full(entries).reshape(-1) != self.read_only
        if not writable.all():
            granules, stamps = granules[writable], stamps[writable]
        self.shadow.remember(granules, stamps, 0)

    def rows_to_write(self, g: Group, access: Access, addresses: Array) -> tuple[Array, Array | None]:
        """The rows that these addresses write, and the lanes that may (None: all), after every check."""
        size = access.size
        rows = (addresses >> UNSIGNED(size.bit_length() - 1)).view(np.int64)
        if int(np.bitwise_or.reduce(addresses)) & (size - 1):
            self.misaligned(g, access, addresses)
        entries = self.shadow.rows(self.shadow.written, size).take(rows, 0, None, "clip")
        if int(entries.view(UNSIGNED).max()) > 1:
            return rows, self.judge_write(g, access, addresses, entries, rows)
        readers = self.shadow.rows(self.shadow.read, size).take(rows, 0, None, "clip")
        if readers.any():
            return rows, self.judge_write(g, access, addresses, entries, rows)
        return rows, None

    def heard(self, g: Group, access: Access, rows: Array) -> None:
        """A strong read saw strong writes: their CTAs may have handed data over."""
        granules = self.shadow.granules(np.clip(g.full(rows), 0, self._last_row(access)), access.size)
        entries = self.shadow.written[granules]
        strong = (entries > 1) & (entries < PENDING) & ((entries & 1) == 1)
        if strong.any():
            readers = np.repeat(g.threads, access.size // self.shadow.granule)[strong]
            padded = self.order.padded
            self.order.hear(readers // padded, thread_of(entries[strong]) // padded)

    def heard_in_turn(self, g: Group, rows: Array) -> None:
        """Lanes of one atomic instruction meet at a row: each CTA hears those that had their turn before it."""
        ctas = g.threads // self.order.padded
        if not self.words.check_race or ctas[0] == ctas[-1]:
            return
        row_ids, row = np.unique(rows, return_inverse=True)
        cta_ids, cta = np.unique(ctas, return_inverse=True)
        for first in range(0, row_ids.size, ROWS_AT_ONCE):
            here = (row >= first) & (row < first + ROWS_AT_ONCE)
            came = np.zeros((ROWS_AT_ONCE, cta_ids.size), np.float32)
            came[row[here] - first, cta[here]] = 1.0
            later, earlier = np.nonzero(np.tril(came.T @ came, -1))
            self.order.hear(cta_ids[later], cta_ids[earlier])
