"""One instruction as an opcode entry sees it: modifiers sorted out, operands as register slots."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_lab.ptx.findings import Site
from kernel_lab.ptx.opcodes.table import TYPES, Unsupported
from kernel_lab.ptx.syntax.declarations import TYPE_BYTES
from kernel_lab.ptx.syntax.tree import (
    Address,
    Instruction,
    Integer,
    Name,
    Negated,
    Operand,
    Pair,
    Real,
    Vector,
)

if TYPE_CHECKING:
    from kernel_lab.ptx.group import Group
    from kernel_lab.ptx.machine import Machine
    from kernel_lab.ptx.registers import Registers

Array = np.ndarray


def _single_bits(operand: Real) -> int:
    """The 32 bits of a constant; a NaN keeps the payload that it was written with."""
    if operand.single_bits is None:
        return int(np.float32(operand.value).view(np.uint32))
    negated = np.signbit(operand.value) != bool(operand.single_bits >> 31)
    return operand.single_bits ^ 0x80000000 if negated else operand.single_bits


def bits_of(type_: str) -> int:
    """The register bits of a type."""
    if type_ == "pred":
        return 1
    packed = {"u16x2": 32, "s16x2": 32, "e4m3x2": 16, "e5m2x2": 16}
    return packed.get(type_) or 8 * TYPE_BYTES[type_]


@dataclass
class Form:
    """What an opcode entry may ask about its instruction."""

    instruction: Instruction
    site: Site
    registers: "Registers"
    machine: "Machine"
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    member_mask: int | None = None
    """The slot of a warp operation's member mask."""
    barrier: "Callable[[Group, int], int] | None" = None
    """What a barrier does with the lanes that come to it: the block where they go on, or SPLIT."""

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The type modifiers, in order."""
        return tuple(m for m in self.instruction.modifiers if m in TYPES)

    @cached_property
    def flags(self) -> frozenset[str]:
        """The other modifiers."""
        return frozenset(m for m in self.instruction.modifiers if m not in TYPES)

    @property
    def type(self) -> str:
        """The last type modifier."""
        return self.types[-1]

    @property
    def mode(self) -> str:
        """The rounding mode: nearest where none is written."""
        return next((mode for mode in ("rn", "rz", "rm", "rp", "rna") if mode in self.flags), "rn")

    @property
    def operands(self) -> tuple[Operand, ...]:
        """As written."""
        return self.instruction.operands

    def expect(self, low: int, high: int | None = None) -> None:
        """Unsupported unless the operand count is in this range."""
        count = len(self.operands)
        if not low <= count <= (high or low):
            raise Unsupported(f"{self.instruction.text} with {count} operands")

    def source(self, which: int | Operand, type_: str, *, may_be_wider: bool = False) -> int:
        """The slot that holds an operand's value, as raw bits of the type's width.

        A register has the type's width; in a store, a conversion and an address it may be wider ("Operand Size
        Exceeding Instruction-Type Size").
        """
        operand = self.operands[which] if isinstance(which, int) else which
        if isinstance(operand, Name) and not may_be_wider:
            self.registers.expect_width(operand, bits_of(type_))
        slot = self._source(operand, type_)
        self.reads.append(slot)
        return slot

    def _source(self, operand: Operand, type_: str) -> int:
        registers = self.registers
        match operand:
            case Integer(value):
                if type_ in ("f32", "f64"):
                    return self._real(Real(float(value)), type_)
                return registers.constant(value, bits_of(type_))
            case Real():
                return self._real(operand, type_)
            case Name():
                return registers.source(operand, bits_of(type_))
            case Address(Name() as base, offset):
                return registers.constant(registers.address_of(base.text) + offset, bits_of(type_))
            case _:
                raise Unsupported(f"operand {operand} of {self.instruction.text}")

    def _real(self, operand: Real, type_: str) -> int:
        match bits_of(type_):
            case 64:
                return self.registers.constant(int(np.float64(operand.value).view(np.uint64)), 64)
            case 32:
                return self.registers.constant(_single_bits(operand), 32)
            case _:
                raise Unsupported(f"a floating point constant for {type_} in {self.instruction.text}")

    def target(self, which: int | Operand, bits: int, *, signed: bool = False) -> "Target":
        """Where a result of so many bits goes."""
        operand = self.operands[which] if isinstance(which, int) else which
        if not isinstance(operand, Name):
            raise Unsupported(f"destination {operand} of {self.instruction.text}")
        if operand.text == "_":
            return Target(self.registers.sink, bits, bits, signed=signed)
        slot, width = self.registers.destination(operand)
        if width < bits:
            raise Unsupported(f"{bits} bits into {operand.text} in {self.instruction.text}")
        self.writes.append(slot)
        return Target(slot, bits, width, signed=signed)

    def parts(self, which: int | Operand) -> tuple[Operand, ...]:
        """The items of a vector operand; a scalar is one item."""
        operand = self.operands[which] if isinstance(which, int) else which
        return operand.items if isinstance(operand, Vector) else (operand,)

    def pair(self, which: int) -> tuple[Operand, Operand | None]:
        """d|p as both halves, d alone with None."""
        operand = self.operands[which]
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    def predicate(self, which: int | Operand) -> tuple[int, bool]:
        """The slot of a predicate operand, and whether it is negated."""
        operand = self.operands[which] if isinstance(which, int) else which
        if isinstance(operand, Negated):
            return self.source(operand.of, "pred"), True
        return self.source(operand, "pred"), False

    def integer(self, which: int) -> int:
        """A constant operand."""
        operand = self.operands[which]
        if not isinstance(operand, Integer):
            raise Unsupported(f"{self.instruction.text} needs a constant operand {which + 1}")
        return operand.value


DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(bool),
    8: np.dtype("u1"),
    16: np.dtype("u2"),
    32: np.dtype("u4"),
    64: np.dtype("u8"),
}


@dataclass(frozen=True)
class Target:
    """A destination register: a narrower result is extended to its width."""

    slot: int
    bits: int
    width: int
    signed: bool = False

    @property
    def exact(self) -> bool:
        """Whether results fit as they are."""
        return self.bits == self.width

    def put(self, registers: list[Array], value: Array) -> None:
        """The register holds the value."""
        if self.bits != self.width:
            if self.signed:
                value = value.view(f"i{self.bits // 8}").astype(f"i{self.width // 8}").view(DTYPES[self.width])
            else:
                value = value.astype(DTYPES[self.width])
        registers[self.slot] = value
