"""A launch bound to an entry: everything that can be wrong with it is refused here, and memory is laid out."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from kernel_lab.ptx.launch import Arg, Buffer, Checks, Launch, LaunchRefused
from kernel_lab.ptx.memory.arena import Layout, Region, raw_bytes
from kernel_lab.ptx.opcodes.table import TYPES
from kernel_lab.ptx.syntax.declarations import TYPE_BYTES
from kernel_lab.ptx.syntax.tree import Address, Function, Instruction, Module, Name, Space, Variable

Array = np.ndarray
NEWEST = (9, 9)
"""The newest PTX ISA version whose text the parser was made for; a later one may mean other things."""
MOST_THREADS_PER_BLOCK = 1024
GRID_LIMIT = (2**31 - 1, 65535, 65535)
BLOCK_LIMIT = (1024, 1024, 64)
MOST_SHARED_BYTES = {80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 103: 232448, 120: 101376}
"""Per block with opt-in ("Technical Specifications per Compute Capability"); 232448 for architectures not listed."""
MOST_THREADS = 1 << 27
"""What the stamps of the race checkers can tell apart, with room for padding."""
MOST_BUFFER_BYTES = 1 << 27
"""Chosen: shadows take 6 to 24 times as much."""
SHARED_FIRST = 1024
"""Shared memory begins here: what lies below is a red zone, and hardware keeps 1 KiB of it for itself."""
SHARED_ZONE = 128
LOCAL_FIRST = 64


@dataclass(frozen=True)
class Bound:
    """Where everything lies. `contents` says with what each region of the arena starts."""

    function: Function
    launch: Launch
    arena: Layout
    shared: Layout
    local: Layout
    addresses: dict[str, int]
    contents: tuple[tuple[Region, Array | None], ...]
    outputs: tuple[tuple[Buffer, Region], ...]
    global_granule: int
    shared_granule: int
    local_granule: int
    total_shared_bytes: int


def refuse(message: str) -> NoReturn:
    """The launch does not fit."""
    raise LaunchRefused(message)


def bind(module: Module, launch: Launch, checks: Checks) -> Bound:
    """The launch on its entry, or LaunchRefused with what to change."""
    function = entry_of(module, launch)
    check_size(function, launch)
    layout = _Layouts(module, function, launch)
    layout.by_bytes = not checks.alignment
    return layout.bound()


def entry_of(module: Module, launch: Launch) -> Function:
    """The kernel that the launch names."""
    if module.version > NEWEST:
        newest = f"{NEWEST[0]}.{NEWEST[1]}"
        refuse(f"PTX ISA {module.version[0]}.{module.version[1]} is newer than {newest}, which this executor knows")
    if module.address_size != 64:
        refuse("the executor runs 64-bit PTX; compile with .address_size 64")
    if launch.entry not in module.entries:
        refuse(f"no entry {launch.entry!r}; the module has {', '.join(module.entries) or 'none'}")
    return module.functions[launch.entry]


def check_size(function: Function, launch: Launch) -> None:
    """Grid, block and cluster are within the limits of hardware, of the entry and of the executor."""
    for what, sizes, limits in (("grid", launch.grid, GRID_LIMIT), ("block", launch.block, BLOCK_LIMIT)):
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if not 1 <= size <= limit:
                refuse(f"{what}.{axis} is {size}; it must be from 1 to {limit}")
    threads = int(np.prod(launch.block))
    if threads > MOST_THREADS_PER_BLOCK:
        refuse(f"a block of {threads} threads; at most {MOST_THREADS_PER_BLOCK}")
    total = int(np.prod(launch.grid, dtype=object)) * (-(-threads // 32) * 32)
    if total > MOST_THREADS:
        refuse(f"{total} threads in the launch; the executor takes at most {MOST_THREADS}")
    if launch.cluster != (1, 1, 1):
        refuse("clusters are not supported; launch with cluster (1, 1, 1)")
    if launch.step_budget < 1:
        refuse("the step budget must be at least 1")
    _check_directives(function, threads, launch)
    if launch.shared_bytes < 0:
        refuse("shared_bytes is negative")


def _check_directives(function: Function, threads: int, launch: Launch) -> None:
    required = function.directives.get("reqntid")
    if required is not None:
        wanted = (*required, 1, 1)[:3]
        if wanted != launch.block:
            refuse(f"{function.name} requires a block of {wanted} (.reqntid)")
    most = function.directives.get("maxntid")
    if most and threads > int(np.prod(most)):
        refuse(f"{function.name} allows {int(np.prod(most))} threads a block (.maxntid); the launch has {threads}")


def shared_limit(target: str) -> int:
    """The most shared memory of a block on a target such as sm_90a."""
    digits = "".join(character for character in target.partition("_")[2] if character.isdigit())
    return MOST_SHARED_BYTES.get(int(digits or 0), 232448)


class _Layouts:
    """Lays out the arena, shared and local memory of one launch."""

    def __init__(self, module: Module, function: Function, launch: Launch) -> None:
        self.module, self.function, self.launch = module, function, launch
        self.arena = Layout()
        self.shared = Layout(SHARED_FIRST, SHARED_ZONE)
        self.local = Layout(LOCAL_FIRST, 32)
        self.addresses: dict[str, int] = {}
        self.contents: list[tuple[Region, Array | None]] = []
        self.outputs: list[tuple[Buffer, Region]] = []
        self.total_shared = 0
        self.by_bytes = False

    def bound(self) -> Bound:
        """Everything in its place."""
        pointers = self._buffers()
        self._variables()
        self._parameters(pointers)
        granules = (self._granule("global"), self._granule("shared"), self._granule("local"))
        return Bound(
            self.function, self.launch, self.arena, self.shared, self.local, self.addresses, tuple(self.contents),
            tuple(self.outputs), *granules, self.total_shared,
        )  # fmt: skip

    def _buffers(self) -> dict[int, int]:
        """Every buffer has a region; the address by argument index. A Buffer given twice is one region: in place."""
        parameters, args = self.function.parameters, self.launch.args
        if len(args) != len(parameters):
            refuse(f"{self.function.name} takes {len(parameters)} parameters; {len(args)} were given")
        names: set[str] = set()
        regions: dict[int, Region] = {}
        pointers: dict[int, int] = {}
        for index, arg in enumerate(args):
            if isinstance(arg, Buffer):
                if id(arg) not in regions:
                    _check_buffer(arg, names)
                    regions[id(arg)] = self._buffer(arg)
                pointers[index] = regions[id(arg)].start
        return pointers

    def _buffer(self, buffer: Buffer) -> Region:
        region = self.arena.add(buffer.name, buffer.array.nbytes, buffer.role)
        if self.arena.size > MOST_BUFFER_BYTES:
            refuse(f"the buffers are larger than {MOST_BUFFER_BYTES} bytes together")
        self.contents.append((region, None if buffer.role == "out" else buffer.array))
        if buffer.role != "in":
            self.outputs.append((buffer, region))
        return region

    def _variables(self) -> None:
        dynamic: list[Variable] = []
        everything = (*self.module.variables, *self.function.variables)
        mentioned = _mentioned(self.function)
        for variable in everything:
            match variable.space:
                case Space.SHARED if variable.name not in mentioned:
                    pass
                case Space.SHARED if variable.count == 0:
                    dynamic.append(variable)
                case Space.SHARED:
                    self.addresses[variable.name] = self._add(self.shared, variable)
                    self.total_shared += variable.bytes
                case Space.LOCAL:
                    self.addresses[variable.name] = self._add(self.local, variable)
                case Space.GLOBAL | Space.CONST:
                    self._global(variable)
                case _:
                    pass
        self._dynamic(dynamic)
        for variable in everything:
            if variable.initial and variable.name in self.addresses:
                self._initialise(variable)

    def _add(self, layout: Layout, variable: Variable) -> int:
        return layout.add(variable.name, variable.bytes, "out", max(variable.align, 16)).start

    def _dynamic(self, variables: list[Variable]) -> None:
        """All extern shared arrays are the same memory, behind the static ones."""
        self.total_shared += self.launch.shared_bytes
        limit = shared_limit(self.module.target)
        if self.total_shared > limit:
            refuse(f"{self.total_shared} bytes of shared memory; {self.module.target} has {limit} a block")
        if not variables and not self.launch.shared_bytes:
            return
        align = max([128, *(variable.align for variable in variables)])
        name = variables[0].name if variables else "dynamic shared memory"
        region = self.shared.add(name, self.launch.shared_bytes, "out", align)
        self.addresses.update({variable.name: region.start for variable in variables})

    def _global(self, variable: Variable) -> None:
        role = "in" if variable.space is Space.CONST else "inout"
        region = self.arena.add(variable.name, variable.bytes, role, max(variable.align, 16))
        self.addresses[variable.name] = region.start
        self.contents.append((region, np.zeros(variable.bytes, np.uint8)))

    def _initialise(self, variable: Variable) -> None:
        position = next(
            i for i, (region, _) in enumerate(self.contents) if region.start == self.addresses[variable.name]
        )
        region, content = self.contents[position]
        assert content is not None
        values = [self.addresses.get(value.text, 0) if isinstance(value, Name) else value for value in variable.initial]
        if variable.type in ("f32", "f64"):
            raw = raw_bytes(np.array(values, f"f{TYPE_BYTES[variable.type]}"))
        else:
            size = TYPE_BYTES[variable.type]
            raw = np.frombuffer(b"".join((int(v) % (1 << 8 * size)).to_bytes(size, "little") for v in values), np.uint8)
        content[: raw.size] = raw[: content.size]
        self.contents[position] = (region, content)

    def _parameters(self, pointers: dict[int, int]) -> None:
        for index, (parameter, arg) in enumerate(zip(self.function.parameters, self.launch.args, strict=True)):
            value = np.uint64(pointers[index]) if index in pointers else arg
            content = _parameter_bytes(self.function, index, parameter, value, is_buffer=index in pointers)
            region = self.arena.add(f"parameter {parameter.name}", content.size, "in", max(parameter.align, 16))
            self.addresses[parameter.name] = region.start
            self.contents.append((region, content))

    def _granule(self, space: str) -> int:
        """The narrowest access to a space: small enough for every access to be whole granules."""
        if self.by_bytes:
            return 1
        sizes = [
            size for item in self.function.body if isinstance(item, Instruction) for size in _access_sizes(item, space)
        ]
        layouts = {"global": self.arena, "shared": self.shared, "local": self.local}
        for region in layouts[space].regions:
            size = region.stop - region.start
            if size:
                sizes.append(size & -size)
        return min([16, *sizes])


def _mentioned(function: Function) -> frozenset[str]:
    """The names in a kernel's operands: module variables of shared memory that it does not use take no room."""
    found: set[str] = set()

    def visit(operand: object) -> None:
        match operand:
            case Name(text):
                found.add(text)
            case Address(base, _, more):
                visit(base)
                for inner in more:
                    visit(inner)
            case _:
                for inner in getattr(operand, "items", ()):
                    visit(inner)

    for item in function.body:
        for operand in getattr(item, "operands", ()):
            visit(operand)
    return frozenset(found)


MEMORY_OPCODES = {"ld", "st", "atom", "red", "ldu", "cp", "mbarrier", "ldmatrix", "stmatrix"}
SPACE_WORDS = {"global", "shared", "shared::cta", "local"}


def _access_sizes(instruction: Instruction, space: str) -> list[int]:
    """The sizes of an instruction's accesses to a space, 1 where they cannot be told."""
    if instruction.opcode not in MEMORY_OPCODES:
        return []
    if instruction.opcode == "mbarrier":
        return [8] if space == "shared" else []
    if instruction.opcode in ("ldmatrix", "stmatrix"):
        return [16] if space == "shared" else []
    if instruction.opcode == "cp":
        return [4] if space != "local" else []
    named = {"shared" if word == "shared::cta" else word for word in instruction.modifiers if word in SPACE_WORDS}
    if "param" in instruction.modifiers or "const" in instruction.modifiers:
        named = {"global"}
    if named and space not in named:
        return []
    types = [word for word in instruction.modifiers if word in TYPES and word in TYPE_BYTES]
    size = TYPE_BYTES[types[-1]] if types else 1
    vector = next((int(word[1]) for word in instruction.modifiers if word in ("v2", "v4", "v8")), 1)
    return [size * vector if instruction.opcode in ("ld", "st", "ldu") else size]


def _check_buffer(buffer: Buffer, names: set[str]) -> None:
    if buffer.name in names:
        refuse(f"two buffers are named {buffer.name!r}")
    names.add(buffer.name)
    if buffer.role not in ("in", "out", "inout"):
        refuse(f"buffer {buffer.name!r} has role {buffer.role!r}; use in, out or inout")
    if not isinstance(buffer.array, np.ndarray) or buffer.array.dtype.hasobject:
        refuse(f"buffer {buffer.name!r} is no numpy array of numbers")


def _parameter_bytes(function: Function, index: int, parameter: Variable, arg: Arg, *, is_buffer: bool) -> Array:
    where = f"parameter {index} ({parameter.name}) of {function.name}"
    wanted = f".{parameter.type}" + (f"[{parameter.count}]" if parameter.is_array else "")
    if is_buffer:
        if parameter.bytes != 8 or parameter.is_array:
            refuse(f"{where} is {wanted}, no address; give a number of {parameter.bytes} bytes")
        return raw_bytes(np.array([arg], np.uint64))
    if parameter.is_pointer:
        refuse(f"{where} is an address; give a Buffer")
    if isinstance(arg, np.generic):
        return _numpy_bytes(where, wanted, parameter, arg)
    if parameter.is_array:
        refuse(f"{where} is {wanted}; give a numpy scalar of {parameter.bytes} bytes (np.void for a struct)")
    return _python_bytes(where, wanted, parameter, arg)


FLOAT_TYPES = {"f16": "f2", "f32": "f4", "f64": "f8"}


def _numpy_bytes(where: str, wanted: str, parameter: Variable, arg: np.generic) -> Array:
    if arg.nbytes != parameter.bytes:
        refuse(f"{where} is {wanted}, {parameter.bytes} bytes; {arg.dtype} has {arg.nbytes}")
    if parameter.type in FLOAT_TYPES and not parameter.is_array and arg.dtype.kind not in "fV":
        refuse(f"{where} is {wanted}; {arg.dtype} was given")
    if parameter.type[0] in "us" and arg.dtype.kind == "f":
        refuse(f"{where} is {wanted}; {arg.dtype} was given")
    return raw_bytes(np.array([arg]))


def _python_bytes(where: str, wanted: str, parameter: Variable, arg: Arg) -> Array:
    if isinstance(arg, bool) or not isinstance(arg, int | float):
        refuse(f"{where} is {wanted}; {type(arg).__name__} was given")
    if isinstance(arg, float) or parameter.type in FLOAT_TYPES:
        kind = FLOAT_TYPES.get(parameter.type) or (
            {4: "f4", 8: "f8"}.get(parameter.bytes) if parameter.type[0] == "b" else None
        )
        if kind is None:
            refuse(f"{where} is {wanted}; a float was given")
        return raw_bytes(np.array([arg], kind))
    low, high = -(1 << (8 * parameter.bytes - 1)), (1 << 8 * parameter.bytes) - 1
    if not low <= arg <= high:
        refuse(f"{where} is {wanted}; {arg} does not fit")
    return np.frombuffer((arg % (high + 1)).to_bytes(parameter.bytes, "little"), np.uint8)
