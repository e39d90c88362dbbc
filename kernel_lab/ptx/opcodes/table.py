"""What an entry of the opcode table is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from kernel_lab.ptx.group import Group

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

Step = Callable[[Group], None]
"""Does one instruction for all lanes of a group."""
Bind = Callable[["Form"], Step]
"""Makes the step of one instruction: called once per instruction and launch."""

TYPES = frozenset({
    "b1", "b4", "b8", "u4", "s4", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "b32", "u32", "s32", "f32", "f16x2",
    "bf16x2", "tf32", "b64", "u64", "s64", "f64", "b128", "pred", "e4m3", "e5m2", "e4m3x2", "e5m2x2", "u16x2", "s16x2",
    "f32x2", "s2f6x2", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1", "e2m3", "e3m2",
})  # fmt: skip


class Unsupported(Exception):
    """The executor does not know this opcode, modifier or operand: no verdict."""


class Role(Enum):
    """How an instruction takes part in control flow."""

    PURE = "registers to registers"
    EFFECT = "touches memory or the machine"
    WARP = "needs its warp together"
    BARRIER = "may park its lanes"
    BRANCH = "ends a block"


@dataclass(frozen=True)
class Opcode:
    """One entry. `types` are the accepted type suffixes joined by dots, `flags` the other accepted modifiers."""

    name: str
    section: str
    """Of the PTX ISA manual, by its title: numbers move between versions."""
    tier: int
    bind: Bind
    types: frozenset[str] = frozenset({""})
    flags: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    """Flags of which every one must be there: what tells `mul.hi` from `mul.wide`."""
    role: Role = Role.PURE

    def accepts(self, types: str, flags: frozenset[str]) -> bool:
        """Whether an instruction with these modifiers is this entry."""
        return types in self.types and flags <= (self.flags | self.needs) and self.needs <= flags


def words(text: str) -> frozenset[str]:
    """A set of modifiers, written with spaces."""
    return frozenset(text.split())


@dataclass
class Table:
    """All entries by name."""

    by_name: dict[str, list[Opcode]] = field(default_factory=dict)

    def add(self, entries: Iterable[Opcode]) -> None:
        """These too."""
        for entry in entries:
            self.by_name.setdefault(entry.name, []).append(entry)

    def find(self, name: str, types: str, flags: frozenset[str]) -> Opcode:
        """The one entry for an instruction, or Unsupported."""
        if name not in self.by_name:
            raise Unsupported(f"opcode {name} is not in the table")
        for entry in self.by_name[name]:
            if entry.accepts(types, flags):
                return entry
        raise Unsupported(f"{name} with types {types or 'none'} and modifiers {' '.join(sorted(flags)) or 'none'}")
