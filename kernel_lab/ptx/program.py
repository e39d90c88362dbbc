"""One kernel, decoded for one launch: basic blocks of steps, with what is live at each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.findings import Site, site_of
from kernel_lab.ptx.flow import Suspect, definitely_assigned, live_slots
from kernel_lab.ptx.form import Form
from kernel_lab.ptx.group import HIDDEN, Group
from kernel_lab.ptx.opcodes.all import TABLE
from kernel_lab.ptx.opcodes.table import Role, Step, Unsupported
from kernel_lab.ptx.report import Kind
from kernel_lab.ptx.syntax.tree import Function, Instruction, Label, Name

if TYPE_CHECKING:
    from kernel_lab.ptx.machine import Machine

SPLIT = -1
"""What a block's end returns when it has put the lanes elsewhere."""
End = Callable[[Group], int]


@dataclass(eq=False)
class Code:
    """One decoded instruction."""

    instruction: Instruction
    site: Site
    step: Step
    role: Role
    reads: list[int]
    writes: list[int]
    guard: tuple[int, bool] | None
    member_mask: int | None = None
    barrier: "Callable[[Group, int], int] | None" = None

    @property
    def is_move(self) -> bool:
        """A plain copy, which passes on whether its source was ever written."""
        return self.instruction.opcode == "mov" and len(self.reads) == 1

    @property
    def inputs(self) -> list[int]:
        """What it reads, its guard too."""
        return [*self.reads, self.guard[0]] if self.guard else self.reads

    @property
    def reads_if_guarded(self) -> list[int]:
        """What it reads: a guarded write keeps the old value in the other lanes."""
        if self.guard is None:
            return self.reads
        return [*self.reads, self.guard[0], *self.writes]


@dataclass(eq=False)
class Block:
    """Instructions without a branch between them. A warp operation begins a block, a barrier is one of its own."""

    index: int
    codes: list[Code] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    end: End = lambda g: SPLIT  # noqa: ARG005  (replaced when the block is closed)
    targets: tuple[int, ...] = ()
    end_reads: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    is_warp: bool = False
    is_warp_barrier: bool = False
    member_mask: int | None = None
    count: int = 0


class Program:
    """The blocks of one entry. Block `len(blocks)` is the exit."""

    def __init__(self, function: Function, machine: "Machine", files: dict[int, str]) -> None:
        self.function, self.machine, self.files = function, machine, files
        self.registers = machine.registers
        self.blocks: list[Block] = []
        pieces, self._labels = cut(function.body)
        self._decode(pieces)
        self._check_registers()
        self._find_live()

    @property
    def exit(self) -> int:
        """The block that means done."""
        return len(self.blocks)

    def _decode(self, pieces: list[list[Instruction]]) -> None:
        self.blocks = [Block(index) for index in range(len(pieces))]
        for block, instructions in zip(self.blocks, pieces, strict=True):
            following = block.index + 1
            block.end, block.targets = _go_to(following), (following,)
            for instruction in instructions:
                self._place(block, instruction)

    def _place(self, block: Block, instruction: Instruction) -> None:
        site = site_of(instruction, self.files)
        try:
            if instruction.opcode in BRANCHES:
                self._branch(block, instruction, site)
                return
            code = self._code(instruction, site)
        except Unsupported as reason:
            self.machine.unsupported(site, str(reason))
            return
        block.codes.append(code)
        if code.barrier is not None:
            self._barrier(block, code)
        elif code.role is Role.WARP:
            block.is_warp, block.member_mask = True, code.member_mask
            block.is_warp_barrier = instruction.opcode in ("bar", "barrier")

    def _code(self, instruction: Instruction, site: Site) -> Code:
        form = Form(instruction, site, self.registers, self.machine)
        entry = TABLE.find(instruction.opcode, ".".join(form.types), form.flags)
        step = entry.bind(form)
        guard = None
        if instruction.guard is not None:
            guard = (self.registers.predicate(instruction.guard), instruction.guard_negated)
        code = Code(instruction, site, step, entry.role, form.reads, form.writes, guard)
        code.member_mask = form.member_mask
        code.barrier = form.barrier
        return code

    def _branch(self, block: Block, instruction: Instruction, site: Site) -> None:
        code = Code(instruction, site, _nothing, Role.BRANCH, [], [], None)
        block.codes.append(code)
        if instruction.opcode == "brx":
            self._multiway(block, instruction)
            return
        target = self.exit
        if instruction.opcode == "bra":
            (operand,) = instruction.operands
            target = self._target(operand)
        elif instruction.opcode == SKIP:
            target = block.index + 2
        if instruction.guard is None:
            block.end, block.targets = _go_to(target), (target,)
            return
        slot = self.registers.predicate(instruction.guard)
        code.reads.append(slot)
        self._conditional(block, slot, instruction.guard_negated, target, block.index + 1)

    def _target(self, operand: object) -> int:
        if not isinstance(operand, Name) or operand.text not in self._labels:
            raise Unsupported("a branch to something that is no label of this kernel")
        return self._labels[operand.text]

    def _conditional(self, block: Block, slot: int, negated: bool, target: int, following: int) -> None:
        yes, no = (following, target) if negated else (target, following)
        split = self.machine.split

        def end(g: Group) -> int:
            chosen = g.r[slot]
            count = np.count_nonzero(chosen)
            if count == chosen.size:
                return yes
            if not count:
                return no
            split(g, chosen, yes, no)
            return SPLIT

        block.end, block.targets, block.end_reads = end, (yes, no), (slot,)

    def _multiway(self, block: Block, instruction: Instruction) -> None:
        if instruction.guard is not None or len(instruction.operands) != 2:
            raise Unsupported("this form of brx.idx")
        index, names = instruction.operands
        if not isinstance(index, Name) or not isinstance(names, Name):
            raise Unsupported("this form of brx.idx")
        if names.text not in self.function.branch_targets:
            raise Unsupported(f"{names.text} is no list of branch targets")
        targets = tuple(self._labels[name] for name in self.function.branch_targets[names.text])
        slot = self.registers.source(index, 32)
        machine = self.machine

        def end(g: Group) -> int:
            chosen = g.full(g.r[slot])
            machine.scatter(g, {targets[i]: chosen == i for i in np.unique(chosen).tolist() if i < len(targets)})
            return SPLIT

        block.end, block.targets, block.end_reads = end, targets, (slot,)
        block.codes[-1].reads.append(slot)

    def _barrier(self, block: Block, code: Code) -> None:
        following, arrive = block.index + 1, code.barrier
        assert arrive is not None
        block.end, block.targets = (lambda g: arrive(g, following)), (following,)
        block.end_reads = tuple(code.reads)
        block.codes[-1].role = Role.BARRIER

    def _check_registers(self) -> None:
        """Guards, and checks of registers that may be read unwritten, are wrapped around the steps."""
        tracked: dict[int, int] = {}
        suspects: set[Suspect] = set()
        if self.machine.checks.uninitialised_register:
            suspects, slots = definitely_assigned(self.blocks, self.registers.written_slots)
            never = np.zeros(1, bool)
            tracked = {slot: self.registers.reserve(never) for slot in sorted(slots)}
        for block in self.blocks:
            for position, code in enumerate(block.codes):
                step = _guarded(code) if code.guard else code.step
                checks = [slot for slot in dict.fromkeys(code.inputs) if (block.index, position, slot) in suspects]
                step = self._tracking(step, code, tracked, checks)
                if step is not _nothing:
                    block.steps.append(step)
            block.count = len(block.codes)
        self._tracked = tuple(tracked.values())

    def _tracking(self, step: Step, code: Code, tracked: dict[int, int], checks: list[int]) -> Step:
        written = [(slot, tracked[slot]) for slot in code.writes if slot in tracked]
        if code.is_move and code.writes and code.reads[0] in tracked:
            if written:
                step = _copies_validity(step, tracked[code.reads[0]], written[0][1], code.guard)
        elif written:
            step = _validates(step, [valid for _, valid in written], code.guard)
        for slot in checks:
            step = self._reports_unwritten(step, code, slot, tracked[slot])
        return step

    def _reports_unwritten(self, step: Step, code: Code, slot: int, valid: int) -> Step:
        findings, name, site, guard = self.machine.findings, self.registers.names.get(slot, "?"), code.site, code.guard

        def run(g: Group) -> None:
            fine = g.r[valid]
            if guard is not None and slot != guard[0]:
                fine = fine | (g.r[guard[0]] if guard[1] else ~g.r[guard[0]])
            if not fine.all():
                threads = g.threads[~g.full(fine)]
                findings.add(
                    Kind.UNINITIALISED_REGISTER, site, threads, f"register {name} is read before it is written"
                )
            step(g)

        return run

    def _find_live(self) -> None:
        always = (*range(HIDDEN), *self.registers.special_slots, self.registers.carry, *self._tracked)
        for block, live in zip(self.blocks, live_slots(self.blocks, self.registers.written_slots), strict=True):
            block.live = (*always, *live)
        self.exit_live = always


def _nothing(g: Group) -> None:
    """Branches are done by the block's end."""


CUT_BEFORE = frozenset({
    "shfl", "vote", "match", "redux", "elect", "mma", "ldmatrix", "stmatrix", "movmatrix", "activemask", "wgmma",
})  # fmt: skip


SKIP = "skip"
"""Not PTX: a guarded warp operation becomes a branch around it."""
BRANCHES = frozenset({"bra", "ret", "exit", "brx", SKIP})


def cut(body: Sequence[Instruction | Label]) -> tuple[list[list[Instruction]], dict[str, int]]:
    """The instructions of each basic block, and the block that each label begins."""
    blocks: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    for item in body:
        if isinstance(item, Label):
            if blocks[-1]:
                blocks.append([])
            labels[item.name] = len(blocks) - 1
            continue
        begins, ends = _cuts(item)
        if begins and item.guard is not None:
            skip = replace(item, opcode=SKIP, modifiers=(), operands=(), guard_negated=not item.guard_negated)
            blocks[-1].append(skip)
            blocks += [[replace(item, guard=None, guard_negated=False)], []]
            continue
        if begins and blocks[-1]:
            blocks.append([])
        blocks[-1].append(item)
        if ends:
            blocks.append([])
    return (blocks if blocks[-1] else blocks[:-1]), labels


def _cuts(instruction: Instruction) -> tuple[bool, bool]:
    """Whether a block begins before, and ends behind, this instruction."""
    opcode = instruction.opcode
    if opcode in BRANCHES:
        return False, True
    if opcode in ("bar", "barrier") and "warp" not in instruction.modifiers:
        return True, True
    return opcode == "bar" or opcode in CUT_BEFORE, opcode in ("mbarrier", "nanosleep")


def _go_to(target: int) -> End:
    return lambda g: target  # noqa: ARG005  (every end takes the group)


def _guarded(code: Code) -> Step:
    """The step for the lanes whose guard holds."""
    assert code.guard is not None
    slot, negated = code.guard
    body = _blended(code) if code.role is Role.PURE else _partial(code)

    def run(g: Group) -> None:
        chosen = ~g.r[slot] if negated else g.r[slot]
        count = np.count_nonzero(chosen)
        if count == chosen.size:
            code.step(g)
        elif count:
            body(g, chosen)

    return run


def _blended(code: Code) -> Callable[[Group, np.ndarray], None]:
    """Registers only: compute everywhere, keep the old value where the guard does not hold."""
    step, writes = code.step, code.writes

    def run(g: Group, chosen: np.ndarray) -> None:
        before = [g.r[slot] for slot in writes]
        step(g)
        for slot, old in zip(writes, before, strict=True):
            g.r[slot] = np.where(chosen, g.r[slot], old)

    return run


def _partial(code: Code) -> Callable[[Group, np.ndarray], None]:
    """Memory: the chosen lanes do it as a group of their own."""
    step, writes = code.step, code.writes
    needed = tuple(dict.fromkeys((*range(HIDDEN), *code.reads, *writes)))

    def run(g: Group, chosen: np.ndarray) -> None:
        inner = g.part(chosen, needed, g.block)
        step(inner)
        for slot in writes:
            outer = np.array(g.full(g.r[slot]))
            outer[chosen] = inner.r[slot]
            g.r[slot] = outer

    return run


def _validates(step: Step, slots: list[int], guard: tuple[int, bool] | None) -> Step:
    always = np.ones(1, bool)

    def run(g: Group) -> None:
        step(g)
        for valid in slots:
            if guard is None:
                g.r[valid] = always
            else:
                g.r[valid] = g.r[valid] | (~g.r[guard[0]] if guard[1] else g.r[guard[0]])

    return run


def _copies_validity(step: Step, source: int, target: int, guard: tuple[int, bool] | None) -> Step:
    def run(g: Group) -> None:
        step(g)
        if guard is None:
            g.r[target] = g.r[source]
        else:
            chosen = ~g.r[guard[0]] if guard[1] else g.r[guard[0]]
            g.r[target] = np.where(chosen, g.r[source], g.r[target])

    return run
