"""The syntax tree: what the PTX text says, with the line and column of every statement."""

from dataclasses import dataclass, field
from enum import StrEnum

from schemas.faults import Misconfigured


class PtxSyntaxError(Misconfigured):
    """The text is not PTX that the parser knows."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line, self.column, self.message = line, column, message


class Space(StrEnum):
    """A state space of the PTX ISA manual, section 5.1."""

    REG = "reg"
    PARAM = "param"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONST = "const"
    GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class Name:
    """A register, label, variable or special register, by the unique name that its scope gave it."""

    text: str
    component: str | None = None  # %tid.x -> "x"


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer constant; the instruction's type decides its width."""

    value: int


@dataclass(frozen=True, slots=True)
class Real:
    """A floating point constant as the bits of a double, or of a single where it is written 0f…"""

    value: float
    single_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """[base+offset]; `more` holds the coordinates of a tensor address."""

    base: "Name | Integer"
    offset: int = 0
    more: tuple["Operand", ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """{a, b, c, d}"""

    items: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """d|p: a destination with a second, predicate destination."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Negated:
    """!p"""

    of: Name


Operand = Name | Integer | Real | Address | Vector | Pair | Negated


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the source that the PTX was compiled from (.loc)."""

    file: int
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: opcode and modifiers apart, the guard predicate, the operands in order."""

    line: int
    column: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Name | None = None
    guard_negated: bool = False
    source: Location | None = None

    @property
    def text(self) -> str:
        """The opcode with its modifiers, as written."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter: `count` elements (0 = extern, sized by the launch), or a scalar's one."""

    name: str
    space: Space
    type: str
    element_bytes: int
    count: int
    align: int
    line: int
    initial: tuple["int | float | Name", ...] = ()
    is_pointer: bool = False
    is_array: bool = False

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.element_bytes * self.count


@dataclass(frozen=True)
class Function:
    """An entry: its parameters, registers (name → type), variables, and body."""

    name: str
    is_entry: bool
    line: int
    parameters: tuple[Variable, ...]
    registers: dict[str, str]
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Module:
    """One PTX file."""

    version: tuple[int, int]
    target: str
    address_size: int
    functions: dict[str, Function]
    variables: tuple[Variable, ...]
    files: dict[int, str]
    text_lines: int = 0

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of its kernels."""
        return tuple(name for name, function in self.functions.items() if function.is_entry)
