"""mbarrier objects: phases that end when all arrivals and all bytes have come ("mbarrier" in the ISA manual)."""

from dataclasses import dataclass, field

import numpy as np

from kernel_lab.ptx.copies import Copies, Copy, finish
from kernel_lab.ptx.findings import Findings
from kernel_lab.ptx.group import Array, Group
from kernel_lab.ptx.launch import Checks
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.memory.shared import SharedMemory
from kernel_lab.ptx.order import Order
from kernel_lab.ptx.report import Kind

MOST_ARRIVALS = (1 << 20) - 1
"""Section "Contents of the mbarrier object"."""


@dataclass(eq=False)
class Mbarrier:
    """One object: arrivals and bytes that the current phase still waits for, and what its releasers know."""

    cta: int
    expected: int
    known: Array
    pending: int = 0
    bytes_due: int = 0
    phase: int = 0
    done: Array | None = None
    copies: list[Copy] = field(default_factory=list)
    landed: list[Copy] = field(default_factory=list)
    """Copies of the phases that ended, which nobody has waited for yet."""


class Mbarriers:
    """The mbarrier objects of one wave, by their place in its shared memory."""

    def __init__(self, shared: SharedMemory, copies: Copies, order: Order, findings: Findings, checks: Checks) -> None:
        self._shared, self._copies, self._order = shared, copies, order
        self._findings, self._checks = findings, checks
        self._objects: dict[int, Mbarrier] = {}
        self.changes = 0
        """Grows with every arrival: waiting threads have something new to look at."""
        self.phases = 0
        """Grows with every phase that ends."""

    def begin_wave(self) -> None:
        """No object exists."""
        self._objects = {}

    def _misuse(self, access: Access, threads: Array, message: str) -> None:
        if self._checks.barrier_misuse:
            self._findings.add(Kind.BARRIER_MISUSE, access.site, threads, message)

    def initialise(self, g: Group, access: Access, addresses: Array, counts: Array) -> None:
        """Fresh objects that expect so many arrivals in each phase."""
        rows, allowed = self._shared.rows_to_write(g, access, addresses)
        values = np.zeros(g.n, np.uint64)
        self._shared.store(g, access, addresses, rows, self._shared.view(8), values, allowed)
        for row, lane, count in zip(g.full(rows).tolist(), g.lanes.tolist(), g.full(counts).tolist(), strict=True):
            if not 1 <= count <= MOST_ARRIVALS:
                self._misuse(access, g.threads[:1], f"{count} is no arrival count")
            padded = self._order.padded
            self._objects[row] = Mbarrier(lane // padded, count, np.zeros(padded, np.int64), pending=count)

    def invalidate(self, g: Group, access: Access, addresses: Array) -> None:
        """The objects are memory again."""
        for row in self._rows(g, access, addresses).tolist():
            self._objects.pop(row, None)

    def _rows(self, g: Group, access: Access, addresses: Array) -> Array:
        return g.full(self._shared.rows_to_read(g, access, addresses))

    def _by_object(self, g: Group, access: Access, addresses: Array) -> list[tuple[Mbarrier, Array]]:
        """Each object that lanes name, with the positions of those lanes."""
        rows = self._rows(g, access, addresses)
        found = []
        for row in np.unique(rows).tolist():
            here = np.flatnonzero(rows == row)
            if row in self._objects:
                found.append((self._objects[row], here))
            else:
                self._misuse(access, g.threads[here], "there is no mbarrier here: it was never initialised")
        return found

    def arrive(
        self, g: Group, access: Access, addresses: Array, counts: Array, expect: Array | None, *, drops: bool = False
    ) -> Array:
        """The lanes arrive, after adding the bytes they expect; per lane the phase in which they came."""
        phases = np.zeros(g.n, np.uint64)
        counts = g.full(counts)
        for barrier, here in self._by_object(g, access, addresses):
            if expect is not None:
                barrier.bytes_due += int(g.full(expect)[here].sum())
            self._release(barrier, g.lanes[here])
            for position in here.tolist():
                phases[position] = barrier.phase
                count = int(counts[position])
                if count > barrier.pending:
                    self._misuse(access, g.threads[position : position + 1], "more arrivals than this phase expects")
                barrier.pending = max(barrier.pending - count, 0)
                barrier.expected -= count if drops else 0
                self._complete(barrier)
                if barrier.phase != int(phases[position]):
                    self._release(barrier, g.lanes[here])
        return phases

    def _release(self, barrier: Mbarrier, lanes: Array) -> None:
        self._order.now += 1
        barrier.known = np.maximum(barrier.known, self._order.knowledge(lanes))

    def expect(self, g: Group, access: Access, addresses: Array, size: Array) -> None:
        """The current phase waits for so many more bytes."""
        for barrier, here in self._by_object(g, access, addresses):
            barrier.bytes_due += int(g.full(size)[here].sum())
            self._complete(barrier)

    def receive(self, g: Group, access: Access, addresses: Array, copies: list[Copy], sizes: list[int]) -> None:
        """Bytes are on their way to each lane's object: they are there, for who waits, when its phase ends."""
        for barrier, here in self._by_object(g, access, addresses):
            for position in here.tolist():
                barrier.copies.append(copies[position])
                barrier.bytes_due -= sizes[position]
            self._complete(barrier)

    def arrive_after_copies(self, g: Group, access: Access, addresses: Array, *, counted: bool) -> None:
        """The lanes arrive when their cp.async copies are done (cp.async.mbarrier.arrive)."""
        for barrier, here in self._by_object(g, access, addresses):
            barrier.copies += self._copies.hand_over(g.lanes[here])
            self._release(barrier, g.lanes[here])
            if counted:
                barrier.pending = max(barrier.pending - here.size, 0)
            self._complete(barrier)

    def _complete(self, barrier: Mbarrier) -> None:
        """Ends the phase if nothing is missing."""
        self.changes += 1
        if barrier.pending or barrier.bytes_due:
            return
        barrier.landed += barrier.copies
        barrier.copies = []
        barrier.done, barrier.known = barrier.known, np.zeros_like(barrier.known)
        barrier.phase += 1
        barrier.pending = barrier.expected
        self.phases += 1

    def _land(self, barrier: Mbarrier) -> None:
        """Somebody saw the phase end: the copied bytes are there, for who saw it."""
        order = self._order
        for copy in barrier.landed:
            finish(self._shared, copy)
            order.now += 1
            local = copy.lanes % order.padded
            assert barrier.done is not None
            barrier.done[local] = np.maximum(barrier.done[local], order.now)
        barrier.landed = []

    def test(self, g: Group, access: Access, addresses: Array, wanted: Array, *, parity: bool) -> Array:
        """Per lane, whether the phase it names has ended; who sees an end knows what was released into it."""
        ended = np.zeros(g.n, bool)
        wanted = g.full(wanted)
        for barrier, here in self._by_object(g, access, addresses):
            current = barrier.phase & 1 if parity else barrier.phase
            ended[here] = wanted[here] != current
            lanes = g.lanes[here][ended[here]]
            if lanes.size and barrier.done is not None:
                self._land(barrier)
                self._order.learn(lanes, barrier.done)
        return ended
