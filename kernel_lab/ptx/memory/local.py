"""Local memory: a stretch of its own for every thread of the wave."""

import numpy as np

from kernel_lab.ptx.findings import Findings
from kernel_lab.ptx.group import LANE, Group
from kernel_lab.ptx.launch import Checks
from kernel_lab.ptx.memory.arena import Layout
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.report import Kind

Array = np.ndarray
RED, BLANK, WRITTEN = 2, 1, 0


class LocalMemory:
    """`stride` bytes, a power of two, belong to each thread."""

    def __init__(self, layout: Layout, threads: int, granule: int, findings: Findings, checks: Checks) -> None:
        self.stride = 1 << (layout.size - 1).bit_length()
        self.layout, self.findings, self.checks, self.granule = layout, findings, checks, granule
        self.bytes = np.zeros(threads * self.stride, np.uint8)
        self.state = np.zeros(threads * self.stride // granule, np.uint8)
        blank = np.full(self.stride // granule, RED, np.uint8)
        for region in layout.regions:
            blank[region.start // granule : -(-region.stop // granule)] = BLANK
        self._blank = blank

    def begin_wave(self) -> None:
        """Fresh threads."""
        self.bytes.fill(0xFB)
        self.state.reshape(-1, self._blank.size)[:] = self._blank

    def view(self, element: int, count: int = 1) -> Array:
        """The bytes as unsigned elements, one row per vector access; flat for scalars."""
        flat = self.bytes.view(f"u{element}")
        return flat if count == 1 else flat.reshape(-1, count)

    def _rows(self, g: Group, access: Access, addresses: Array, worst: int) -> tuple[Array, Array]:
        """Rows, and the worst state of each access."""
        wide = addresses.astype(np.int64)
        together = int(np.bitwise_or.reduce(wide))
        if together & (access.size - 1) and self.checks.alignment:
            bad = np.flatnonzero(g.full(wide) & (access.size - 1))
            self.findings.add(
                Kind.MISALIGNED, access.site, g.threads[bad], f"no multiple of {access.size}", g.full(wide)[bad]
            )
        if together >= self.stride or together < 0:
            wide = np.where((wide >= 0) & (wide < self.stride), wide, 0)
        rows = (wide + g.r[LANE] * self.stride) >> (access.size.bit_length() - 1)
        state = self._states(access)[rows]
        state = state if state.ndim == 1 else state.max(axis=1)
        if int(state.max()) >= worst:
            self._judge(g, access, wide, state, worst)
        return rows, state

    def _states(self, access: Access) -> Array:
        per_access = access.size // self.granule
        return self.state if per_access == 1 else self.state.reshape(-1, per_access)

    def _judge(self, g: Group, access: Access, addresses: Array, state: Array, worst: int) -> None:
        addresses = g.full(addresses)
        wild, blank = np.flatnonzero(state == RED), np.flatnonzero(state == BLANK)
        if wild.size and self.checks.bounds:
            message = f"{access.size} bytes in no local variable"
            self.findings.add(
                Kind.OUT_OF_BOUNDS, access.site, g.threads[wild], message, addresses[wild], self.layout.owner
            )
        if blank.size and worst == BLANK and self.checks.uninitialised_local:
            message = "nobody wrote what is read here"
            self.findings.add(
                Kind.UNINITIALISED_LOCAL, access.site, g.threads[blank], message, addresses[blank], self.layout.owner
            )

    def rows_to_read(self, g: Group, access: Access, addresses: Array) -> Array:
        """The rows that these addresses read, after every check."""
        return self._rows(g, access, addresses, BLANK)[0]

    def rows_to_write(self, g: Group, access: Access, addresses: Array) -> tuple[Array, Array | None]:
        """The rows that these addresses write, and the lanes that may (None: all), after every check."""
        rows, state = self._rows(g, access, addresses, RED)
        allowed = state != RED
        return rows, None if allowed.all() else allowed

    def store(
        self, g: Group, access: Access, addresses: Array, rows: Array, view: Array, values: Array, allowed: Array | None
    ) -> None:
        """Writes the lanes' values."""
        del addresses
        rows, values = g.full(rows), g.full(values)
        if allowed is not None:
            rows, values = rows[allowed], values[allowed]
        view[rows] = values
        self._states(access)[rows] = WRITTEN
