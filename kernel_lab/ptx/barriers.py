"""CTA barriers: lanes park until their CTA, or as many as they said, have come (bar.sync, bar.arrive, bar.red)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.findings import Site
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.report import Kind

if TYPE_CHECKING:
    from kernel_lab.ptx.machine import Machine
    from kernel_lab.ptx.registers import Wave

Array = np.ndarray
BARRIERS = 16
"""Per CTA ("Parallel Synchronization and Communication Instructions: bar")."""
Reduce = Callable[[Group, Array, Array], None]


@dataclass(frozen=True)
class Arrival:
    """One barrier instruction: `count` is the slot of the thread count, None for the whole CTA."""

    site: Site
    barrier: int
    count: int | None = None
    waits: bool = True
    predicate: tuple[int, bool] | None = None
    reduce: Reduce | None = None
    """Given the group, how many predicates held and how many came, per lane."""


@dataclass(eq=False)
class Parked:
    """A group at a barrier. `keys` are CTA × 16 + barrier, `expected` the thread counts (0: the whole CTA)."""

    group: Group
    arrival: Arrival
    following: int
    keys: Array
    expected: Array
    holds: Array


class Barriers:
    """The barriers of the CTAs of one wave."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._parked: list[Parked] = []
        self._padded = self._ctas = 0

    def begin_wave(self, wave: "Wave") -> None:
        """Nobody has come anywhere."""
        self._parked = []
        self._padded, self._ctas = wave.padded, wave.count

    @property
    def waiting(self) -> bool:
        """Whether lanes are parked here."""
        return any(parked.arrival.waits for parked in self._parked)

    def arrive(self, g: Group, following: int, arrival: Arrival) -> int:
        """The block where the lanes go on at once, or SPLIT when some have to wait."""
        machine = self._machine
        everybody = g.n == machine.total and not self._parked and arrival.count is None
        if everybody and arrival.waits:
            uniform = g.r[arrival.barrier]
            if uniform.shape[0] == 1 or (uniform == uniform[0]).all():
                self._all_pass(g, arrival)
                return following
        parked = self._park(g, following, arrival)
        self._parked.append(parked)
        self._release(np.unique(parked.keys))
        if arrival.waits:
            return -1
        machine.yields, machine.idle = True, 0  # others may have waited for just these arrivals
        return following

    def _all_pass(self, g: Group, arrival: Arrival) -> None:
        self._machine.order.cta_barrier(None)
        self._machine.shared.forget_reads()
        if arrival.reduce is not None:
            ctas = g.lanes // self._padded
            self._reduce(
                g,
                arrival,
                np.bincount(ctas, self._holds(g, arrival), self._ctas),
                np.bincount(ctas, minlength=self._ctas),
            )

    def _reduce(self, g: Group, arrival: Arrival, held: Array, came: Array) -> None:
        ctas = g.lanes // self._padded
        assert arrival.reduce is not None
        arrival.reduce(g, held[ctas].astype(np.int64), came[ctas])

    def _holds(self, g: Group, arrival: Arrival) -> Array:
        if arrival.predicate is None:
            return np.zeros(g.n, bool)
        slot, negated = arrival.predicate
        return g.full(~g.r[slot] if negated else g.r[slot])

    def _park(self, g: Group, following: int, arrival: Arrival) -> Parked:
        barrier = g.full(g.r[arrival.barrier]).astype(np.int64) % BARRIERS
        count = g.full(g.r[arrival.count]).astype(np.int64) if arrival.count is not None else np.zeros(g.n, np.int64)
        keys = g.lanes // self._padded * BARRIERS + barrier
        if (count % 32).any() and self._machine.checks.barrier_misuse:
            bad = np.flatnonzero(count % 32)
            self._machine.findings.add(
                Kind.BARRIER_MISUSE, arrival.site, g.threads[bad], "a thread count is a multiple of the warp size"
            )
        return Parked(g, arrival, following, keys, count, self._holds(g, arrival))

    def _alive(self) -> Array:
        """Threads alive per CTA."""
        return self._machine.alive.reshape(self._ctas, -1).sum(axis=1)

    def _threads(self) -> Array:
        return np.full(self._ctas, self._machine.total // self._ctas)

    def _release(self, candidates: Array) -> bool:
        """Every barrier among the candidates whose threads have all come lets them go."""
        size = self._ctas * BARRIERS
        came = np.zeros(size, np.int64)
        expected = np.zeros(size, np.int64)
        for parked in self._parked:
            came += np.bincount(parked.keys, minlength=size)
            np.maximum.at(expected, parked.keys, parked.expected)
        whole = expected == 0
        alive = np.repeat(self._alive(), BARRIERS)
        needed = np.where(whole, alive, expected)
        done = candidates[(came >= needed)[candidates] & (came > 0)[candidates]]
        if not done.size:
            return False
        for key in done.tolist():
            self._judge(key, bool(whole[key]), int(came[key]))
        self._order(done, whole)
        self._let_go(done)
        return True

    def _judge(self, key: int, whole: bool, came: int) -> None:
        """A barrier of the whole CTA is one instruction, and every thread comes to it."""
        machine = self._machine
        if not whole or not machine.checks.divergent_barrier:
            return
        here = [parked for parked in self._parked if (parked.keys == key).any()]
        instructions = {id(parked.arrival): parked.arrival.site.line for parked in here}
        missing = int(self._threads()[key // BARRIERS]) - came
        if len(instructions) > 1:
            message = f"threads of one CTA come to barrier {key % BARRIERS} at lines {sorted(instructions.values())}"
        elif missing:
            message = f"{missing} threads of the CTA ended without coming to this barrier"
        else:
            return
        for parked in here:
            threads = parked.group.threads[parked.keys == key]
            machine.findings.add(Kind.DIVERGENT_BARRIER, parked.arrival.site, threads, message)

    def _order(self, done: Array, whole: Array) -> None:
        machine = self._machine
        machine.shared.flush_reads()
        machine.idle = 0
        ctas = done[whole[done]] // BARRIERS
        if ctas.size:
            machine.order.cta_barrier(np.unique(ctas))
        for key in done[~whole[done]].tolist():
            arrived = np.concatenate([parked.group.lanes[parked.keys == key] for parked in self._parked])
            waited = [parked.group.lanes[parked.keys == key] for parked in self._parked if parked.arrival.waits]
            machine.order.join(arrived, np.concatenate([*waited, arrived[:0]]) if waited else arrived[:0])

    def _let_go(self, done: Array) -> None:
        machine, remaining = self._machine, []
        size = self._ctas * BARRIERS
        held, came = np.zeros(size), np.zeros(size, np.int64)
        for parked in self._parked:
            held += np.bincount(parked.keys, parked.holds, size)
            came += np.bincount(parked.keys, minlength=size)
        for parked in self._parked:
            free = np.isin(parked.keys, done)
            if not free.all():
                remaining.append(self._still(parked, ~free))
            if parked.arrival.waits and free.any():
                group = parked.group.part(free, machine.live(parked.group.block), parked.following)
                if parked.arrival.reduce is not None:
                    keys = parked.keys[free]
                    parked.arrival.reduce(group, held[keys].astype(np.int64), came[keys])
                machine.add(group)
        self._parked = remaining

    def _still(self, parked: Parked, these: Array) -> Parked:
        if these.all():
            return parked
        group = parked.group.part(these, self._machine.live(parked.group.block), parked.group.block)
        return Parked(
            group, parked.arrival, parked.following, parked.keys[these], parked.expected[these], parked.holds[these]
        )

    def resolve(self) -> None:
        """Nobody else runs: threads that ended no longer count; if that frees nobody, these wait for ever."""
        keys = np.unique(np.concatenate([parked.keys for parked in self._parked]))
        if self._release(keys):
            return
        machine = self._machine
        here = [parked for parked in self._parked if parked.arrival.waits]
        for parked in here:
            whole = not parked.expected.any()
            kind = Kind.DIVERGENT_BARRIER if whole else Kind.DEADLOCK
            if whole and not machine.checks.divergent_barrier:
                continue
            message = "these threads wait for others that wait elsewhere or have ended"
            machine.findings.add(kind, parked.arrival.site, parked.group.threads, message)
        if machine.checks.divergent_barrier:
            machine.stop()
        self._let_go(keys)
