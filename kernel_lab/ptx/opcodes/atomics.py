"""atom and red: lanes that meet at one address go one after the other, in lane order."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.form import Target, bits_of
from kernel_lab.ptx.group import Array, Group
from kernel_lab.ptx.memory.checked import Access, Checked
from kernel_lab.ptx.memory.globals import GlobalMemory
from kernel_lab.ptx.numbers.formats import from_bf16, from_f16, to_bf16, to_f16
from kernel_lab.ptx.opcodes.lanes import FLOAT, SIGNED, is_signed
from kernel_lab.ptx.opcodes.memory import CACHING, SCOPES, memory_of, place_of, shrink, space_of, spread
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, Unsupported, words

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

Update = Callable[..., Array]
"""The new value from the old one and the operands, all raw bits."""


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _compare_and_swap(old: Array, expected: Array, new: Array) -> Array:
    return np.where(old == expected, new, old)


UPDATES: dict[str, Update] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: np.broadcast_to(new, old.shape),
    "cas": _compare_and_swap,
    "inc": _increment,
    "dec": _decrement,
}
BITWISE = words("and or xor exch cas")


def update_of(form: "Form", op: str) -> Update:
    """The update in the instruction's type."""
    update, type_ = UPDATES[op], form.type
    if op in BITWISE:
        return update
    if type_ in FLOAT and type_ != "f16":
        view = FLOAT[type_]
        return lambda old, new: update(old.view(view), np.ascontiguousarray(new).view(view)).view(old.dtype)
    if type_ in ("f16", "bf16", "f16x2", "bf16x2"):
        return _narrow_update(update, type_)
    if is_signed(type_):
        view = SIGNED[bits_of(type_)]
        return lambda old, new: update(old.view(view), np.ascontiguousarray(new).view(view)).view(old.dtype)
    return update


def _narrow_update(update: Update, type_: str) -> Update:
    widen, shorten = (from_bf16, to_bf16) if type_.startswith("bf16") else (from_f16, to_f16)

    def run(old: Array, new: Array) -> Array:
        a, b = (np.ascontiguousarray(value).view(np.uint16) for value in (old, new))
        return np.ascontiguousarray(shorten(update(widen(a), widen(b)))).view(old.dtype)

    return run


def turns(rows: Array) -> list[Array]:
    """Positions by turn: in each turn no two lanes have the same row; lanes of a row keep their order."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    fresh = np.ones(rows.size, bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(fresh)
    if starts.size == rows.size:
        return [np.arange(rows.size)]
    rank = np.arange(rows.size) - np.repeat(starts, np.diff(np.append(starts, rows.size)))
    by_rank = order[np.argsort(rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])


def bind_atomic(form: "Form") -> Step:
    """atom d, [a], b{, c} and red [a], b"""
    is_red = form.instruction.opcode == "red"
    names = form.flags & UPDATES.keys()
    if len(names) != 1:
        raise Unsupported(form.instruction.text)
    (op,) = names
    if form.flags & words("v2 v4 v8"):
        raise Unsupported(f"vector form {form.instruction.text}")
    machine, space, bits = form.machine, space_of(form), bits_of(form.type)
    access = Access(form.site, bits // 8, strong=True, updates=True)
    place = place_of(form, 0 if is_red else 1, space)
    first = 1 if is_red else 2
    count = 2 if op == "cas" else 1
    form.expect(first + count, first + count + 1)
    operands = [form.source(first + index, form.type) for index in range(count)]
    target = None if is_red else form.target(0, bits, signed=is_signed(form.type))
    update = update_of(form, op)

    def one(g: Group, space: str, addresses: Array) -> Array:
        memory = memory_of(machine, space)
        if not isinstance(memory, Checked):
            raise TypeError("ptxas refuses atomics on local memory")
        return _apply(g, memory, access, addresses, [g.full(g.r[slot]) for slot in operands], update)

    note = machine.note(space, access)

    def run(g: Group) -> None:
        if space == "generic":
            old = spread(g, place, lambda part, space, addresses: one(part, space, shrink(space, addresses)))
        else:
            addresses = place.addresses(g)
            if note is not None:
                note(g, addresses)
            old = one(g, space, addresses)
        _put(g, target, old)

    return run


def _put(g: Group, target: Target | None, old: Array | None) -> None:
    if target is not None and old is not None:
        target.put(g.r, old)


def _apply(g: Group, memory: Checked, access: Access, addresses: Array, operands: list[Array], update: Update) -> Array:
    """The old values, lane by lane; memory holds the last new ones."""
    _, allowed = memory.rows_to_write(g, access, addresses)
    rows = g.full(memory.rows_to_read(g, access, addresses))
    if isinstance(memory, GlobalMemory):
        memory.heard(g, access, rows)
        memory.order.release(g.threads // memory.order.padded)
        memory.heard_in_turn(g, rows)
    chosen = np.arange(g.n) if allowed is None else np.flatnonzero(allowed)
    view = memory.view(access.size)
    old = np.zeros(g.n, view.dtype)
    for turn in turns(rows[chosen]):
        lanes = chosen[turn]
        before = view[rows[lanes]]
        old[lanes] = before
        view[rows[lanes]] = update(before, *[operand[lanes] for operand in operands])
    written = memory.shadow.rows(memory.shadow.written, access.size)
    stamps = g.r[0][chosen] + memory.order.stamp(atomic=True)
    written[rows[chosen]] = stamps if written.ndim == 1 else stamps[:, None]
    return old


SECTION = "Parallel Synchronization and Communication Instructions"
MODIFIERS = words("relaxed acquire release acq_rel global shared shared::cta noftz v2 v4 v8") | SCOPES | CACHING
BY_TYPE = {
    "add": "u32 s32 u64 f32 f64 f16 f16x2 bf16 bf16x2",
    "min": "u32 s32 u64 s64 f16 f16x2 bf16 bf16x2",
    "max": "u32 s32 u64 s64 f16 f16x2 bf16 bf16x2",
    "and": "b32 b64",
    "or": "b32 b64",
    "xor": "b32 b64",
    "inc": "u32",
    "dec": "u32",
}
ENTRIES = (
    *(
        Opcode(name, SECTION, 1, bind_atomic, words(types), MODIFIERS, words(op), Role.EFFECT)
        for name in ("atom", "red")
        for op, types in BY_TYPE.items()
    ),
    Opcode("atom", SECTION, 1, bind_atomic, words("b32 b64"), MODIFIERS, words("exch"), Role.EFFECT),
    Opcode("atom", SECTION, 1, bind_atomic, words("b16 b32 b64"), MODIFIERS, words("cas"), Role.EFFECT),
)
