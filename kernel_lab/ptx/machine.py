"""The interpreter: waves of CTAs, groups of lanes that share a program counter, the lowest counter first."""

from typing import NoReturn

import numpy as np

from kernel_lab.ptx.barriers import Barriers
from kernel_lab.ptx.copies import Copies
from kernel_lab.ptx.findings import Findings, Site
from kernel_lab.ptx.group import Group, merged
from kernel_lab.ptx.launch import Checks, Launch
from kernel_lab.ptx.mbarriers import Mbarriers
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.memory.globals import GlobalMemory
from kernel_lab.ptx.memory.local import LocalMemory
from kernel_lab.ptx.memory.shared import SharedMemory
from kernel_lab.ptx.order import Order
from kernel_lab.ptx.program import SPLIT, Block, Program
from kernel_lab.ptx.registers import Registers, Wave
from kernel_lab.ptx.report import Kind
from kernel_lab.ptx.stats import Note, Traffic

Array = np.ndarray
TURN = 2000
"""Chosen: blocks that the lowest group may run before the one that waited longest has its turn (fairness)."""
IDLE_ROUNDS = 64
"""Chosen: so many waits in a row that fail, while no barrier changes, are a deadlock."""


class OutOfSteps(Exception):
    """The run cannot be brought to an end; `block` was next."""

    def __init__(self, group: Group, block: Block, reason: str) -> None:
        super().__init__(reason)
        self.group, self.block = group, block


class Stuck(Exception):
    """No thread can go on. What is wrong has been reported."""


class Machine:
    """One launch: its memories, its program, and the lanes that run it."""

    def __init__(
        self, launch: Launch, checks: Checks, registers: Registers, order: Order, findings: Findings,
        memory: GlobalMemory, shared: SharedMemory, local: LocalMemory, *, counts: bool,
    ) -> None:  # fmt: skip
        self.launch, self.checks, self.registers = launch, checks, registers
        self.order, self.findings = order, findings
        self.memory, self.shared, self.local = memory, shared, local
        self.counts = counts
        self.traffic = Traffic()
        self.is_unsupported = self.has_later_ctas = False
        self.steps = 0
        self.yields = self.patient = False
        self.idle = 0
        self._changes = self._phases = 0
        self.program: Program
        self.alive = np.zeros(0, bool)
        self.alive_count = self.total = 0
        self.ready: dict[int, list[Group]] = {}
        self.waiting: dict[int, list[Group]] = {}
        self.barriers = Barriers(self)
        self.copies = Copies(shared)
        self.mbarriers = Mbarriers(shared, self.copies, order, findings, checks)
        self.block_runs: dict[int, list[int]] = {}

    def unsupported(self, site: Site, reason: str) -> None:
        """The verdict can no longer be pass."""
        self.is_unsupported = True
        self.findings.add(Kind.UNSUPPORTED, site, np.zeros(0, np.int64), reason)

    def note(self, space: str, access: Access) -> Note | None:
        """What counts one instruction's accesses, when somebody wants to know."""
        return self.traffic.note(space, access) if self.counts else None

    def run_wave(self, wave: Wave) -> None:
        """These CTAs run to their ends."""
        self.has_later_ctas = wave.first + wave.count < int(np.prod(wave.launch.grid))
        self.order.begin_wave(wave.first, wave.count)
        self.shared.begin_wave()
        self.local.begin_wave()
        self.copies.begin_wave(wave.count * wave.padded)
        self.mbarriers.begin_wave()
        registers = self.registers.initial(wave)
        lanes = registers[1]
        self.alive = np.zeros(wave.count * wave.padded, bool)
        self.alive[lanes] = True
        self.alive_count = self.total = lanes.size
        self.barriers.begin_wave(wave)
        self.ready, self.waiting = {0: [Group(registers, lanes.size, 0)]}, {}
        while (group := self._pick()) is not None:
            self._execute(group)

    def _pick(self) -> Group | None:
        """The group at the lowest block, with all others that are there; None when every lane is done."""
        while True:
            if self.ready:
                return self._take(self.ready, self._choose())
            if self.waiting:
                group = self._take(self.waiting, min(self.waiting))
                group.forced = True
                return group
            if not self.barriers.waiting:
                return None
            self.barriers.resolve()

    def _choose(self) -> int:
        """The lowest block; after a wait that failed, or a long turn, the one that waited longest."""
        self.patient, self.yields = self.yields, False
        if self.patient:
            return min(self.ready, key=lambda block: min(group.last_run for group in self.ready[block]))
        return min(self.ready)

    def _take(self, where: dict[int, list[Group]], block: int) -> Group:
        groups = where.pop(block)
        if where is self.ready and block in self.waiting:
            groups += self.waiting.pop(block)
        group = groups[0]
        if len(groups) > 1:
            group = merged(groups, self.program.blocks[block].live, block)
        return group

    def stop(self) -> NoReturn:
        """What went wrong has been reported: the run ends here."""
        raise Stuck

    def add(self, group: Group) -> None:
        """The group is ready to run at its block; at the exit its lanes are done."""
        if group.block == self.program.exit:
            self.retire(group)
        elif group.n:
            self.ready.setdefault(group.block, []).append(group)

    def retire(self, group: Group) -> None:
        """These lanes are done."""
        self.alive[group.lanes] = False
        self.alive_count -= group.n
        self.idle = 0

    def split(self, g: Group, chosen: Array, yes: int, no: int) -> None:
        """The chosen lanes go on at one block, the others at another."""
        self.scatter(g, {yes: chosen, no: ~chosen})

    def scatter(self, g: Group, masks: dict[int, Array]) -> None:
        """Lanes go on at the block whose mask names them."""
        for block, mask in masks.items():
            part = g.part(mask, self.live(block), block)
            part.last_run = g.last_run
            self.add(part)

    def live(self, block: int) -> tuple[int, ...]:
        """The slots that matter at a block."""
        blocks = self.program.blocks
        return blocks[block].live if block < len(blocks) else self.program.exit_live

    def _execute(self, g: Group) -> None:
        """Runs a group until it splits, parks, ends, or another one is due."""
        blocks, budget = self.program.blocks, self.launch.step_budget
        turns = 0
        while True:
            block = blocks[g.block]
            if block.is_warp and (g.forced or g.n != self.alive_count):
                whole = self._met(g, block)
                if whole is None:
                    return
                g = whole
            for step in block.steps:
                step(g)
            self.steps += block.count
            if self.counts:
                self._count(g, block)
            if self.steps > budget:
                raise OutOfSteps(g, block, f"{budget} steps are spent; these threads were here")
            following = block.end(g)
            turns += 1
            if self._leaves(g, following, turns):
                return

    def _leaves(self, g: Group, following: int, turns: int) -> bool:
        """Whether another group runs next: this one goes where it has to."""
        if following == SPLIT:
            self.idle = 0
            return True
        g.block, g.forced = following, False
        if following == self.program.exit:
            self.retire(g)
            return True
        if self.mbarriers.phases != self._phases:
            self._phases = self.mbarriers.phases
            self.yields = True  # who waited for this phase goes first, as hardware would wake it
        if self.yields:
            self._wait(g)
            return True
        if self.ready and self._is_due(following, turns):
            self.yields = turns > TURN
            self.idle = 0
            g.last_run = self.steps
            self.add(g)
            return True
        return False

    def _is_due(self, following: int, turns: int) -> bool:
        """Whether another group should run, or is to be joined, before this one goes on."""
        if self.patient:
            return following in self.ready or turns > TURN
        return following >= min(self.ready) or turns > TURN

    def _met(self, g: Group, block: Block) -> Group | None:
        """The lanes that may do a warp operation now; when nobody else can come, all that are here."""
        if g.forced:
            self._report_forced(g, block)
            return g
        return self._gathered(g, block)

    def _wait(self, g: Group) -> None:
        """The group waits for others: they go first, and if they all wait, nobody can go on."""
        g.last_run = self.steps
        self.add(g)
        self.idle = self.idle + 1 if self.mbarriers.changes == self._changes else 0
        self._changes = self.mbarriers.changes
        groups = sum(len(groups) for groups in self.ready.values())
        if self.idle > IDLE_ROUNDS * groups:
            block = self.program.blocks[g.block]
            if self.has_later_ctas:
                raise OutOfSteps(g, block, "these threads wait, perhaps for a CTA that runs in a later wave")
            site = (block.codes or self.program.blocks[max(g.block - 1, 0)].codes)[0].site
            self.findings.add(Kind.DEADLOCK, site, g.threads, "every thread that is left waits for another")
            raise Stuck

    def _gathered(self, g: Group, block: Block) -> Group | None:
        """The lanes whose warp is here as far as their member mask names it; the others wait."""
        warps = g.warps()
        bits = np.zeros(self.alive.size // 32, np.int64)
        np.bitwise_or.at(bits, g.lanes >> 5, 1 << warps.lane)
        others = self._at_other_warp_barriers(g) if block.is_warp_barrier else []
        for other in others:
            np.bitwise_or.at(bits, other.lanes >> 5, 1 << (other.lanes & 31))
        alive = self.alive.reshape(-1, 32) @ (1 << np.arange(32))
        mask = np.full(1, 0xFFFFFFFF) if block.member_mask is None else g.r[block.member_mask].astype(np.int64)
        missing = (mask & alive[g.lanes >> 5] & ~bits[g.lanes >> 5]) != 0
        if not missing.any():
            self._release_warp_barriers(others, g.lanes >> 5)
            return g
        absent = g.part(missing, self.live(block.index), block.index)
        self.waiting.setdefault(block.index, []).append(absent)
        here = ~missing
        if not here.any():
            return None
        self._release_warp_barriers(others, (g.lanes >> 5)[here])
        return g.part(here, self.live(block.index), block.index)

    def _at_other_warp_barriers(self, g: Group) -> list[Group]:
        blocks = self.program.blocks
        return [
            group
            for index, groups in self.waiting.items()
            if index != g.block and blocks[index].is_warp_barrier
            for group in groups
        ]

    def _release_warp_barriers(self, groups: list[Group], warps: Array) -> None:
        """Lanes of these warps that wait at a __syncwarp elsewhere have met their warp and go on."""
        for group in groups:
            met = np.isin(group.lanes >> 5, warps)
            if not met.any():
                continue
            self.waiting[group.block].remove(group)
            if not self.waiting[group.block]:
                del self.waiting[group.block]
            live = self.live(group.block)
            if not met.all():
                self.waiting.setdefault(group.block, []).append(group.part(~met, live, group.block))
            passed = group.part(met, live, group.block)
            self._pass_warp_barrier(passed)

    def _pass_warp_barrier(self, group: Group) -> None:
        """The rest of its block runs as if the barrier, its first step, were done."""
        block = self.program.blocks[group.block]
        for step in block.steps[1:]:
            step(group)
        following = block.end(group)
        if following != SPLIT:
            group.block = following
            self.add(group)

    def _report_forced(self, g: Group, block: Block) -> None:
        site = block.codes[0].site
        if block.is_warp_barrier:
            if self.checks.divergent_barrier:
                message = "lanes in the mask never come to this barrier"
                self.findings.add(Kind.DIVERGENT_BARRIER, site, g.threads, message)
        elif self.checks.inactive_lanes:
            message = "lanes that must take part never come here"
            self.findings.add(Kind.INACTIVE_LANES, site, g.threads, message)

    def _count(self, g: Group, block: Block) -> None:
        runs = self.block_runs.setdefault(block.index, [0, 0])
        runs[0] += np.unique(g.lanes >> 5).size
        runs[1] += g.n
