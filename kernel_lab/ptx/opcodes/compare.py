"""Comparison and selection: "Comparison and Selection Instructions" and their half precision forms."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.form import DTYPES, bits_of
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.numbers import rounding
from kernel_lab.ptx.numbers.formats import from_bf16, from_f16
from kernel_lab.ptx.opcodes.lanes import FLOAT, SIGNED, Array, is_signed, step_of
from kernel_lab.ptx.opcodes.table import Opcode, Step, Unsupported, words

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

ORDERED: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
INTEGER: dict[str, Callable[..., Array]] = {
    **ORDERED, "ne": np.not_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
UNORDERED: dict[str, Callable[..., Array]] = {
    "equ": lambda a, b: ~((a < b) | (a > b)), "neu": np.not_equal, "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b), "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip
FLOATING = {**ORDERED, **UNORDERED}
COMBINE: dict[str, Callable[..., Array]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
FLOATS = words("f32 f64 f16 bf16")
HALVES = words("f16x2 bf16x2")
INTEGERS = words("b16 b32 b64 u16 u32 u64 s16 s32 s64")


def comparison(form: "Form", type_: str) -> Callable[..., Array]:
    """The comparison that the modifiers name, on raw bits."""
    names = form.flags & (FLOATING.keys() | INTEGER.keys())
    if len(names) != 1:
        raise Unsupported(f"the comparison of {form.instruction.text}")
    (name,) = names
    is_float = type_ in FLOATS or type_ in HALVES
    table = FLOATING if is_float else INTEGER
    if name not in table:
        raise Unsupported(f"comparison {name} of {type_}")
    compare = table[name]
    if not is_float:
        view = SIGNED[bits_of(type_)] if is_signed(type_) else DTYPES[bits_of(type_)]
        if not is_signed(type_):
            return compare
        return lambda a, b: compare(a.view(view), b.view(view))
    widen = widening(type_, flush="ftz" in form.flags)
    return lambda a, b: compare(widen(a), widen(b))


def widening(type_: str, *, flush: bool) -> Callable[[Array], Array]:
    """Raw bits as floats that numpy can compare."""
    if type_ in ("f32", "f64"):
        view = FLOAT[type_]
        if flush:
            return lambda a: rounding.flush(a.view(view), type_)
        return lambda a: a.view(view)
    widen, kind = (from_bf16, "bf16") if type_.startswith("bf16") else (from_f16, "f16")
    return (lambda a: rounding.flush(widen(a), kind)) if flush else widen


def bind_setp(form: "Form") -> Step:
    """setp: p and, with |, q; a third predicate may be combined in."""
    form.expect(3, 4)
    type_ = form.type
    compare = comparison(form, type_)
    first, second = form.pair(0)
    a, b = form.source(1, type_), form.source(2, type_)
    p = form.target(first, 1)
    combine = _combining(form)
    if combine is None and second is None:
        return step_of(compare, [a, b], p)
    q = form.target(second, 1) if second is not None else None

    def run(g: Group) -> None:
        holds = compare(g.r[a], g.r[b])
        against = ~holds
        if combine is not None:
            holds, against = combine(g, holds), combine(g, against)
        p.put(g.r, holds)
        if q is not None:
            q.put(g.r, against)

    return run


def _combining(form: "Form") -> Callable[[Group, Array], Array] | None:
    names = form.flags & COMBINE.keys()
    if not names:
        return None
    combine = COMBINE[next(iter(names))]
    slot, negated = form.predicate(3)
    return lambda g, holds: combine(holds, ~g.r[slot] if negated else g.r[slot])


def bind_setp_halves(form: "Form") -> Step:
    """setp on packed halves: p for the lower, q for the upper."""
    form.expect(3, 4)
    compare = comparison(form, form.type)
    first, second = form.pair(0)
    if second is None:
        raise Unsupported("setp on packed halves needs two predicates")
    a, b = form.source(1, form.type), form.source(2, form.type)
    p, q = form.target(first, 1), form.target(second, 1)
    combine = _combining(form)

    def run(g: Group) -> None:
        for target, shift in ((p, 0), (q, 16)):
            low = [((g.r[slot] >> np.uint32(shift)) & np.uint32(0xFFFF)).astype(np.uint16) for slot in (a, b)]
            holds = compare(*low)
            target.put(g.r, combine(g, holds) if combine is not None else holds)

    return run


TRUE_BITS = {
    "u32": 0xFFFFFFFF,
    "s32": 0xFFFFFFFF,
    "f32": 0x3F800000,
    "u16": 0xFFFF,
    "s16": 0xFFFF,
    "f16": 0x3C00,
    "bf16": 0x3F80,
}


def bind_set(form: "Form") -> Step:
    """set: all ones, or 1.0, where the comparison holds."""
    form.expect(3, 4)
    result, type_ = form.types
    compare = comparison(form, type_)
    a, b = form.source(1, type_), form.source(2, type_)
    combine = _combining(form)
    bits = bits_of(result)
    true = DTYPES[bits].type(TRUE_BITS[result])
    target = form.target(0, bits)

    def run(g: Group) -> None:
        holds = compare(g.r[a], g.r[b])
        if combine is not None:
            holds = combine(g, holds)
        target.put(g.r, np.where(holds, true, true.dtype.type(0)))

    return run


def bind_set_halves(form: "Form") -> Step:
    """set on packed halves: 1.0 or all ones in each half."""
    form.expect(3)
    result, type_ = form.types
    compare = comparison(form, type_)
    true = np.uint16({"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(result, 0xFFFF))

    def lanes(a: Array, b: Array) -> Array:
        a, b = (np.ascontiguousarray(value).view(np.uint16) for value in np.broadcast_arrays(a, b))
        return np.where(compare(a, b), true, np.uint16(0)).view(np.uint32)

    return step_of(lanes, [form.source(1, type_), form.source(2, type_)], form.target(0, 32))


def _chosen(a: Array, b: Array, p: Array) -> Array:
    return np.where(p, a, b)


def bind_selp(form: "Form") -> Step:
    """selp: a where the predicate holds, else b."""
    form.expect(4)
    a, b = form.source(1, form.type), form.source(2, form.type)
    p, negated = form.predicate(3)
    if negated:
        a, b = b, a
    return step_of(_chosen, [a, b, p], form.target(0, bits_of(form.type)))


def bind_slct(form: "Form") -> Step:
    """slct: a where c ≥ 0, else b; NaN is not."""
    form.expect(4)
    type_, condition = form.types
    a, b, c = form.source(1, type_), form.source(2, type_), form.source(3, condition)
    view = FLOAT["f32"] if condition == "f32" else SIGNED[32]
    flush = "ftz" in form.flags

    def lanes(a: Array, b: Array, c: Array) -> Array:
        value = c.view(view)
        return np.where((rounding.flush(value, "f32") if flush else value) >= 0, a, b)

    return step_of(lanes, [a, b, c], form.target(0, bits_of(type_)))


SECTION = "Comparison and Selection Instructions"
COMPARISONS = frozenset(FLOATING) | frozenset(INTEGER)
MODIFIERS = COMPARISONS | frozenset(COMBINE) | words("ftz")
SELECTABLE = words("b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 bf16")
ENTRIES = (
    Opcode("setp", SECTION, 0, bind_setp, INTEGERS | FLOATS, MODIFIERS),
    Opcode("setp", SECTION, 1, bind_setp_halves, HALVES, MODIFIERS),
    Opcode("set", SECTION, 0, bind_set, frozenset(f"{r}.{t}" for r in TRUE_BITS for t in INTEGERS | FLOATS), MODIFIERS),
    Opcode(
        "set",
        SECTION,
        1,
        bind_set_halves,
        frozenset(f"{r}.{t}" for r in ("f16x2", "bf16x2", "u32", "s32") for t in HALVES),
        MODIFIERS,
    ),
    Opcode("selp", SECTION, 0, bind_selp, SELECTABLE),
    Opcode(
        "slct", SECTION, 0, bind_slct, frozenset(f"{t}.{c}" for t in SELECTABLE for c in ("s32", "f32")), words("ftz")
    ),
)
