"""Integer, logic and bit field opcodes against Python's integers."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.pure.ptx.harness import bits_of, lanes_of

LANES = 256
TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")
Python = Callable[..., int]


def _values(type_: str, position: int, seed: int = 1) -> np.ndarray:
    bits = bits_of(type_)
    corners = [
        0,
        1,
        2,
        3,
        7,
        (1 << bits) - 1,
        1 << (bits - 1),
        (1 << (bits - 1)) - 1,
        (1 << (bits - 1)) + 1,
        1 << bits // 2,
    ]
    rng = np.random.default_rng([seed, position])
    wild = [int(rng.integers(0, 1 << 62)) * 4 + int(rng.integers(0, 4)) for _ in range(LANES - 4 * len(corners))]
    narrowed = [value >> int(rng.integers(0, 60)) for value in wild]
    chosen = [*(corners[i] for c in range(4) for i in rng.permutation(len(corners))), *narrowed]
    return np.array([value % (1 << bits) for value in chosen], f"u{bits // 8}")


def _read(value: int, type_: str) -> int:
    bits = bits_of(type_)
    return value - (1 << bits) if type_[0] == "s" and value >> (bits - 1) else value


def _check(instruction: str, python: Python, result: str, types: list[str], operands: list[np.ndarray]) -> None:
    got = lanes_of(instruction, result, types, operands)
    for lane, values in enumerate(zip(*[operand.tolist() for operand in operands], strict=True)):
        wanted = python(*[_read(value, type_) for value, type_ in zip(values, types, strict=True)])
        assert int(got[lane]) == wanted % (1 << bits_of(result)), (instruction, values)


def _quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


TWO: dict[str, Python] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": _quotient,
    "rem": _remainder,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", sorted(TWO))
def test_two_operand_arithmetic_is_that_of_integers(name: str, type_: str) -> None:
    operands = [_values(type_, 0), _values(type_, 1)]
    _check(f"{name}.{type_} %d, %a0, %a1;", TWO[name], type_, [type_] * 2, operands)


@pytest.mark.parametrize("type_", TYPES)
def test_the_high_half_of_a_product(type_: str) -> None:
    bits = bits_of(type_)
    operands = [_values(type_, position) for position in range(3)]
    _check(f"mul.hi.{type_} %d, %a0, %a1;", lambda a, b: a * b >> bits, type_, [type_] * 2, operands[:2])
    _check(f"mad.hi.{type_} %d, %a0, %a1, %a2;", lambda a, b, c: (a * b >> bits) + c, type_, [type_] * 3, operands)


@pytest.mark.parametrize("type_", TYPES)
def test_mad_and_sad(type_: str) -> None:
    operands = [_values(type_, position) for position in range(3)]
    _check(f"mad.lo.{type_} %d, %a0, %a1, %a2;", lambda a, b, c: a * b + c, type_, [type_] * 3, operands)
    _check(f"sad.{type_} %d, %a0, %a1, %a2;", lambda a, b, c: c + abs(a - b), type_, [type_] * 3, operands)


@pytest.mark.parametrize(("type_", "wide"), [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")])
def test_wide_products(type_: str, wide: str) -> None:
    operands = [_values(type_, 0), _values(type_, 1), _values(wide, 2)]
    _check(f"mul.wide.{type_} %d, %a0, %a1;", lambda a, b: a * b, wide, [type_] * 2, operands[:2])
    _check(f"mad.wide.{type_} %d, %a0, %a1, %a2;", lambda a, b, c: a * b + c, wide, [type_, type_, wide], operands)


@pytest.mark.parametrize("type_", ["s16", "s32", "s64"])
def test_neg_and_abs(type_: str) -> None:
    _check(f"neg.{type_} %d, %a0;", lambda a: -a, type_, [type_], [_values(type_, 0)])
    _check(f"abs.{type_} %d, %a0;", abs, type_, [type_], [_values(type_, 0)])


def test_saturating_addition_stops_at_the_ends() -> None:
    def clamp(value: int) -> int:
        return max(min(value, 2**31 - 1), -(2**31))

    operands = [_values("s32", 0), _values("s32", 1)]
    _check("add.sat.s32 %d, %a0, %a1;", lambda a, b: clamp(a + b), "s32", ["s32"] * 2, operands)
    _check("sub.sat.s32 %d, %a0, %a1;", lambda a, b: clamp(a - b), "s32", ["s32"] * 2, operands)


def test_mul24_takes_24_bits() -> None:
    def cut(value: int) -> int:
        return (value & 0xFFFFFF) - (1 << 24 if value & 0x800000 else 0)

    operands = [_values("s32", position) for position in range(3)]
    _check("mul24.lo.s32 %d, %a0, %a1;", lambda a, b: cut(a) * cut(b), "s32", ["s32"] * 2, operands[:2])
    _check("mul24.hi.s32 %d, %a0, %a1;", lambda a, b: cut(a) * cut(b) >> 16, "s32", ["s32"] * 2, operands[:2])
    _check("mad24.lo.s32 %d, %a0, %a1, %a2;", lambda a, b, c: cut(a) * cut(b) + c, "s32", ["s32"] * 3, operands)


@pytest.mark.parametrize("type_", ["u32", "u64"])
def test_a_carry_goes_from_one_addition_to_the_next(type_: str) -> None:
    bits = bits_of(type_)
    operands = [_values(type_, position) for position in range(3)]
    carried = f".reg .{type_} %low; add.cc.{type_} %low, %a0, %a1; addc.{type_} %d, %a2, %a0;"
    _check(carried, lambda a, b, c: c + a + (a + b >> bits), type_, [type_] * 3, operands)
    borrowed = f".reg .{type_} %low; sub.cc.{type_} %low, %a0, %a1; subc.{type_} %d, %a2, %a0;"
    _check(borrowed, lambda a, b, c: c - a - (a < b), type_, [type_] * 3, operands)
    product = f".reg .{type_} %low; mad.lo.cc.{type_} %low, %a0, %a1, %a2; madc.hi.{type_} %d, %a0, %a1, %a2;"
    _check(
        product, lambda a, b, c: (a * b >> bits) + c + ((a * b % (1 << bits)) + c >> bits), type_, [type_] * 3, operands
    )


@pytest.mark.parametrize(("left", "right"), [("u32", "u32"), ("s32", "u32"), ("u32", "s32"), ("s32", "s32")])
def test_dot_products_of_bytes(left: str, right: str) -> None:
    def byte(value: int, index: int, type_: str) -> int:
        part = value >> 8 * index & 0xFF
        return part - 256 if type_[0] == "s" and part > 127 else part

    def pair(value: int, index: int) -> int:
        part = value >> 16 * index & 0xFFFF
        return part - 65536 if left[0] == "s" and part > 32767 else part

    def four(a: int, b: int, c: int) -> int:
        return c + sum(byte(a, i, left) * byte(b, i, right) for i in range(4))

    def two(a: int, b: int, c: int) -> int:
        return c + sum(pair(a, i) * byte(b, 2 + i, right) for i in range(2))

    operands = [_values("u32", position) for position in range(3)]
    _check(f"dp4a.{left}.{right} %d, %a0, %a1, %a2;", four, "u32", ["u32"] * 3, operands)
    _check(f"dp2a.hi.{left}.{right} %d, %a0, %a1, %a2;", two, "u32", ["u32"] * 3, operands)


LOGIC: dict[str, Python] = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}


@pytest.mark.parametrize("type_", ["b16", "b32", "b64"])
def test_logic_is_bit_by_bit(type_: str) -> None:
    operands = [_values(type_, 0), _values(type_, 1)]
    for name, python in LOGIC.items():
        _check(f"{name}.{type_} %d, %a0, %a1;", python, type_, [type_] * 2, operands)
    _check(f"not.{type_} %d, %a0;", lambda a: ~a, type_, [type_], operands[:1])
    _check(f"cnot.{type_} %d, %a0;", lambda a: a == 0, type_, [type_], operands[:1])


@pytest.mark.parametrize("name", ["and", "or", "xor", "not"])
def test_logic_of_predicates(name: str) -> None:
    rng = np.random.default_rng(2)
    operands = [rng.integers(0, 2, LANES).astype("u4") for _ in range(1 if name == "not" else 2)]
    sources = ", ".join(f"%a{i}" for i in range(len(operands)))
    python = LOGIC.get(name, lambda a: 1 - a)
    _check(f"{name}.pred %d, {sources};", python, "pred", ["pred"] * len(operands), operands)


@pytest.mark.parametrize("type_", ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"])
def test_shifts_clamp_at_the_width(type_: str) -> None:
    bits = bits_of(type_)
    amount = np.resize(np.array([0, 1, bits - 1, bits, bits + 1, 63, 64, 255, 2**31, 2**32 - 1, 5, 13], "u4"), LANES)
    if type_[0] == "b":
        _check(
            f"shl.{type_} %d, %a0, %a1;",
            lambda a, b: a << min(b, bits),
            type_,
            [type_, "b32"],
            [_values(type_, 0), amount],
        )
    _check(
        f"shr.{type_} %d, %a0, %a1;", lambda a, b: a >> min(b, bits), type_, [type_, "b32"], [_values(type_, 0), amount]
    )


@pytest.mark.parametrize("clamps", [True, False])
def test_funnel_shifts(clamps: bool) -> None:
    amount = np.resize(np.array([0, 1, 31, 32, 33, 63, 100, 2**32 - 1], "u4"), LANES)
    kind = "clamp" if clamps else "wrap"

    def by(n: int) -> int:
        return min(n, 32) if clamps else n & 31

    operands = [_values("b32", 0), _values("b32", 1), amount]
    _check(
        f"shf.l.{kind}.b32 %d, %a0, %a1, %a2;",
        lambda a, b, n: (b << 32 | a) << by(n) >> 32,
        "b32",
        ["b32"] * 3,
        operands,
    )
    _check(f"shf.r.{kind}.b32 %d, %a0, %a1, %a2;", lambda a, b, n: (b << 32 | a) >> by(n), "b32", ["b32"] * 3, operands)


@pytest.mark.parametrize("table", [0x00, 0x80, 0xE8, 0x96, 0xCA, 0x1D, 0xFF])
def test_lop3_follows_its_truth_table(table: int) -> None:
    def python(a: int, b: int, c: int) -> int:
        return sum(1 << i for i in range(32) if table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1)

    operands = [_values("b32", position) for position in range(3)]
    _check(f"lop3.b32 %d, %a0, %a1, %a2, {table:#x};", python, "b32", ["b32"] * 3, operands)


def test_prmt_picks_bytes_and_replicates_signs() -> None:
    def python(a: int, b: int, selector: int) -> int:
        both, result = b << 32 | a, 0
        for i in range(4):
            nibble = selector >> 4 * i & 15
            byte = both >> 8 * (nibble & 7) & 0xFF
            result |= (0xFF * (byte >> 7) if nibble & 8 else byte) << 8 * i
        return result

    operands = [_values("b32", position) for position in range(3)]
    _check("prmt.b32 %d, %a0, %a1, %a2;", python, "b32", ["b32"] * 3, operands)


PRMT: dict[str, Callable[[list[int], int], list[int]]] = {
    "f4e": lambda _, c: [c, c + 1, c + 2, c + 3],
    "b4e": lambda _, c: [c, (c - 1) % 8, (c - 2) % 8, (c - 3) % 8],
    "rc8": lambda _, c: [c] * 4,
    "ecl": lambda _, c: [max(i, c) for i in range(4)],
    "ecr": lambda _, c: [min(i, c) for i in range(4)],
    "rc16": lambda _, c: [2 * (c & 1), 2 * (c & 1) + 1] * 2,
}


@pytest.mark.parametrize("mode", sorted(PRMT))
def test_prmt_modes(mode: str) -> None:
    def python(a: int, b: int, selector: int) -> int:
        picks = PRMT[mode]([], selector & 3)
        return sum(((b << 32 | a) >> 8 * pick & 0xFF) << 8 * i for i, pick in enumerate(picks))

    operands = [_values("b32", position) for position in range(3)]
    _check(f"prmt.b32.{mode} %d, %a0, %a1, %a2;", python, "b32", ["b32"] * 3, operands)


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_bfe_extracts_and_extends(type_: str) -> None:
    bits = bits_of(type_)
    rng = np.random.default_rng(3)
    position, length = (rng.integers(0, bits + 8, LANES).astype("u4") for _ in range(2))

    def python(a: int, pos: int, count: int) -> int:
        """The manual's pseudocode, bit by bit."""
        raw, top = a % (1 << bits), bits - 1
        sign = 0 if type_[0] == "u" or count == 0 else raw >> min(pos + count - 1, top) & 1
        return sum((raw >> pos + i & 1 if i < count and pos + i <= top else sign) << i for i in range(bits))

    _check(
        f"bfe.{type_} %d, %a0, %a1, %a2;", python, type_, [type_, "b32", "b32"], [_values(type_, 0), position, length]
    )


@pytest.mark.parametrize("type_", ["b32", "b64"])
def test_bfi_inserts(type_: str) -> None:
    bits = bits_of(type_)
    rng = np.random.default_rng(4)
    position, length = (rng.integers(0, bits + 8, LANES).astype("u4") for _ in range(2))

    def python(a: int, b: int, pos: int, count: int) -> int:
        for i in range(count):
            if pos + i < bits:
                b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
        return b

    operands = [_values(type_, 0), _values(type_, 1), position, length]
    _check(f"bfi.{type_} %d, %a0, %a1, %a2, %a3;", python, type_, [type_, type_, "b32", "b32"], operands)


@pytest.mark.parametrize("type_", ["b32", "b64"])
def test_counting_and_reversing_bits(type_: str) -> None:
    bits, values = bits_of(type_), [_values(type_, 0)]
    _check(f"popc.{type_} %d, %a0;", int.bit_count, "u32", [type_], values)
    _check(f"clz.{type_} %d, %a0;", lambda a: bits - a.bit_length(), "u32", [type_], values)
    _check(f"brev.{type_} %d, %a0;", lambda a: int(f"{a:0{bits}b}"[::-1], 2), type_, [type_], values)


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_bfind_finds_the_highest_bit(type_: str) -> None:
    def python(a: int) -> int:
        return (~a if a < 0 else a).bit_length() - 1

    bits = bits_of(type_)
    _check(f"bfind.{type_} %d, %a0;", python, "u32", [type_], [_values(type_, 0)])
    _check(
        f"bfind.shiftamt.{type_} %d, %a0;", lambda a: -1 if python(a) < 0 else bits - 1 - python(a), "u32", [type_],
        [_values(type_, 0)],
    )  # fmt: skip


def test_bmsk_and_szext() -> None:
    rng = np.random.default_rng(5)
    start, count = (rng.integers(0, 40, LANES).astype("u4") for _ in range(2))
    _check(
        "bmsk.clamp.b32 %d, %a0, %a1;",
        lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32),
        "b32",
        ["b32"] * 2,
        [start, count],
    )
    _check(
        "bmsk.wrap.b32 %d, %a0, %a1;", lambda a, b: ((1 << b % 32) - 1) << a % 32, "b32", ["b32"] * 2, [start, count]
    )

    def extended(a: int, b: int) -> int:
        b = min(b, 32)
        field = a % (1 << b)
        return field - (1 << b) if b and field >> (b - 1) else field

    _check("szext.clamp.s32 %d, %a0, %a1;", extended, "s32", ["b32", "b32"], [_values("b32", 0), count])
    _check(
        "szext.clamp.u32 %d, %a0, %a1;",
        lambda a, b: a % (1 << min(b, 32)),
        "u32",
        ["b32", "b32"],
        [_values("b32", 0), count],
    )


@pytest.mark.parametrize("type_", ["u16x2", "s16x2"])
def test_packed_integers_are_two_lanes(type_: str) -> None:
    half = type_.removesuffix("x2")
    a, b = (_values("b32", position) for position in (0, 1))
    for name in ("add", "min", "max"):
        both = lanes_of(f"{name}.{type_} %d, %a0, %a1;", type_, [type_] * 2, [a, b])
        alone = lanes_of(f"{name}.{half} %d, %a0, %a1;", half, [half] * 2, [a.view("u2"), b.view("u2")])
        assert (both.view("u2") == alone).all()


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", sorted(COMPARE))
def test_integers_compare_by_their_type(name: str, type_: str) -> None:
    operands = [_values(type_, 0), _values(type_, 1)]
    operands[1][:20] = operands[0][:20]
    _check(f"setp.{name}.{type_} %d, %a0, %a1;", COMPARE[name], "pred", [type_] * 2, operands)
    _check(f"set.{name}.u32.{type_} %d, %a0, %a1;", lambda a, b: -COMPARE[name](a, b), "u32", [type_] * 2, operands)


FLOATING: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "ne": lambda a, b: a == a and b == b and a != b,
    "equ": lambda a, b: not (a < b or a > b), "neu": lambda a, b: a != b, "ltu": lambda a, b: not a >= b,
    "leu": lambda a, b: not a > b, "gtu": lambda a, b: not a <= b, "geu": lambda a, b: not a < b,
    "num": lambda a, b: a == a and b == b, "nan": lambda a, b: a != a or b != b,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FLOATING))
def test_floats_compare_ordered_or_not(name: str) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45], "f4")
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    got = lanes_of(f"setp.{name}.f32 %d, %a0, %a1;", "pred", ["f32"] * 2, [a.view("u4").copy(), b.view("u4").copy()])
    assert got.tolist() == [FLOATING[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_setp_combines_and_gives_the_opposite_too() -> None:
    rng = np.random.default_rng(6)
    a, b, c = _values("s32", 0), _values("s32", 1), rng.integers(0, 2, LANES).astype("u4")
    text = "setp.lt.and.s32 %q|%d, %a0, %a1, !%a2;"
    got = lanes_of(text, "pred", ["s32", "s32", "pred"], [a, b, c])
    assert (got == (~(a.view("i4") < b.view("i4")) & (c == 0))).all()


def test_selp_and_slct_choose() -> None:
    rng = np.random.default_rng(7)
    a, b, c = _values("b32", 0), _values("b32", 1), rng.integers(0, 2, LANES).astype("u4")
    assert (
        lanes_of("selp.b32 %d, %a0, %a1, %a2;", "b32", ["b32", "b32", "pred"], [a, b, c]) == np.where(c, a, b)
    ).all()
    sign = _values("s32", 2)
    got = lanes_of("slct.b32.s32 %d, %a0, %a1, %a2;", "b32", ["b32", "b32", "s32"], [a, b, sign])
    assert (got == np.where(sign.view("i4") >= 0, a, b)).all()
    real = np.resize(np.array([0.0, -0.0, 1.0, -1.0, np.nan], "f4"), LANES)
    got = lanes_of("slct.b32.f32 %d, %a0, %a1, %a2;", "b32", ["b32", "b32", "f32"], [a, b, real.view("u4")])
    assert (got == np.where(real >= 0, a, b)).all()


def test_mov_packs_and_unpacks() -> None:
    a, b = _values("b32", 0), _values("b32", 1)
    whole = lanes_of("mov.b64 %d, {%a0, %a1};", "b64", ["b32", "b32"], [a, b])
    assert (whole == (b.astype("u8") << np.uint64(32) | a)).all()
    assert (lanes_of("mov.b64 {%other, %d}, %a0;", "b32", ["b64"], [whole]) == b).all()
    halves = lanes_of("{ .reg .b16 %l, %h; mov.b32 {%l, %h}, %a0; mov.b32 %d, {%h, %l}; }", "b32", ["b32"], [a])
    assert (halves == (a << np.uint32(16) | a >> np.uint32(16))).all()
