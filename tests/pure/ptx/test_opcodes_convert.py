"""cvt between every pair of types, in every rounding mode, against C, numpy and exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from kernel_lab.ptx.numbers.exact import round_fraction
from kernel_lab.ptx.numbers.formats import FP8, from_bf16, from_f16
from tests.pure.ptx.harness import MODES, bits_of, converted, floats, lanes_of, same_floats

LANES = 256
INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _integers(type_: str) -> np.ndarray:
    bits = bits_of(type_)
    rng = np.random.default_rng(1)
    corners = [0, 1, 2, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 2]
    wild = [int(rng.integers(0, 1 << 62)) * 4 >> int(rng.integers(0, 63)) for _ in range(LANES - len(corners))]
    return np.array([value % (1 << bits) for value in corners + wild], f"u{bits // 8}")


def _read(value: int, type_: str) -> int:
    bits = bits_of(type_)
    return value - (1 << bits) if type_[0] == "s" and value >> (bits - 1) else value


def _memory(type_: str) -> str:
    """8-bit results live in 16-bit registers: look at the whole register."""
    return type_ if bits_of(type_) > 8 else type_[0] + "16"


@pytest.mark.parametrize("of", INTEGERS)
@pytest.mark.parametrize("to", INTEGERS)
def test_integers_wrap_or_saturate(to: str, of: str) -> None:
    values = _integers(of)
    low, high = (0, (1 << bits_of(to)) - 1) if to[0] == "u" else (-(1 << bits_of(to) - 1), (1 << bits_of(to) - 1) - 1)
    wide = _memory(to)
    for saturates in (False, True):
        got = lanes_of(f"cvt{'.sat' if saturates else ''}.{to}.{of} %d, %a0;", wide, [of], [values])
        for value, result in zip(values.tolist(), got.tolist(), strict=True):
            number = _read(value, of)
            number = max(min(number, high), low) if saturates else _read(number % (1 << bits_of(to)), to)
            assert result == number % (1 << bits_of(wide))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", ["f32", "f64"])
@pytest.mark.parametrize("of", ["u32", "s32", "u64", "s64"])
def test_integers_become_floats(of: str, to: str, mode: str) -> None:
    values = _integers(of)
    got = lanes_of(f"cvt.{mode}.{to}.{of} %d, %a0;", to, [of], [values])
    assert (got == converted(of, to, mode, values).view(got.dtype)).all()


@pytest.mark.parametrize("mode", MODES)
def test_doubles_become_singles(mode: str) -> None:
    values = floats(64, LANES, 2, 0)
    values[: LANES // 2] = floats(32, LANES // 2, 2, 1).view("f4").astype("f8").view("u8") + np.arange(
        LANES // 2, dtype="u8"
    )
    got = lanes_of(f"cvt.{mode}.f32.f64 %d, %a0;", "f32", ["f64"], [values])
    assert same_floats(got, converted("f64", "f32", mode, values).view("u4")).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("of", ["f32", "f64"])
def test_floats_become_halves(of: str, to: str, mode: str) -> None:
    values = floats(bits_of(of), LANES, 3, 0)
    got = lanes_of(f"cvt.{mode}.{to}.{of} %d, %a0;", to, [of], [values])
    widen = from_f16 if to == "f16" else from_bf16
    for bits, number in zip(got, values.view(f"f{bits_of(of) // 8}").tolist(), strict=True):
        result = float(widen(np.array([bits], "u2"))[0])
        if number != number:
            assert bits == 0x7FFF
        elif math.isinf(number) or number == 0:
            assert (result, np.signbit(result)) == (number, np.signbit(number))
        else:
            assert result == round_fraction(Fraction(number), to, mode)
            assert np.signbit(result) == np.signbit(number)


@pytest.mark.parametrize(("of", "to"), [("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("f32", "f64")])
def test_widening_is_exact(of: str, to: str) -> None:
    values = floats(32, LANES, 4, 0) if of == "f32" else np.random.default_rng(4).integers(0, 1 << 16, LANES, np.uint16)
    got = lanes_of(f"cvt.{to}.{of} %d, %a0;", to, [of], [values]).view(f"f{bits_of(to) // 8}")
    given = values.view("f4") if of == "f32" else {"f16": from_f16, "bf16": from_bf16}[of](values)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        wanted = given.astype(got.dtype)
    assert ((got == wanted) | (np.isnan(got) & np.isnan(wanted))).all()


@pytest.mark.parametrize("mode", sorted(ROUND))
@pytest.mark.parametrize("of", ["f16", "f32", "f64"])
@pytest.mark.parametrize("to", INTEGERS)
def test_floats_become_integers_and_saturate(to: str, of: str, mode: str) -> None:
    bits = bits_of(of)
    kind = f"f{bits // 8}"
    rng = np.random.default_rng(5)
    limit = {16: 2.0**15, 32: 2.0**65, 64: 2.0**65}[bits]
    spread = np.exp2(rng.uniform(-3, np.log2(limit), LANES - 12)) * rng.choice([1, -1], LANES - 12)
    corners = [0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 127.5]
    values = np.concatenate([corners, spread]).astype(kind)
    got = lanes_of(f"cvt.{mode}.{to}.{of} %d, %a0;", _memory(to), [of], [values.view(f"u{bits // 8}")])
    low, high = (0, (1 << bits_of(to)) - 1) if to[0] == "u" else (-(1 << bits_of(to) - 1), (1 << bits_of(to) - 1) - 1)
    for value, result in zip(values.astype("f8").tolist(), got.tolist(), strict=True):
        if value != value:
            wanted = 1 << (bits_of(to) - 1) if of == "f64" or bits_of(to) == 64 else 0
            wanted = _read(wanted, to)
        elif math.isinf(value):
            wanted = high if value > 0 else low
        else:
            wanted = max(min(int(ROUND[mode](value)), high), low)
        assert result == wanted % (1 << bits_of(_memory(to))), value


@pytest.mark.parametrize("mode", sorted(ROUND))
def test_floats_round_to_integral_floats(mode: str) -> None:
    values = floats(32, LANES, 6, 0)
    got = lanes_of(f"cvt.{mode}.f32.f32 %d, %a0;", "f32", ["f32"], [values])
    assert same_floats(got, ROUND[mode](values.view("f4")).view("u4")).all()


def test_ftz_and_sat_of_conversions() -> None:
    values = floats(32, LANES, 7, 0)
    number = values.view("f4")
    flushed = np.where(np.abs(number) < 2.0**-126, np.copysign(np.float32(0), number), number)
    got = lanes_of("cvt.rpi.ftz.f32.f32 %d, %a0;", "f32", ["f32"], [values])
    assert same_floats(got, np.ceil(flushed).view("u4")).all()
    got = lanes_of("cvt.sat.f32.f32 %d, %a0;", "f32", ["f32"], [values])
    assert (got.view("f4") == np.where(np.isnan(number), 0, np.clip(number, 0, 1))).all()


def test_a_wider_source_register_is_cut() -> None:
    values = _integers("u32")
    assert (lanes_of("cvt.u32.u8 %d, %a0;", "u32", ["b32"], [values]) == values & 0xFF).all()
    assert (
        lanes_of("cvt.s32.s16 %d, %a0;", "u32", ["b32"], [values]).view("i4") == values.astype("u2").view("i2")
    ).all()


@pytest.mark.parametrize("to", ["f16x2", "bf16x2"])
def test_two_singles_become_a_pair_the_first_above(to: str) -> None:
    a, b = (floats(32, LANES, 8, position) for position in (0, 1))
    pair = lanes_of(f"cvt.rn.{to}.f32 %d, %a0, %a1;", to, ["f32", "f32"], [a, b])
    half = to.removesuffix("x2")
    upper, lower = (lanes_of(f"cvt.rn.{half}.f32 %d, %a0;", half, ["f32"], [value]) for value in (a, b))
    assert (pair == (upper.astype("u4") << np.uint32(16) | lower)).all()


def test_tf32_rounds_ties_away_from_zero() -> None:
    values = np.array([0x3F800FFF, 0x3F801000, 0x3F803000, 0xBF801000, 0x7F800000, 0x3F7FFFFF], "u4")
    got = lanes_of("cvt.rna.tf32.f32 %d, %a0;", "b32", ["f32"], [values])
    assert [hex(value) for value in got] == [
        "0x3f800000",
        "0x3f802000",
        "0x3f804000",
        "0xbf802000",
        "0x7f800000",
        "0x3f800000",
    ]


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_fp8_there_and_back(kind: str) -> None:
    codes = np.arange(256, dtype="u1")
    table = FP8[kind][codes]
    finite = codes[np.isfinite(table)]
    finite = np.resize(finite, 256)
    value = FP8[kind][finite].view("u4")
    packed = lanes_of(f"cvt.rn.satfinite.{kind}x2.f32 %d, %a0, %a1;", f"{kind}x2", ["f32", "f32"], [value, value])
    assert (packed == finite.astype("u2") << np.uint16(8) | finite).all()
    back = lanes_of(f"cvt.rn.f16x2.{kind}x2 %d, %a0;", "f16x2", [f"{kind}x2"], [packed])
    assert (from_f16(back.view("u2")) == np.repeat(FP8[kind][finite], 2)).all()


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_fp8_rounds_to_nearest_even_and_saturates(kind: str) -> None:
    rng = np.random.default_rng(9)
    values = np.concatenate(
        [rng.normal(size=200) * np.exp2(rng.integers(-12, 12, 200)), [1e9, -1e9, np.inf, 0.0]]
    ).astype("f4")
    middle = (FP8[kind][1:100] + FP8[kind][:99]) / 2
    values = np.concatenate([values, middle]).astype("f4")
    codes = (
        lanes_of(f"cvt.rn.satfinite.{kind}x2.f32 %d, %a0, %a1;", f"{kind}x2", ["f32"] * 2, [values.view("u4")] * 2)
        & 0xFF
    )
    finite = np.unique(FP8[kind][np.isfinite(FP8[kind])]).astype("f8")
    for value, code in zip(values.astype("f8").tolist(), codes.tolist(), strict=True):
        distance = np.abs(finite - min(max(value, finite[0]), finite[-1]))
        result = float(FP8[kind][code])
        assert abs(result - min(max(value, finite[0]), finite[-1])) == distance.min()
        if (distance == distance.min()).sum() == 2:
            assert code % 2 == 0


def test_cvt_pack_saturates_both() -> None:
    values = _integers("s32")
    got = lanes_of("cvt.pack.sat.s16.s32 %d, %a0, %a1;", "b32", ["s32", "s32"], [values, values[::-1].copy()])
    clamped = np.clip(values.view("i4"), -32768, 32767).astype("i2").view("u2")
    assert (got == clamped.astype("u4") << np.uint32(16) | clamped[::-1]).all()
