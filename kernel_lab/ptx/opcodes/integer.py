"""Integer arithmetic: chapter "Instruction Set: Integer Arithmetic Instructions" and its extended precision half."""

from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.form import DTYPES, bits_of
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.opcodes.lanes import SIGNED, Array, Lanes, LanesOf, alu, is_signed, plain, signed, step_of
from kernel_lab.ptx.opcodes.table import Opcode, Step, words

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

INTEGERS = words("u16 u32 u64 s16 s32 s64")
HALVES = words("u16x2 s16x2")
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def by_sign(lanes: Lanes) -> LanesOf:
    """Signed types see signed lanes."""

    def of(form: "Form") -> Lanes:
        return signed(lanes, bits_of(form.type)) if is_signed(form.type) else lanes

    return of


def halves(lanes: Lanes) -> LanesOf:
    """Two 16-bit lanes in each register."""

    def of(form: "Form") -> Lanes:
        view = SIGNED[16] if is_signed(form.type) else DTYPES[16]

        def run(*values: Array) -> Array:
            parts = [np.ascontiguousarray(value).view(view) for value in np.broadcast_arrays(*values)]
            return lanes(*parts).view(np.uint32)

        return run

    return of


def divide(a: Array, b: Array) -> Array:
    """The quotient truncated toward zero; by zero all ones, as the hardware does (the manual: unspecified)."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, ~a.dtype.type(0), a // safe)
    low = np.iinfo(a.dtype).min
    overflow = (a == low) & (b == -1)
    safe = np.where(overflow, a.dtype.type(1), safe)
    quotient = a // safe
    quotient += (a % safe != 0) & ((a < 0) != (safe < 0))
    return np.where(b == 0, a.dtype.type(-1), np.where(overflow, low, quotient))


def remainder(a: Array, b: Array) -> Array:
    """The remainder with the sign of the dividend; by zero the dividend, as the hardware does."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, a, a % safe)
    return np.where(b == 0, a, np.where(b == -1, a.dtype.type(0), np.fmod(a, safe)))


def high(form: "Form") -> Lanes:
    """The upper half of the double-width product."""
    bits = bits_of(form.type)
    if bits == 64:
        return _high64_signed if is_signed(form.type) else _high64
    wide = np.dtype(f"{form.type[0].replace('s', 'i')}{bits // 4}")
    narrow = SIGNED[bits] if is_signed(form.type) else DTYPES[bits]

    def run(a: Array, b: Array) -> Array:
        product = a.view(narrow).astype(wide) * b.view(narrow).astype(wide)
        return (product >> wide.type(bits)).astype(narrow).view(DTYPES[bits])

    return run


def _high64(a: Array, b: Array) -> Array:
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    low_middle = (middle & mask) + a0 * b1
    return a1 * b1 + (middle >> half) + (low_middle >> half)


def _high64_signed(a: Array, b: Array) -> Array:
    zero, top = np.uint64(0), np.uint64(63)
    correction = np.where(a >> top != 0, b, zero) + np.where(b >> top != 0, a, zero)
    return _high64(a, b) - correction


def widening(a: Array, b: Array, type_: str) -> Array:
    """The double-width product."""
    bits = bits_of(type_)
    narrow = SIGNED[bits] if is_signed(type_) else DTYPES[bits]
    wide = SIGNED[2 * bits] if is_signed(type_) else DTYPES[2 * bits]
    return (a.view(narrow).astype(wide) * b.view(narrow).astype(wide)).view(DTYPES[2 * bits])


def bind_wide(form: "Form") -> Step:
    """mul.wide and mad.wide."""
    type_, wide = form.type, WIDE[form.type]
    has_addend = form.instruction.opcode == "mad"
    form.expect(4 if has_addend else 3)
    sources = [form.source(1, type_), form.source(2, type_)]
    if has_addend:
        sources.append(form.source(3, wide))
        return step_of(lambda a, b, c: widening(a, b, type_) + c, sources, form.target(0, bits_of(wide)))
    return step_of(lambda a, b: widening(a, b, type_), sources, form.target(0, bits_of(wide)))


def mad_high(form: "Form") -> Lanes:
    """mad.hi"""
    product = high(form)
    return lambda a, b, c: product(a, b) + c


def saturating_add(a: Array, b: Array) -> Array:
    """add.sat.s32"""
    return np.clip(a.astype(np.int64) + b, -(2**31), 2**31 - 1).astype(np.int32)


def saturating_sub(a: Array, b: Array) -> Array:
    """sub.sat.s32"""
    return np.clip(a.astype(np.int64) - b, -(2**31), 2**31 - 1).astype(np.int32)


def mul24(form: "Form") -> Lanes:
    """mul24 and mad24: 24-bit factors."""
    signed_ = is_signed(form.type)

    def cut(value: Array) -> Array:
        if signed_:
            return ((value.view(np.int32) << np.int32(8)) >> np.int32(8)).astype(np.int64)
        return (value & np.uint32(0xFFFFFF)).astype(np.int64)

    shift = np.int64(16 if "hi" in form.flags else 0)

    def run(a: Array, b: Array, *c: Array) -> Array:
        product = ((cut(a) * cut(b)) >> shift).astype(np.uint32)
        return product + c[0] if c else product

    return run


def sad(a: Array, b: Array, c: Array) -> Array:
    """c + |a - b|"""
    return c + np.where(a < b, b - a, a - b)


def dot(form: "Form") -> Lanes:
    """dp4a and dp2a: products of bytes, summed."""
    left, right = form.types
    is_pairs = form.instruction.opcode == "dp2a"
    upper = "hi" in form.flags

    def parts(value: Array, type_: str, width: int) -> Array:
        kind = "i" if is_signed(type_) else "u"
        return np.ascontiguousarray(value).view(f"{kind}{width}").reshape(-1, 4 // width).astype(np.int64)

    def run(a: Array, b: Array, c: Array) -> Array:
        factors = parts(b, right, 1)
        if is_pairs:
            factors = factors[:, 2:] if upper else factors[:, :2]
        total = (parts(a, left, 2 if is_pairs else 1) * factors).sum(axis=1)
        return (total.astype(np.uint64) + c).astype(np.uint32)

    return run


def bind_dot(form: "Form") -> Step:
    """dp4a.atype.btype d, a, b, c"""
    form.expect(4)
    return step_of(dot(form), [form.source(i, "b32") for i in (1, 2, 3)], form.target(0, 32))


def bind_carry(form: "Form") -> Step:
    """add.cc, addc, sub.cc, subc, mad.lo.cc, madc …: the carry is a register of its own."""
    name, flags, bits = form.instruction.opcode, form.flags, bits_of(form.type)
    has_product = name.startswith("mad")
    takes, gives = name.endswith("c"), "cc" in flags
    form.expect(4 if has_product else 3)
    sources = [form.source(index, form.type) for index in range(1, len(form.operands))]
    carry = form.registers.carry
    target = form.target(0, bits)
    if takes:
        form.reads.append(carry)
    if gives:
        form.writes.append(carry)
    product = (high(form) if "hi" in flags else np.multiply) if has_product else None
    subtracts = name.startswith("sub")

    def run(g: Group) -> None:
        values = [g.r[slot] for slot in sources]
        a, b = (product(values[0], values[1]), values[2]) if product else (values[0], values[1])
        into = g.r[carry].astype(a.dtype) if takes else a.dtype.type(0)
        if subtracts:
            difference = a - b
            out = (a < b) | (difference < into)
            result = difference - into
        else:
            partial = a + b
            result = partial + into
            out = (partial < a) | (result < partial)
        target.put(g.r, result)
        if gives:
            g.r[carry] = np.atleast_1d(out)

    return run


ARITHMETIC = "Integer Arithmetic Instructions"
EXTENDED = "Extended-Precision Integer Arithmetic Instructions"
ENTRIES = (
    Opcode("add", ARITHMETIC, 0, alu(plain(np.add), 2), INTEGERS),
    Opcode("add", ARITHMETIC, 0, alu(by_sign(saturating_add), 2), words("s32"), needs=words("sat")),
    Opcode("add", ARITHMETIC, 1, alu(halves(np.add), 2), HALVES),
    Opcode("sub", ARITHMETIC, 0, alu(plain(np.subtract), 2), INTEGERS),
    Opcode("sub", ARITHMETIC, 0, alu(by_sign(saturating_sub), 2), words("s32"), needs=words("sat")),
    Opcode("mul", ARITHMETIC, 0, alu(plain(np.multiply), 2), INTEGERS, needs=words("lo")),
    Opcode("mul", ARITHMETIC, 0, alu(high, 2), INTEGERS, needs=words("hi")),
    Opcode("mul", ARITHMETIC, 0, bind_wide, frozenset(WIDE), needs=words("wide")),
    Opcode("mad", ARITHMETIC, 0, alu(plain(lambda a, b, c: a * b + c), 3), INTEGERS, needs=words("lo")),
    Opcode("mad", ARITHMETIC, 0, alu(mad_high, 3), INTEGERS, needs=words("hi")),
    Opcode("mad", ARITHMETIC, 0, bind_wide, frozenset(WIDE), needs=words("wide")),
    Opcode("mul24", ARITHMETIC, 0, alu(mul24, 2), words("u32 s32"), words("lo hi")),
    Opcode("mad24", ARITHMETIC, 0, alu(mul24, 3), words("u32 s32"), words("lo hi")),
    Opcode("sad", ARITHMETIC, 0, alu(by_sign(sad), 3), INTEGERS),
    Opcode("div", ARITHMETIC, 0, alu(by_sign(divide), 2), INTEGERS),
    Opcode("rem", ARITHMETIC, 0, alu(by_sign(remainder), 2), INTEGERS),
    Opcode("abs", ARITHMETIC, 0, alu(by_sign(np.abs), 1), words("s16 s32 s64")),
    Opcode("neg", ARITHMETIC, 0, alu(plain(np.negative), 1), words("s16 s32 s64")),
    Opcode("min", ARITHMETIC, 0, alu(by_sign(np.minimum), 2), INTEGERS),
    Opcode("max", ARITHMETIC, 0, alu(by_sign(np.maximum), 2), INTEGERS),
    Opcode(
        "min",
        ARITHMETIC,
        1,
        alu(by_sign(lambda a, b: np.maximum(np.minimum(a, b), 0)), 2),
        words("s32"),
        needs=words("relu"),
    ),
    Opcode(
        "max",
        ARITHMETIC,
        1,
        alu(by_sign(lambda a, b: np.maximum(np.maximum(a, b), 0)), 2),
        words("s32"),
        needs=words("relu"),
    ),
    Opcode("min", ARITHMETIC, 1, alu(halves(np.minimum), 2), HALVES),
    Opcode("max", ARITHMETIC, 1, alu(halves(np.maximum), 2), HALVES),
    Opcode("dp4a", ARITHMETIC, 1, bind_dot, words("u32.u32 u32.s32 s32.u32 s32.s32")),
    Opcode("dp2a", ARITHMETIC, 1, bind_dot, words("u32.u32 u32.s32 s32.u32 s32.s32"), words("lo hi")),
    *(
        Opcode(name, EXTENDED, 1, bind_carry, words("u32 s32 b32 u64 s64 b64"), needs=words("cc"))
        for name in ("add", "sub")
    ),
    *(
        Opcode(name, EXTENDED, 1, bind_carry, words("u32 s32 b32 u64 s64 b64"), words("cc"))
        for name in ("addc", "subc")
    ),
    Opcode("mad", EXTENDED, 1, bind_carry, words("u32 s32 u64 s64"), words("lo hi"), needs=words("cc")),
    Opcode("madc", EXTENDED, 1, bind_carry, words("u32 s32 u64 s64"), words("lo hi cc")),
)
