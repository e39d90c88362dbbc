"""Shared memory: one stretch per CTA of the wave, with red zones between variables and behind the last."""

import numpy as np

from kernel_lab.ptx.findings import Findings
from kernel_lab.ptx.group import ROW, THREAD, Group
from kernel_lab.ptx.launch import Checks
from kernel_lab.ptx.memory.arena import Layout
from kernel_lab.ptx.memory.checked import Access, Checked, Words
from kernel_lab.ptx.memory.shadow import Shadow
from kernel_lab.ptx.order import Order
from kernel_lab.ptx.report import Kind

Array = np.ndarray
UNSIGNED = np.uint64
LOG_LIMIT = 1 << 16
"""Chosen, in lanes: reads are only remembered where a write or a barrier of some CTAs follows, or the log is full."""


class SharedMemory(Checked):
    """In the shadow, -1 is uninitialised, more than 1 a stamp. `stride` bytes, a power of two, belong to each CTA."""

    def __init__(
        self, layout: Layout, ctas: int, granule: int, order: Order, findings: Findings, checks: Checks
    ) -> None:
        self.stride = 1 << (layout.size - 1).bit_length()
        words = Words(
            "shared", Kind.UNINITIALISED_SHARED, Kind.SHARED_RACE, checks.uninitialised_shared, checks.shared_race
        )
        shadow = Shadow(ctas * self.stride, granule, 5, 1)
        super().__init__(ctas * self.stride, shadow, layout, order, findings, checks, words)
        self.uninitialised = self.read_only = -1
        self.ctas = ctas
        self._log: list[tuple[Array, Array, int]] = []
        self._logged = 0
        one = Shadow(self.stride, granule, 5, 1)
        for region in layout.regions:
            one.mark(region.start, region.stop, self.uninitialised)
        self._blank = one.written

    def begin_wave(self) -> None:
        """Fresh CTAs: nothing is initialised, nobody has accessed anything."""
        self.bytes.fill(0xFB)
        self.shadow.written.reshape(self.ctas, -1)[:] = self._blank
        self.shadow.read.fill(0)
        self.shadow.other.fill(0)
        self.forget_reads()

    def owner(self, address: int) -> tuple[str, str]:
        """The variable of a shared address."""
        return self.layout.owner(address & (self.stride - 1))

    def rows(self, g: Group, access: Access, addresses: Array) -> Array:
        """Rows of the wave's memory for 32-bit shared addresses; a wild address gets a row in the red."""
        together = int(np.bitwise_or.reduce(addresses))
        if together & (access.size - 1):
            self.misaligned(g, access, addresses)
        if together >= self.stride:
            addresses = np.where(addresses < self.stride, addresses, 0).astype(np.int64)
        return (addresses + g.r[ROW]) >> (access.size.bit_length() - 1)

    def rows_to_read(self, g: Group, access: Access, addresses: Array) -> Array:
        """The rows that these addresses read, after every check."""
        rows = self.rows(g, access, addresses)
        entries = self.shadow.rows(self.shadow.written, access.size).take(rows, 0, None, "clip")
        if int(entries.view(UNSIGNED).max()) >= self.order.floor:
            self.judge_read(g, access, addresses, entries)
        if self.words.check_race and not access.updates:
            self._log.append((rows, g.r[THREAD] + self.order.stamp(access.strong), access.size))
            self._logged += rows.size
            if self._logged > LOG_LIMIT:
                self.flush_reads()
        return rows

    def forget_reads(self) -> None:
        """All CTAs passed a barrier: who read before can conflict with nobody."""
        self._log.clear()
        self._logged = 0

    def flush_reads(self) -> None:
        """The logged reads are in the shadow."""
        if not self._log:
            return
        for size in {size for _, _, size in self._log}:
            rows = np.concatenate([rows for rows, _, this in self._log if this == size])
            stamps = np.concatenate([stamps for _, stamps, this in self._log if this == size])
            granules = self.shadow.granules(np.clip(rows, 0, self.bytes.size // size - 1), size)
            self.shadow.remember(granules, np.repeat(stamps, size // self.shadow.granule), self.order.floor)
        self.forget_reads()

    def rows_to_write(self, g: Group, access: Access, addresses: Array) -> tuple[Array, Array | None]:
        """The rows that these addresses write, and the lanes that may (None: all), after every check."""
        if self._log:
            self.flush_reads()
        rows = self.rows(g, access, addresses)
        size, floor = access.size, self.order.floor
        entries = self.shadow.rows(self.shadow.written, size).take(rows, 0, None, "clip")
        if int(entries.max()) >= floor:
            return rows, self.judge_write(g, access, addresses, entries, rows)
        readers = self.shadow.rows(self.shadow.read, size).take(rows, 0, None, "clip")
        if int(readers.max()) >= floor:
            return rows, self.judge_write(g, access, addresses, entries, rows)
        return rows, None
