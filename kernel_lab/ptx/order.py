"""Happens-before: which accesses of other threads does a thread know to be done?

Time is one counter that every synchronisation advances. A thread knows all that its CTA did before the last CTA barrier
(`cta_know`), all that its warp did before the last full __syncwarp (`warp_know`), and, where a kernel uses named
barriers, mbarriers or partial warp syncs, what its row of a vector clock says (`clocks`). Nothing orders two CTAs.

A stamp packs when, who, and whether the access was atomic: time << 29 | thread << 1 | atomic.
"""

import numpy as np

Array = np.ndarray
THREAD_BITS = 28
TIME_SHIFT = THREAD_BITS + 1
THREAD_MASK = (1 << THREAD_BITS) - 1
CLOCK_ELEMENTS = 1 << 24
"""Chosen: 128 MiB of vector clocks at most; a wave holds fewer CTAs where they are needed."""


def thread_of(stamps: Array) -> Array:
    """Who made these accesses: the padded linear thread of the launch."""
    return (stamps >> 1) & THREAD_MASK


class Order:
    """What every thread of the current wave of CTAs knows of the others."""

    def __init__(self, padded: int, *, uses_clocks: bool) -> None:
        self.padded, self.uses_clocks = padded, uses_clocks
        self.now = 2  # 0 and 1 mean other things in a shadow
        self.floor = 0
        self.first = 0
        self.cta_know = self.warp_know = np.zeros(0, np.int64)
        self.clocks = np.zeros((0, 0, 0), np.int64)
        self.handed: dict[tuple[int, int], int] = {}
        self.released: dict[int, int] = {}

    def begin_wave(self, first_cta: int, ctas: int) -> None:
        """Fresh CTAs: nobody knows anything of anyone."""
        self.now += 1
        self.first = first_cta * self.padded
        self.cta_know = np.full(ctas, self.now, np.int64)
        self.warp_know = np.zeros(ctas * self.padded // 32, np.int64)
        if self.uses_clocks:
            self.clocks = np.zeros((ctas, self.padded, self.padded), np.int64)
        self._refloor()

    def _refloor(self) -> None:
        self.floor = int(self.cta_know.min()) << TIME_SHIFT

    def stamp(self, atomic: bool = False) -> int:
        """The time part of an access made now; the thread part is added to it."""
        return (self.now << TIME_SHIFT) | atomic

    def cta_barrier(self, ctas: Array | None) -> None:
        """All threads of these CTAs (None: of the wave) now know all that the others of their CTA did."""
        self.now += 1
        self.cta_know[slice(None) if ctas is None else ctas] = self.now
        self._refloor()

    def warp_barrier(self, warps: Array) -> None:
        """All threads of these warps now know all that their warp did."""
        self.now += 1
        self.warp_know[warps] = self.now
        if self.uses_clocks:
            for warp in warps.tolist():
                lanes = np.arange(warp * 32, warp * 32 + 32)
                self.join(lanes, lanes)

    def join(self, arrived: Array, released: Array) -> None:
        """The released threads of one CTA learn what the arrived ones did and knew (wave-local threads)."""
        self.now += 1
        if released.size:
            self.learn(released, self.knowledge(arrived))

    def knowledge(self, threads: Array) -> Array:
        """What these threads of one CTA together know, their own past included, as times per thread of the CTA."""
        cta = int(threads[0]) // self.padded
        local = threads - cta * self.padded
        known = self.clocks[cta, local].max(axis=0)
        for warp in np.unique(threads >> 5).tolist():
            mates = slice(warp * 32 - cta * self.padded, warp * 32 - cta * self.padded + 32)
            known[mates] = np.maximum(known[mates], self.warp_know[warp])
        known[local] = self.now
        return known

    def learn(self, threads: Array, known: Array) -> None:
        """These threads of one CTA know at least that."""
        cta = int(threads[0]) // self.padded
        local = threads - cta * self.padded
        self.clocks[cta, local] = np.maximum(self.clocks[cta, local], known)

    def unordered(self, threads: Array, stamps: Array) -> Array:
        """Where an earlier access (its stamp) is not known to be done by the thread that accesses its bytes now."""
        others, when = thread_of(stamps), stamps >> TIME_SHIFT
        same_cta = others // self.padded == threads // self.padded
        local = threads - self.first
        known = np.where(same_cta, self.cta_know[local // self.padded], 0)
        same_warp = others >> 5 == threads >> 5
        known = np.maximum(known, np.where(same_warp, self.warp_know[local >> 5], 0))
        if self.uses_clocks:
            row = self.clocks[local // self.padded, local % self.padded, others % self.padded]
            known = np.maximum(known, np.where(same_cta, row, 0))
        return (others != threads) & (when >= known)

    def release(self, ctas: Array) -> None:
        """These CTAs (of the launch) published what they wrote so far with a strong write."""
        for cta in np.unique(ctas).tolist():
            self.released[cta] = self.now + 1
        self.now += 1

    def hear(self, readers: Array, writers: Array) -> None:
        """Threads of the reading CTAs saw a strong write of the writing CTAs."""
        for reader, writer in np.unique(np.stack([readers, writers]), axis=1).T.tolist():
            if reader != writer and writer in self.released:
                self.handed[reader, writer] = self.released[writer]

    def handed_over(self, threads: Array, stamps: Array) -> Array:
        """Where a flag may have handed the data over: seen, but with no proof for every schedule."""
        readers, writers, when = threads // self.padded, thread_of(stamps) // self.padded, stamps >> TIME_SHIFT
        rows = zip(readers.tolist(), writers.tolist(), when.tolist(), strict=True)
        return np.array([self.handed.get((reader, writer), 0) > time for reader, writer, time in rows], bool)
