"""What shared and global memory have in common: classifying the accesses that the fast test did not clear."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kernel_lab.ptx.findings import Findings, Site
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.launch import Checks
from kernel_lab.ptx.memory.arena import Layout
from kernel_lab.ptx.memory.shadow import PENDING, RED, Shadow
from kernel_lab.ptx.order import Order, thread_of
from kernel_lab.ptx.report import Kind

Array = np.ndarray


@dataclass(frozen=True)
class Access:
    """One kind of access at one instruction: `size` bytes, aligned to it."""

    site: Site
    size: int
    strong: bool = False
    """volatile, relaxed or stronger, or an atomic: two strong accesses never race."""
    updates: bool = False
    """Reads what it writes: the write's stamp stands for both."""


@dataclass(frozen=True)
class Words:
    """How a space calls its findings, and which of its checks are on."""

    name: str
    uninitialised: Kind
    race: Kind
    check_uninitialised: bool
    check_race: bool


class Checked(ABC):
    """A memory with a shadow. Subclasses know how addresses become rows and what the fast test is."""

    def __init__(
        self, size: int, shadow: Shadow, layout: Layout, order: Order, findings: Findings, checks: Checks, words: Words
    ) -> None:
        self.bytes = np.full(size, 0xFB, np.uint8)
        self.shadow, self.layout, self.order = shadow, layout, order
        self.findings, self.checks, self.words = findings, checks, words
        self.initial, self.uninitialised, self.read_only = 0, 1, -1

    @abstractmethod
    def rows_to_read(self, g: Group, access: Access, addresses: Array) -> Array:
        """The rows that these addresses read, after every check."""

    @abstractmethod
    def rows_to_write(self, g: Group, access: Access, addresses: Array) -> tuple[Array, Array | None]:
        """The rows that these addresses write, and the lanes that may (None: all), after every check."""

    def view(self, element: int, count: int = 1) -> Array:
        """The bytes as unsigned elements, one row per vector access; flat for scalars."""
        flat = self.bytes.view(f"u{element}")
        return flat if count == 1 else flat.reshape(-1, count)

    def owner(self, address: int) -> tuple[str, str]:
        """The buffer of an address."""
        return self.layout.owner(address)

    def misaligned(self, g: Group, access: Access, addresses: Array) -> None:
        """Reports the lanes whose address is no multiple of the access's size."""
        bad = np.flatnonzero(g.full(addresses) & addresses.dtype.type(access.size - 1))
        if self.checks.alignment and bad.size:
            self.findings.add(
                Kind.MISALIGNED, access.site, g.threads[bad], f"the address is no multiple of {access.size}",
                g.full(addresses)[bad], self.owner,
            )  # fmt: skip

    def judge_read(self, g: Group, access: Access, addresses: Array, entries: Array) -> None:
        """Reports what is wrong with reading granules that carry these entries (one row per lane)."""
        threads, entries, addresses = self._flat(g, access, addresses, entries)
        written = "written by thread {} of CTA {}"
        if int(entries.min()) > 1 and int(entries.max()) < PENDING:
            self._conflicts(access, threads, addresses, entries, None, written)
            return
        self._out_of_bounds(access, threads, addresses, entries >= RED)
        pending = (entries >= PENDING) & (entries < RED)
        if pending.any():
            self._pending(access, threads, addresses, pending)
        if self.words.check_uninitialised:
            blank = entries == self.uninitialised
            if blank.any():
                self._add(self.words.uninitialised, access, threads, addresses, blank, "nobody wrote what is read here")
        self._conflicts(access, threads, addresses, entries, (entries > 1) & (entries < PENDING), written)

    def judge_write(self, g: Group, access: Access, addresses: Array, entries: Array, rows: Array) -> Array | None:
        """Reports what is wrong with writing; the lanes that may write, or None for all."""
        threads, flat, flat_addresses = self._flat(g, access, addresses, entries)
        self._out_of_bounds(access, threads, flat_addresses, flat >= RED)
        read_only = flat == self.read_only
        if self.read_only != self.uninitialised and read_only.any():
            if self.checks.bounds:
                self._add(Kind.WRITE_TO_INPUT, access, threads, flat_addresses, read_only, "this buffer is an input")
        else:
            read_only = np.zeros(flat.size, bool)
        pending = (flat >= PENDING) & (flat < RED)
        if pending.any():
            self._pending(access, threads, flat_addresses, pending)
        stamped = (flat > 1) & (flat < PENDING)
        self._conflicts(access, threads, flat_addresses, flat, stamped, "written by thread {} of CTA {}")
        granules = self.shadow.granules(np.clip(g.full(rows), 0, self._last_row(access)), access.size)
        for readers in (self.shadow.read[granules], self.shadow.other[granules]):
            self._conflicts(access, threads, flat_addresses, readers, readers > 1, "read by thread {} of CTA {}")
        bad = ((flat >= RED) | read_only).reshape(g.n, -1).any(axis=1)
        return ~bad if bad.any() else None

    def _last_row(self, access: Access) -> int:
        return self.bytes.size // access.size - 1

    def _flat(self, g: Group, access: Access, addresses: Array, entries: Array) -> tuple[Array, Array, Array]:
        per_access = access.size // self.shadow.granule
        entries = g.full(entries).reshape(-1)
        threads, addresses = g.threads, g.full(addresses)
        if per_access > 1:
            steps = np.arange(per_access) * self.shadow.granule
            addresses = (addresses[:, None] + steps.astype(addresses.dtype)).ravel()
            threads = np.repeat(threads, per_access)
        return threads, entries, addresses

    def _add(self, kind: Kind, access: Access, threads: Array, addresses: Array, where: Array, message: str) -> None:
        self.findings.add(kind, access.site, threads[where], message, addresses[where], self.owner)

    def _out_of_bounds(self, access: Access, threads: Array, addresses: Array, where: Array) -> None:
        if self.checks.bounds and where.any():
            self._add(Kind.OUT_OF_BOUNDS, access, threads, addresses, where, f"{access.size} bytes in no buffer")

    def _pending(self, access: Access, threads: Array, addresses: Array, where: Array) -> None:
        if self.checks.async_before_wait:
            message = "an asynchronous copy to this place has not been waited for"
            self._add(Kind.ASYNC_BEFORE_WAIT, access, threads, addresses, where, message)

    def _conflicts(
        self, access: Access, threads: Array, addresses: Array, entries: Array, where: Array | None, message: str
    ) -> None:
        """Reports the accesses (None: all) that race with the ones that left these entries."""
        if not self.words.check_race:
            return
        if access.strong:
            weak = (entries & 1) == 0
            where = weak if where is None else where & weak
        if where is None:
            chosen = np.flatnonzero(self.order.unordered(threads, entries))
        else:
            chosen = np.flatnonzero(where)
            if chosen.size:
                chosen = chosen[self.order.unordered(threads[chosen], entries[chosen])]
        if not chosen.size:
            return
        handed = self.order.handed_over(threads[chosen], entries[chosen])
        for kind, these in ((self.words.race, chosen[~handed]), (Kind.UNPROVEN_HANDOFF, chosen[handed])):
            if these.size:
                cta, lane = divmod(int(thread_of(entries[these[:1]])[0]), self.order.padded)
                self._add(kind, access, threads, addresses, these, message.format(lane, cta) + ", with nothing between")

    def store(
        self, g: Group, access: Access, addresses: Array, rows: Array, view: Array, values: Array, allowed: Array | None
    ) -> None:
        """Writes the lanes' values and their stamps. Lanes of one CTA may write one value to one place; others race."""
        stamps = g.r[0] + self.order.stamp(access.strong)
        rows, values = g.full(rows), g.full(values)
        if allowed is not None:
            rows, values, stamps = rows[allowed], values[allowed], stamps[allowed]
            addresses = g.full(addresses)[allowed]
        shadow = self.shadow.rows(self.shadow.written, access.size)
        shadow[rows] = stamps if shadow.ndim == 1 else stamps[:, None]
        view[rows] = values
        if rows.size < 2:
            return
        kept = shadow[rows] if shadow.ndim == 1 else shadow[rows, 0]
        lost = kept != stamps
        if lost.any() and self.words.check_race and not access.strong:
            self._same_place(access, addresses, stamps, lost, kept, view[rows], values)

    def _same_place(
        self,
        access: Access,
        addresses: Array,
        stamps: Array,
        lost: Array,
        kept: Array,
        left: Array,
        values: Array,
    ) -> None:
        differs = left != values
        differs = differs if differs.ndim == 1 else differs.any(axis=1)
        foreign = thread_of(kept) // self.order.padded != thread_of(stamps) // self.order.padded
        lost = lost & (differs | foreign)
        if lost.any():
            cta, lane = divmod(int(thread_of(kept[lost][:1])[0]), self.order.padded)
            message = f"thread {lane} of CTA {cta} writes to the same place in the same instruction"
            addresses = np.broadcast_to(addresses, stamps.shape)
            self._add(self.words.race, access, thread_of(stamps), addresses, lost, message)
