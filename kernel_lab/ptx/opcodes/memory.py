"""ld, st and their kin: which memory an address is in, and what goes where."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kernel_lab.ptx.form import Target, bits_of
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.memory.windows import LOCAL_WINDOW, SHARED_WINDOW
from kernel_lab.ptx.opcodes.lanes import Array, is_signed
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, Unsupported, words
from kernel_lab.ptx.syntax.tree import Address, Integer, Name

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form
    from kernel_lab.ptx.machine import Machine

SPACES = words("global shared shared::cta local param param::entry const")
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
STRONG = words("volatile relaxed acquire release mmio")
SCOPES = words("cta cluster gpu sys")
CACHING = words(
    "weak ca cg cs lu cv nc wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
    "L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B L2::evict_unchanged"
)


class Memory(Protocol):
    """What an instruction asks of a space."""

    def view(self, element: int, count: int = 1) -> Array:
        """The bytes as rows."""

    def rows_to_read(self, g: Group, access: Access, addresses: Array) -> Array:
        """Checked rows."""

    def rows_to_write(self, g: Group, access: Access, addresses: Array) -> tuple[Array, Array | None]:
        """Checked rows, and the lanes that may write."""

    def store(
        self, g: Group, access: Access, addresses: Array, rows: Array, view: Array, values: Array, allowed: Array | None
    ) -> None:
        """Writes."""


@dataclass(frozen=True)
class Place:
    """An address operand: register plus constant, in one space."""

    space: str
    slot: int
    offset: np.generic | None
    width: int

    def addresses(self, g: Group) -> Array:
        """As the space wants them: 32 bits for shared, 64 for the others."""
        value = g.r[self.slot]
        if self.offset is not None:
            value = value + self.offset
        if self.space == "shared":
            return value if self.width == 32 else _to_32(value)
        return value if self.width == 64 else value.astype(np.uint64)


def _to_32(value: Array) -> Array:
    """A shared address in 64 bits, with anything beyond 32 bits made wild."""
    return np.where(value >> np.uint64(32) != 0, np.uint64(0xFFFFFFFF), value).astype(np.uint32)


def space_of(form: "Form") -> str:
    """The state space that the modifiers name."""
    named = form.flags & SPACES
    space = next(iter(named), "generic")
    return {"shared::cta": "shared", "param::entry": "global", "param": "global", "const": "global"}.get(space, space)


def place_of(form: "Form", which: int, space: str) -> Place:
    """The address operand."""
    operand = form.operands[which]
    if not isinstance(operand, Address):
        raise Unsupported(f"operand {which + 1} of {form.instruction.text} is no address")
    if operand.more:
        raise Unsupported(f"a tensor address in {form.instruction.text}")
    width = 32 if space == "shared" else 64
    base = operand.base
    if isinstance(base, Integer):
        return Place(space, form.registers.constant(base.value + operand.offset, width), None, width)
    if not form.registers.is_register(base.text):
        address = form.registers.address_of(base.text) + operand.offset
        return Place(space, form.registers.constant(address, width), None, width)
    slot = form.source(base, "b32", may_be_wider=True)
    width = form.registers.width(slot)
    kind = np.uint64 if width == 64 else np.uint32
    offset = kind(operand.offset % (1 << width)) if operand.offset else None
    return Place(space, slot, offset, width)


def memory_of(machine: "Machine", space: str) -> "Memory":
    """The memory of a space that is not generic."""
    memories: dict[str, Memory] = {"global": machine.memory, "shared": machine.shared, "local": machine.local}
    return memories[space]


def spread(g: Group, place: Place, do: "Callable[[Group, str, Array], Array | None]") -> Array | None:
    """A generic access, space by space: each window's lanes are a group of their own. The lanes' results, joined."""
    addresses = place.addresses(g)
    low, high = int(addresses.min()), int(addresses.max())
    for space, base, end in WINDOWS:
        if base <= low and high < end:
            return do(g, space, addresses - np.uint64(base))
    addresses = g.full(addresses)
    result: Array | None = None
    for space, base, end in WINDOWS:
        here = (addresses >= np.uint64(base)) & (addresses < np.uint64(end))
        if here.any():
            part = do(g.part(here, range(len(g.r)), g.block), space, addresses[here] - np.uint64(base))
            if part is not None:
                if result is None:
                    result = np.zeros((g.n, *part.shape[1:]), part.dtype)
                result[here] = part
    return result


WINDOWS = (
    ("global", 0, SHARED_WINDOW),
    ("shared", SHARED_WINDOW, LOCAL_WINDOW),
    ("local", LOCAL_WINDOW, (1 << 64) - 1),
)


def shrink(space: str, addresses: Array) -> Array:
    """Window offsets as the space wants its addresses."""
    return _to_32(addresses) if space == "shared" else addresses


def bind_load(form: "Form") -> Step:
    """ld: one element or a vector of them."""
    form.expect(2, 3)
    machine, space = form.machine, space_of(form)
    count = next((VECTORS[flag] for flag in form.flags if flag in VECTORS), 1)
    bits = bits_of(form.type)
    strong = bool(form.flags & STRONG)
    access = Access(form.site, bits // 8 * count, strong)
    place = place_of(form, 1, space)
    if bits not in (8, 16, 32, 64):
        raise Unsupported(form.instruction.text)
    targets = [form.target(item, bits, signed=is_signed(form.type)) for item in form.parts(0)]
    if len(targets) != count:
        raise Unsupported(f"{len(targets)} destinations in {form.instruction.text}")
    fetch = _fetcher(machine, space, access, bits // 8, count)
    if count == 1:
        return (
            _load_scalar(fetch, place, targets[0].slot) if targets[0].exact else _load_wider(fetch, place, targets[0])
        )

    def run(g: Group) -> None:
        columns = np.ascontiguousarray(fetch(g, place).T)
        for column, target in zip(columns, targets, strict=True):
            target.put(g.r, column)

    return run


Fetch = Callable[[Group, Place], Array]


def _fetcher(machine: "Machine", space: str, access: Access, element: int, count: int) -> Fetch:
    if space == "generic":
        return _generic_fetcher(machine, access, element, count)
    memory = memory_of(machine, space)
    view = memory.view(element, count)
    rows_to_read = memory.rows_to_read
    take = view.take
    note = machine.note(space, access)
    checked = machine.checks.alignment

    def fetch(g: Group, place: Place) -> Array:
        addresses = place.addresses(g)
        if note is not None:
            note(g, addresses)
        if not checked and is_misaligned(addresses, access.size):
            return fetch_bytes(memory, g, access, addresses, element, count)
        rows = rows_to_read(g, access, addresses)
        if access.strong and space == "global":
            machine.memory.heard(g, access, rows)
        return take(rows, 0, None, "clip")

    return fetch


def is_misaligned(addresses: Array, size: int) -> bool:
    """Whether any address is no multiple of the access's size."""
    return bool(int(np.bitwise_or.reduce(addresses)) & (size - 1))


def fetch_bytes(memory: Memory, g: Group, access: Access, addresses: Array, element: int, count: int) -> Array:
    """A misaligned read with the alignment checker off: what it would read, byte by byte."""
    byte = replace(access, size=1)
    view = memory.view(1)
    steps = [addresses + addresses.dtype.type(index) for index in range(access.size)]
    columns = [view.take(memory.rows_to_read(g, byte, step), 0, None, "clip") for step in steps]
    whole = np.stack([g.full(column) for column in columns], axis=1).view(f"u{element}")
    return whole if count > 1 else whole[:, 0]


def store_bytes(memory: Memory, g: Group, access: Access, addresses: Array, values: Array) -> None:
    """A misaligned write with the alignment checker off, byte by byte."""
    byte = replace(access, size=1)
    values = np.ascontiguousarray(g.full(values)).view(np.uint8).reshape(g.n, access.size)
    for index in range(access.size):
        step = addresses + addresses.dtype.type(index)
        rows, allowed = memory.rows_to_write(g, byte, step)
        memory.store(g, byte, step, rows, memory.view(1), values[:, index], allowed)


def _generic_fetcher(machine: "Machine", access: Access, element: int, count: int) -> Fetch:
    def one(g: Group, space: str, addresses: Array) -> Array:
        memory = memory_of(machine, space)
        rows = memory.rows_to_read(g, access, shrink(space, addresses))
        if access.strong and space == "global":
            machine.memory.heard(g, access, rows)
        return memory.view(element, count).take(rows, 0, None, "clip")

    def fetch(g: Group, place: Place) -> Array:
        found = spread(g, place, one)
        assert found is not None
        return found

    return fetch


def _load_scalar(fetch: Fetch, place: Place, slot: int) -> Step:
    def run(g: Group) -> None:
        g.r[slot] = fetch(g, place)

    return run


def _load_wider(fetch: Fetch, place: Place, target: Target) -> Step:
    def run(g: Group) -> None:
        target.put(g.r, fetch(g, place))

    return run


def bind_load_parameter(form: "Form") -> Step:
    """ld.param at a constant address: the value is known before the launch."""
    operand = form.operands[1]
    registers = form.registers
    if not (isinstance(operand, Address) and isinstance(operand.base, Name)) or registers.is_register(
        operand.base.text
    ):
        return bind_load(form)
    count = next((VECTORS[flag] for flag in form.flags if flag in VECTORS), 1)
    size = bits_of(form.type) // 8
    start = registers.address_of(operand.base.text) + operand.offset
    targets = [form.target(item, 8 * size, signed=is_signed(form.type)) for item in form.parts(0)]
    if start % (size * count) or len(targets) != count:
        return bind_load(form)
    values = form.machine.memory.view(size)[start // size : start // size + count].copy()
    columns = [values[i : i + 1] for i in range(count)]

    def run(g: Group) -> None:
        for column, target in zip(columns, targets, strict=True):
            target.put(g.r, column)

    return run


def bind_store(form: "Form") -> Step:
    """st: one element or a vector of them."""
    form.expect(2, 3)
    machine, space = form.machine, space_of(form)
    count = next((VECTORS[flag] for flag in form.flags if flag in VECTORS), 1)
    bits = bits_of(form.type)
    strong = bool(form.flags & STRONG)
    access = Access(form.site, bits // 8 * count, strong)
    place = place_of(form, 0, space)
    sources = [form.source(item, form.type, may_be_wider=True) for item in form.parts(1)]
    if len(sources) != count or bits not in (8, 16, 32, 64):
        raise Unsupported(form.instruction.text)
    cut = np.dtype(f"u{bits // 8}")
    put = putter(machine, space, access, bits // 8, count)

    def run(g: Group) -> None:
        values = [g.r[slot] for slot in sources]
        if values[0].dtype != cut:
            values = [value.astype(cut) for value in values]
        put(g, place, values[0] if count == 1 else np.stack([g.full(value) for value in values], axis=1))

    return run


Put = Callable[[Group, Place, Array], None]


def putter(machine: "Machine", space: str, access: Access, element: int, count: int) -> Put:
    """What stores the lanes' values at a place."""
    if space == "generic":
        return _generic_putter(machine, access, element, count)
    memory = memory_of(machine, space)
    view = memory.view(element, count)
    note = machine.note(space, access)
    publishes = access.strong and space == "global"
    checked = machine.checks.alignment

    def put(g: Group, place: Place, values: Array) -> None:
        addresses = place.addresses(g)
        if note is not None:
            note(g, addresses)
        if not checked and is_misaligned(addresses, access.size):
            store_bytes(memory, g, access, addresses, values)
            return
        rows, allowed = memory.rows_to_write(g, access, addresses)
        if publishes:
            machine.order.release(g.threads // machine.order.padded)
        memory.store(g, access, addresses, rows, view, values, allowed)

    return put


def _generic_putter(machine: "Machine", access: Access, element: int, count: int) -> Put:
    def put(g: Group, place: Place, values: Array) -> None:
        values = g.full(values)

        def one(part: Group, space: str, addresses: Array) -> None:
            memory = memory_of(machine, space)
            addresses = shrink(space, addresses)
            rows, allowed = memory.rows_to_write(part, access, addresses)
            if access.strong and space == "global":
                machine.order.release(part.threads // machine.order.padded)
            mine = values if part.n == g.n else values[np.isin(g.lanes, part.lanes)]
            memory.store(part, access, addresses, rows, memory.view(element, count), mine, allowed)

        spread(g, place, one)

    return put


def bind_nothing(form: "Form") -> Step:
    """A hint: nothing that a result could depend on."""
    del form
    return lambda g: None  # noqa: ARG005


def bind_policy(form: "Form") -> Step:
    """A cache policy: any number will do."""
    target = form.target(0, 64)
    value = np.zeros(1, np.uint64)
    return lambda g: target.put(g.r, value)


SECTION = "Data Movement and Conversion Instructions"
SCALARS = words("b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64 f16 bf16")
SHAPES = frozenset(VECTORS)
PARAMETER = words("param param::entry")
LOADS = (SPACES - PARAMETER) | SHAPES | STRONG | SCOPES | CACHING
ENTRIES = (
    *(
        Opcode("ld", SECTION, 0, bind_load_parameter, SCALARS, SHAPES, words(space), Role.EFFECT)
        for space in sorted(PARAMETER)
    ),
    Opcode("ld", SECTION, 0, bind_load, SCALARS, LOADS, role=Role.EFFECT),
    Opcode("ldu", SECTION, 0, bind_load, SCALARS, words("global") | SHAPES, role=Role.EFFECT),
    Opcode("st", SECTION, 0, bind_store, SCALARS, LOADS - words("nc const"), role=Role.EFFECT),
    *(
        Opcode(
            name,
            SECTION,
            1,
            bind_nothing,
            flags=words("global local L1 L2 L2::evict_last L2::evict_normal generic tensormap param"),
        )
        for name in ("prefetch", "prefetchu")
    ),
    Opcode("applypriority", SECTION, 1, bind_nothing, flags=words("global L2::evict_normal")),
    Opcode(
        "createpolicy",
        SECTION,
        1,
        bind_policy,
        words("b64"),
        words("fractional L2::evict_last L2::evict_first L2::evict_normal L2::evict_unchanged"),
    ),
)
