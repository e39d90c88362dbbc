"""Logic, shifts and bit fields: "Logic and Shift Instructions" and the bit-field half of the integer chapter."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_lab.ptx.form import DTYPES, bits_of
from kernel_lab.ptx.opcodes.lanes import SIGNED, Array, Lanes, alu, is_signed, plain, step_of
from kernel_lab.ptx.opcodes.table import Opcode, Step, Unsupported, words

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

BITS = words("b16 b32 b64")


def bind_shift(form: "Form") -> Step:
    """shl and shr: the amount is 32 bits and clamps at the width."""
    form.expect(3)
    bits = bits_of(form.type)
    left, arithmetic = form.instruction.opcode == "shl", is_signed(form.type)
    unsigned = DTYPES[bits]

    def run(a: Array, amount: Array) -> Array:
        beyond = amount >= np.uint32(bits)
        by = np.minimum(amount, np.uint32(bits - 1))
        if arithmetic:
            return (a.view(SIGNED[bits]) >> by.astype(SIGNED[bits])).view(unsigned)
        moved = a << by.astype(unsigned) if left else a >> by.astype(unsigned)
        return np.where(beyond, unsigned.type(0), moved) if beyond.any() else moved

    return step_of(run, [form.source(1, form.type), form.source(2, "b32")], form.target(0, bits, signed=arithmetic))


def bind_funnel(form: "Form") -> Step:
    """shf: shifts the 64 bits {b, a}; .l keeps the upper word, .r the lower."""
    form.expect(4)
    left, clamps = "l" in form.flags, "clamp" in form.flags
    u8 = np.uint64

    def run(low: Array, high: Array, amount: Array) -> Array:
        by = (np.minimum(amount, np.uint32(32)) if clamps else amount & np.uint32(31)).astype(u8)
        both = (high.astype(u8) << u8(32)) | low
        if left:
            return (((both << by) >> u8(32)) & u8(0xFFFFFFFF)).astype(np.uint32)
        return ((both >> by) & u8(0xFFFFFFFF)).astype(np.uint32)

    return step_of(run, [form.source(i, "b32") for i in (1, 2, 3)], form.target(0, 32))


def bind_lop3(form: "Form") -> Step:
    """lop3: any function of three bits, by its truth table."""
    if form.flags:
        raise Unsupported("lop3 with a predicate result")
    form.expect(5)
    table = form.integer(4) & 0xFF

    def run(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros_like(a & b & c)
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return step_of(run, [form.source(i, "b32") for i in (1, 2, 3)], form.target(0, 32))


def bind_prmt(form: "Form") -> Step:
    """prmt: picks four of the eight bytes {b, a}; the msb of a selector replicates the sign of its byte."""
    form.expect(4)
    mode = next(iter(form.flags), "")
    sources = [form.source(i, "b32") for i in (1, 2, 3)]

    def run(a: Array, b: Array, selector: Array) -> Array:
        eight = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint32)
        for position in range(4):
            pick, sign = PRMT_MODES[mode](selector, position)
            byte = ((eight >> (pick.astype(np.uint64) << np.uint64(3))) & np.uint64(0xFF)).astype(np.uint32)
            spread = np.where(byte >> np.uint32(7) != 0, np.uint32(0xFF), np.uint32(0))
            result |= np.where(sign, spread, byte) << np.uint32(8 * position)
        return result

    return step_of(run, sources, form.target(0, 32))


def _prmt_default(selector: Array, position: int) -> tuple[Array, Array]:
    nibble = (selector >> np.uint32(4 * position)) & np.uint32(15)
    return nibble & np.uint32(7), nibble > 7


PrmtMode = Callable[[Array, int], tuple[Array, Array]]


def _prmt_table(rows: tuple[tuple[int, ...], ...]) -> PrmtMode:
    """Rows by selector 0 to 3, bytes from the lowest."""
    table = np.array(rows, np.uint32)
    return lambda selector, position: (table[selector & np.uint32(3), position], np.zeros(1, bool))


PRMT_MODES: dict[str, PrmtMode] = {
    "": _prmt_default,
    "f4e": _prmt_table(((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6))),
    "b4e": _prmt_table(((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0))),
    "rc8": _prmt_table(((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3))),
    "ecl": _prmt_table(((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3))),
    "ecr": _prmt_table(((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3))),
    "rc16": _prmt_table(((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3))),
}


def ones(count: Array, unsigned: "np.dtype[Any]") -> Array:
    """So many low bits, all of them from the width on."""
    bits = 8 * unsigned.itemsize
    one = unsigned.type(1)
    some = np.left_shift(one, np.minimum(count, bits - 1).astype(unsigned)) - one
    return np.where(count >= bits, ~unsigned.type(0), some)


def bind_bfe(form: "Form") -> Step:
    """bfe: a field of `len` bits from `pos`, extended with zeros or its sign."""
    form.expect(4)
    bits = bits_of(form.type)
    unsigned, extends = DTYPES[bits], is_signed(form.type)
    zero = unsigned.type(0)

    def run(a: Array, position: Array, length: Array) -> Array:
        pos = (position & np.uint32(0xFF)).astype(np.int64)
        count = (length & np.uint32(0xFF)).astype(np.int64)
        moved = np.where(pos < bits, a >> np.minimum(pos, bits - 1).astype(unsigned), zero)
        field = moved & ones(count, unsigned)
        if not extends:
            return field
        top = np.clip(pos + count - 1, 0, bits - 1).astype(unsigned)
        sign = ((a >> top) & unsigned.type(1)).astype(bool) & (count > 0)
        inside = np.clip(bits - pos, 0, count)  # beyond the top of a, copies of the sign
        return np.where(sign, field | ~ones(inside, unsigned), field)

    return step_of(run, [form.source(1, form.type), form.source(2, "b32"), form.source(3, "b32")], form.target(0, bits))


def bind_bfi(form: "Form") -> Step:
    """bfi: `len` bits of a into b at `pos`."""
    form.expect(5)
    bits = bits_of(form.type)
    unsigned = DTYPES[bits]

    def run(a: Array, b: Array, position: Array, length: Array) -> Array:
        pos = np.minimum(position & np.uint32(0xFF), np.uint32(bits)).astype(np.int64)
        count = np.minimum((length & np.uint32(0xFF)).astype(np.int64), bits - pos)
        by = np.minimum(pos, bits - 1).astype(unsigned)
        mask = np.where(count > 0, ones(count, unsigned) << by, unsigned.type(0))
        return (b & ~mask) | ((a << by) & mask)

    sources = [form.source(1, form.type), form.source(2, form.type), form.source(3, "b32"), form.source(4, "b32")]
    return step_of(run, sources, form.target(0, bits))


def counted(lanes: Lanes) -> "Lanes":
    """popc and clz: the result is 32 bits."""
    return lambda value: lanes(value).astype(np.uint32)


def leading_zeros(value: Array) -> Array:
    """clz"""
    bits = value.dtype.itemsize * 8
    spread = value
    shift = 1
    while shift < bits:
        spread = spread | (spread >> value.dtype.type(shift))
        shift *= 2
    return bits - np.bitwise_count(spread).astype(np.int64)


def find_leading(form: "Form") -> Lanes:
    """bfind: the position of the highest bit that is not the sign; -1 where there is none."""
    bits, shiftamt = bits_of(form.type), "shiftamt" in form.flags
    has_sign = is_signed(form.type)

    def run(value: Array) -> Array:
        if has_sign:
            value = np.where(value >> value.dtype.type(bits - 1) != 0, ~value, value)
        zeros = leading_zeros(value)
        found = zeros if shiftamt else bits - 1 - zeros
        return np.where(zeros == bits, -1, found).astype(np.uint32)

    return run


SWAPS = (
    (1, 0x5555555555555555),
    (2, 0x3333333333333333),
    (4, 0x0F0F0F0F0F0F0F0F),
    (8, 0x00FF00FF00FF00FF),
    (16, 0x0000FFFF0000FFFF),
)


def reverse(value: Array) -> Array:
    """brev"""
    bits = value.dtype.itemsize * 8
    masks = {
        1: 0x5555555555555555,
        2: 0x3333333333333333,
        4: 0x0F0F0F0F0F0F0F0F,
        8: 0x00FF00FF00FF00FF,
        16: 0x0000FFFF0000FFFF,
    }
    one = value.dtype.type
    for shift, mask in masks.items():
        keep = one(mask & (2**bits - 1))
        value = ((value >> one(shift)) & keep) | ((value & keep) << one(shift))
    return (value >> one(32)) | (value << one(32)) if bits == 64 else value


def bind_bmsk(form: "Form") -> Step:
    """bmsk: b ones from bit a."""
    form.expect(3)
    wraps = "wrap" in form.flags

    def run(a: Array, b: Array) -> Array:
        start = (a & np.uint32(31) if wraps else np.minimum(a, np.uint32(32))).astype(np.uint64)
        count = (b & np.uint32(31) if wraps else np.minimum(b, np.uint32(32))).astype(np.uint64)
        ones = (np.uint64(1) << count) - np.uint64(1)
        return ((ones << start) & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return step_of(run, [form.source(1, "b32"), form.source(2, "b32")], form.target(0, 32))


def bind_szext(form: "Form") -> Step:
    """szext: the lower b bits, extended."""
    form.expect(3)
    wraps, extends = "wrap" in form.flags, is_signed(form.type)

    def run(a: Array, b: Array) -> Array:
        count = (b & np.uint32(31) if wraps else np.minimum(b, np.uint32(32))).astype(np.uint64)
        mask = (np.uint64(1) << count) - np.uint64(1)
        field = a.astype(np.uint64) & mask
        if extends:
            sign = (count > 0) & ((field >> (np.maximum(count, np.uint64(1)) - np.uint64(1))) & np.uint64(1)).astype(
                bool
            )
            field = np.where(sign, field | ~mask, field)
        return (field & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return step_of(run, [form.source(1, "b32"), form.source(2, "b32")], form.target(0, 32))


LOGIC = "Logic and Shift Instructions"
FIELDS = "Integer Arithmetic Instructions"
LOGICAL = BITS | {"pred"}
ENTRIES = (
    Opcode("and", LOGIC, 0, alu(plain(np.bitwise_and), 2), LOGICAL),
    Opcode("or", LOGIC, 0, alu(plain(np.bitwise_or), 2), LOGICAL),
    Opcode("xor", LOGIC, 0, alu(plain(np.bitwise_xor), 2), LOGICAL),
    Opcode("not", LOGIC, 0, alu(plain(np.invert), 1), LOGICAL),
    Opcode("cnot", LOGIC, 0, alu(plain(lambda a: (a == 0).astype(a.dtype)), 1), BITS),
    Opcode("shl", LOGIC, 0, bind_shift, BITS),
    Opcode("shr", LOGIC, 0, bind_shift, BITS | words("u16 u32 u64 s16 s32 s64")),
    Opcode("shf", LOGIC, 1, bind_funnel, words("b32"), words("l r clamp wrap")),
    Opcode("lop3", LOGIC, 1, bind_lop3, words("b32")),
    Opcode(
        "prmt",
        "Data Movement and Conversion Instructions: prmt",
        1,
        bind_prmt,
        words("b32"),
        words("f4e b4e rc8 ecl ecr rc16"),
    ),
    Opcode("bfe", FIELDS, 1, bind_bfe, words("u32 u64 s32 s64")),
    Opcode("bfi", FIELDS, 1, bind_bfi, words("b32 b64")),
    Opcode("popc", FIELDS, 1, alu(plain(counted(np.bitwise_count)), 1, "u32"), words("b32 b64")),
    Opcode("clz", FIELDS, 1, alu(plain(counted(leading_zeros)), 1, "u32"), words("b32 b64")),
    Opcode("bfind", FIELDS, 1, alu(find_leading, 1, "u32"), words("u32 u64 s32 s64"), words("shiftamt")),
    Opcode("brev", FIELDS, 1, alu(plain(reverse), 1), words("b32 b64")),
    Opcode("bmsk", FIELDS, 1, bind_bmsk, words("b32"), words("clamp wrap")),
    Opcode("szext", FIELDS, 1, bind_szext, words("u32 s32"), words("clamp wrap")),
)
