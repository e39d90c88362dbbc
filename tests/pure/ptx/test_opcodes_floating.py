"""Floating point opcodes against C, numpy and float64, in every type and rounding mode."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from kernel_lab.ptx.numbers.exact import fma as exact_fma
from kernel_lab.ptx.numbers.formats import from_bf16, from_f16, to_bf16, to_f16
from tests.pure.ptx.harness import MODES, exact, floats, lanes_of, same_floats

LANES = 512
ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "sqrt": 1}
TINY32 = np.float32(2.0**-126)


def _typed(bits: np.ndarray) -> np.ndarray:
    return bits.view(f"f{bits.dtype.itemsize}")


def _flushed(bits: np.ndarray) -> np.ndarray:
    value = bits.view("f4")
    return np.where(np.abs(value) < TINY32, np.copysign(np.float32(0), value), value).view("u4")


def _operands(name: str, bits: int, seed: int = 7) -> list[np.ndarray]:
    return [floats(bits, LANES, seed, position) for position in range(ARITY[name])]


def _instruction(name: str, suffix: str) -> str:
    sources = ", ".join(f"%a{index}" for index in range(ARITY[name]))
    return f"{name}.{suffix} %d, {sources};"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(ARITY))
def test_arithmetic_is_rounded_once_as_ieee_says(name: str, type_: str, mode: str) -> None:
    operands = _operands(name, int(type_[1:]))
    got = lanes_of(_instruction(name, f"{mode}.{type_}"), type_, [type_] * len(operands), operands)
    wanted = exact(name, type_, mode, *map(_typed, operands)).view(got.dtype)
    wrong = np.flatnonzero(~same_floats(got, wanted))
    assert not wrong.size, [(hex(x) for x in (got[wrong[0]], wanted[wrong[0]]))]


@pytest.mark.parametrize("mode", MODES)
def test_fma_is_right_on_the_middle_between_two_floats(mode: str) -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=LANES).astype("f4")
    b = rng.normal(size=LANES).astype("f4")
    middle = (a.astype("f8") * b).astype("f4")
    step = np.nextafter(middle, np.float32(np.inf)).astype("f8") - middle
    tiny = (step * rng.choice([0.5, -0.5], LANES)).astype("f4")
    small = np.full(LANES, 2.0**-60, "f4") * rng.choice([1, -1, 0], LANES).astype("f4")
    one = np.ones(LANES, "f4")
    for operands in ([a, b, -middle], [middle, one, tiny], [small, one, middle + tiny]):
        bits = [operand.view("u4") for operand in operands]
        got = lanes_of(_instruction("fma", f"{mode}.f32"), "f32", ["f32"] * 3, bits)
        assert (got == exact("fma", "f32", mode, *operands).view("u4")).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("type_", "low"), [("f32", -150), ("f64", -1075)])
def test_fma_is_right_among_subnormals(type_: str, low: int, mode: str) -> None:
    rng = np.random.default_rng(6)
    kind = f"f{int(type_[1:]) // 8}"

    def near(exponent: int) -> np.ndarray:
        return np.ldexp(rng.normal(size=LANES), rng.integers(exponent - 3, exponent + 26, LANES)).astype(kind)

    operands = [near(low // 2 - 2), near(low // 2 + 2), near(low)]
    bits = [operand.view(f"u{operand.dtype.itemsize}") for operand in operands]
    got = lanes_of(_instruction("fma", f"{mode}.{type_}"), type_, [type_] * 3, bits)
    assert same_floats(got, exact("fma", type_, mode, *operands).view(got.dtype)).all()


@pytest.mark.parametrize("name", ["add", "mul", "fma", "div", "sqrt"])
def test_ftz_flushes_operands_and_results(name: str) -> None:
    operands = _operands(name, 32, seed=8)
    got = lanes_of(_instruction(name, "rn.ftz.f32"), "f32", ["f32"] * len(operands), operands)
    wanted = _flushed(exact(name, "f32", "rn", *[_typed(_flushed(operand)) for operand in operands]).view("u4"))
    assert same_floats(got, wanted).all()
    assert (got != exact(name, "f32", "rn", *map(_typed, operands)).view("u4")).any()


@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_sat_clamps_to_zero_and_one_and_makes_nan_zero(name: str) -> None:
    operands = _operands(name, 32, seed=9)
    got = _typed(lanes_of(_instruction(name, "rn.sat.f32"), "f32", ["f32"] * len(operands), operands))
    plain = exact(name, "f32", "rn", *map(_typed, operands))
    assert (got == np.where(np.isnan(plain), 0, np.clip(plain, 0, 1))).all()


@pytest.mark.parametrize("larger", [False, True])
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_min_and_max_prefer_numbers_and_order_zeros(type_: str, larger: bool) -> None:
    name = "max" if larger else "min"
    a, b = (floats(int(type_[1:]), LANES, 3, position) for position in (0, 1))
    got = _typed(lanes_of(f"{name}.{type_} %d, %a0, %a1;", type_, [type_] * 2, [a, b]))
    for x, y, result in zip(_typed(a).tolist(), _typed(b).tolist(), got.tolist(), strict=True):
        numbers = [value for value in (x, y) if value == value]
        if not numbers:
            assert result != result
            continue
        ordered = sorted(numbers, key=lambda value: (value, not np.signbit(value)))
        wanted = ordered[-1 if larger else 0]
        assert (result, bool(np.signbit(result))) == (wanted, bool(np.signbit(wanted)))


def test_max_with_nan_propagates_nan() -> None:
    a, b = (floats(32, LANES, 3, position) for position in (0, 1))
    got = lanes_of("max.NaN.f32 %d, %a0, %a1;", "f32", ["f32"] * 2, [a, b])
    either = np.isnan(_typed(a)) | np.isnan(_typed(b))
    assert (np.isnan(_typed(got)) == either).all()
    assert (got[either] == 0x7FFFFFFF).all()


def test_max_takes_three_operands() -> None:
    a, b, c = (np.random.default_rng(position).normal(size=64).astype("f4") for position in range(3))
    bits = [value.view("u4") for value in (a, b, c)]
    got = lanes_of("max.f32 %d, %a0, %a1, %a2;", "f32", ["f32"] * 3, bits)
    assert (_typed(got) == np.maximum(np.maximum(a, b), c)).all()


@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_half_precision_rounds_once(name: str, type_: str) -> None:
    rng = np.random.default_rng(11)
    operands = [rng.integers(0, 1 << 16, LANES, np.uint16) for _ in range(ARITY[name])]
    operands[-1][: LANES // 2] ^= operands[0][: LANES // 2] & np.uint16(0x7C00)  # close exponents
    suffix = f"rn.{type_}" if name == "fma" else type_
    got = lanes_of(_instruction(name, suffix), type_, [type_] * len(operands), operands)
    widen, shorten = (from_f16, to_f16) if type_ == "f16" else (from_bf16, to_bf16)
    rounded = exact_fma(type_, "rn")
    for lane, values in enumerate(zip(*[widen(operand).tolist() for operand in operands], strict=True)):
        a, b = values[:2]
        x, y, z = {"add": (a, 1.0, b), "sub": (a, 1.0, -b), "mul": (a, b, -0.0)}.get(name, values)
        if all(map(math.isfinite, (x, y, z))):
            wanted = int(shorten(np.array([rounded(x, y, z)], "f4"))[0])
        else:
            wanted = int(shorten(np.array([np.float32(x) * np.float32(y) + np.float32(z)], "f4"))[0])
        if name == "mul" and got[lane] & 0x7FFF == 0:
            wanted |= int(got[lane]) & 0x8000  # x × y + -0 loses the sign of a zero product
        assert int(got[lane]) == wanted


@pytest.mark.parametrize("type_", ["f16x2", "bf16x2"])
def test_packed_halves_are_two_lanes(type_: str) -> None:
    rng = np.random.default_rng(12)
    a, b, c = (rng.integers(0, 1 << 32, 128, np.uint64).astype("u4") for _ in range(3))
    both = lanes_of(f"fma.rn.{type_} %d, %a0, %a1, %a2;", type_, [type_] * 3, [a, b, c])
    halves = [np.ascontiguousarray(value).view("u2") for value in (a, b, c)]
    single = type_.removesuffix("x2")
    alone = lanes_of(f"fma.rn.{single} %d, %a0, %a1, %a2;", single, [single] * 3, halves)
    assert (both.view("u2") == alone).all()


def test_packed_singles_are_two_lanes() -> None:
    operands = [floats(32, 512, 13, position) for position in range(3)]
    both = lanes_of("fma.rn.f32x2 %d, %a0, %a1, %a2;", "f32x2", ["f32x2"] * 3, [o.view("u8") for o in operands])
    assert same_floats(both.view("u4"), exact("fma", "f32", "rn", *map(_typed, operands)).view("u4")).all()


APPROXIMATE: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {
    "rcp.approx.f32": (lambda x: 1 / x, 1), "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 2),
    "sqrt.approx.f32": (np.sqrt, 2), "ex2.approx.f32": (np.exp2, 2), "lg2.approx.f32": (np.log2, 2),
    "sin.approx.f32": (np.sin, 2), "cos.approx.f32": (np.cos, 2), "tanh.approx.f32": (np.tanh, 2),
    "rcp.approx.ftz.f64": (lambda x: 1 / x, 1), "rsqrt.approx.f64": (lambda x: 1 / np.sqrt(x), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(APPROXIMATE))
def test_approximations_are_as_near_as_the_type_allows(name: str) -> None:
    function, ulps = APPROXIMATE[name]
    type_ = name[-3:]
    kind = f"f{int(type_[1:]) // 8}"
    x = np.abs(np.random.default_rng(14).normal(size=LANES)).astype(kind) + np.asarray(0.01, kind)
    got = lanes_of(f"{name} %d, %a0;", type_, [type_], [x.view(f"u{x.dtype.itemsize}")]).view(kind)
    wanted = function(x.astype("f8"))
    assert (np.abs(got - wanted) <= ulps * np.spacing(np.abs(wanted).astype(kind))).all()


@pytest.mark.parametrize("type_", ["f32", "f64", "f16", "bf16"])
def test_neg_and_abs_touch_only_the_sign(type_: str) -> None:
    width = {"f32": 32, "f64": 64}.get(type_, 16)
    rng = np.random.default_rng(15)
    a = rng.integers(0, 1 << 16, LANES, np.uint64).astype("u2") if width == 16 else floats(width, LANES, 4, 0)
    sign = a.dtype.type(1 << (width - 1))
    assert (lanes_of(f"neg.{type_} %d, %a0;", type_, [type_], [a]) == a ^ sign).all()
    assert (lanes_of(f"abs.{type_} %d, %a0;", type_, [type_], [a]) == a & ~sign).all()


@pytest.mark.parametrize("test", ["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
def test_testp_sorts_floats(test: str) -> None:
    a = floats(32, LANES, 16, 0)
    got = lanes_of(f"testp.{test}.f32 %d, %a0;", "pred", ["f32"], [a])
    value = _typed(a)
    small = (value != 0) & (np.abs(value) < TINY32)
    wanted = {
        "finite": np.isfinite(value), "infinite": np.isinf(value), "number": ~np.isnan(value),
        "notanumber": np.isnan(value), "normal": np.isfinite(value) & (np.abs(value) >= TINY32), "subnormal": small,
    }[test]  # fmt: skip
    assert (got == wanted).all()


def test_copysign_takes_the_sign_of_the_first_operand() -> None:
    a, b = (floats(32, LANES, 17, position) for position in (0, 1))
    got = lanes_of("copysign.f32 %d, %a0, %a1;", "f32", ["f32"] * 2, [a, b])
    assert (got == (b & np.uint32(0x7FFFFFFF)) | (a & np.uint32(0x80000000))).all()
