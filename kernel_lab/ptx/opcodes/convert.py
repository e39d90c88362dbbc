"""cvt: every conversion between integers and floats, in every rounding mode."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_lab.ptx.form import DTYPES, bits_of
from kernel_lab.ptx.numbers import rounding
from kernel_lab.ptx.numbers.formats import from_bf16, from_f16, from_fp8, to_bf16, to_f16, to_fp8, to_tf32
from kernel_lab.ptx.opcodes.lanes import SIGNED, Array, Lanes, is_signed, step_of
from kernel_lab.ptx.opcodes.table import Opcode, Step, Unsupported, words

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

F4, F8, U4 = np.float32, np.float64, np.uint32
INTEGERS = words("u8 u16 u32 u64 s8 s16 s32 s64")
FLOATS = words("f16 bf16 f32 f64")
TO_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
CUT: dict[int, np.dtype[Any]] = {8: np.dtype("u1"), **DTYPES}


def bind_cvt(form: "Form") -> Step:
    """cvt.d.a: the source may be a wider register, whose lower bits count."""
    form.expect(2)
    to, of = form.types
    source, target = form.source(1, of, may_be_wider=True), form.target(0, bits_of(to), signed=is_signed(to))
    lanes = _lanes(form, to, of)
    width = form.registers.width(source)
    if width > bits_of(of):
        cut = CUT[bits_of(of)]
        inner = lanes
        lanes = lambda value: inner(value.astype(cut))  # noqa: E731  (one line, one use)
    return step_of(lanes, [source], target)


def _lanes(form: "Form", to: str, of: str) -> Lanes:
    if of in INTEGERS:
        return _from_integer(form, to, of)
    return _to_integer(form, to, of) if to in INTEGERS else _float_to_float(form, to, of)


def _typed(type_: str) -> np.dtype[Any]:
    bits = bits_of(type_)
    return SIGNED[bits] if is_signed(type_) else DTYPES[bits]


def _from_integer(form: "Form", to: str, of: str) -> Lanes:
    source = _typed(of)
    if to in FLOATS:
        mode, saturates = form.mode, "sat" in form.flags
        return lambda value: _integer_to_float(value.view(source), to, mode, saturates=saturates)
    target, raw = _typed(to), DTYPES[bits_of(to)]
    if "sat" not in form.flags:
        return lambda value: value.view(source).astype(target).view(raw)
    bounds = np.iinfo(target)

    def clamp(value: Array) -> Array:
        typed = value.view(source)
        low, high = max(bounds.min, np.iinfo(source).min), min(bounds.max, np.iinfo(source).max)
        return np.clip(typed, source.type(low), source.type(high)).astype(target).view(raw)

    return clamp


def _integer_to_float(value: Array, to: str, mode: str, *, saturates: bool) -> Array:
    wide = _integer_to_odd(value)
    if to == "f64":
        exact = value.astype(F8) if mode == "rn" else _directed64(value, mode)
        return (rounding.saturate(exact) if saturates else exact).view(np.uint64)
    result = rounding.narrow(wide, to, mode)
    if saturates:
        result = rounding.saturate(result)
    return _pack(result, to)


def _integer_to_odd(value: Array) -> Array:
    """An integer in float64, rounded to odd where it has more than 53 bits."""
    near = value.astype(F8)
    if value.dtype.itemsize < 8:
        return near
    return rounding.to_odd(near, _integer_error(value, near))


def _integer_error(value: Array, near: Array) -> Array:
    """value - near, exactly: it fits in 64 bits, taken modulo 2^64."""
    beyond, wrapped = (2.0**64, 0.0) if value.dtype.kind == "u" else (2.0**63, -(2.0**63))
    back = np.where(near >= beyond, wrapped, near).astype(value.dtype)
    return (value - back).view(np.int64).astype(F8)


def _directed64(value: Array, mode: str) -> Array:
    near = value.astype(F8)
    if value.dtype.itemsize < 8:
        return near
    error = _integer_error(value, near)
    too_low, too_high = error > 0, error < 0
    up, down = np.nextafter(near, np.inf), np.nextafter(near, -np.inf)
    if mode == "rp":
        return np.where(too_low, up, near)
    if mode == "rm":
        return np.where(too_high, down, near)
    return np.where((near > 0) & too_high, down, np.where((near < 0) & too_low, up, near))


def _pack(value: Array, to: str) -> Array:
    """float64 lanes that hold values of the type, as raw bits; NaN is canonical."""
    match to:
        case "f32":
            bits = value.astype(F4).view(U4)
            return np.where(np.isnan(value), U4(0x7FFFFFFF), bits)
        case "f16":
            return to_f16(value)
        case "bf16":
            return to_bf16(value.astype(F4))
        case _:
            return value.view(np.uint64)


def _unpack(value: Array, of: str) -> Array:
    """Raw bits as float64."""
    match of:
        case "f32":
            return value.view(F4).astype(F8)
        case "f16":
            return from_f16(value).astype(F8)
        case "bf16":
            return from_bf16(value).astype(F8)
        case _:
            return value.view(F8)


def _to_integer(form: "Form", to: str, of: str) -> Lanes:
    """Rounded to an integer, clamped to the type; NaN is 0, or the sign bit alone where 64 bits are involved."""
    names = [name for name in TO_INTEGRAL if name in form.flags]
    if len(names) != 1:
        raise Unsupported(f"{form.instruction.text} has no integer rounding")
    rounds, flush = TO_INTEGRAL[names[0]], "ftz" in form.flags and of == "f32"
    target, raw = _typed(to), DTYPES[bits_of(to)]
    bounds = np.iinfo(target)
    is_wide = of == "f64" or to in ("s64", "u64")
    nan = raw.type(1 << (bits_of(to) - 1)) if is_wide else raw.type(0)

    def lanes(value: Array) -> Array:
        number = _unpack(value, of)
        if flush:
            number = rounding.flush(number, "f32")
        whole = rounds(number)
        too_high, too_low = whole >= float(bounds.max), whole <= float(bounds.min)
        inside = np.where(too_high | too_low | np.isnan(whole), 0.0, whole)
        result = np.where(too_high, bounds.max, np.where(too_low, bounds.min, inside.astype(target))).astype(target)
        return np.where(np.isnan(number), nan, result.view(raw))

    return lanes


def _float_to_float(form: "Form", to: str, of: str) -> Lanes:
    if to == "tf32":
        return _to_tf32(form)
    integral = next((TO_INTEGRAL[name] for name in TO_INTEGRAL if name in form.flags), None)
    mode, ftz, sat, relu = form.mode, "ftz" in form.flags, "sat" in form.flags, "relu" in form.flags
    if ftz and "f32" not in (to, of):
        ftz = False

    def lanes(value: Array) -> Array:
        number = _unpack(value, of)
        if ftz and of == "f32":
            number = rounding.flush(number, "f32")
        if integral is not None:
            number = integral(number)
        elif to != "f64":
            number = rounding.narrow(number, to, mode)
        if ftz and to == "f32":
            number = rounding.flush(number, "f32")
        if relu:
            number = np.where(np.isnan(number), number, np.maximum(number, 0.0))
        return _pack(rounding.saturate(number) if sat else number, to)

    return lanes


def _to_tf32(form: "Form") -> Lanes:
    mode = form.mode
    if mode == "rna":
        return to_tf32
    if mode not in ("rn", "rz"):
        raise Unsupported(form.instruction.text)
    relu = "relu" in form.flags

    def lanes(bits: Array) -> Array:
        special = (bits & U4(0x7F800000)) == U4(0x7F800000)
        half = U4(0xFFF) + ((bits >> U4(13)) & U4(1)) if mode == "rn" else U4(0)
        rounded = np.where(special, bits, (bits + half) & U4(0xFFFFE000))
        return np.where(rounded >> U4(31) != 0, U4(0), rounded) if relu else rounded

    return lanes


def bind_pack_halves(form: "Form") -> Step:
    """cvt.rn.f16x2.f32 d, a, b and bf16x2: a goes to the upper half."""
    form.expect(3)
    to = form.types[0]
    half, mode, relu = to.removesuffix("x2"), form.mode, "relu" in form.flags

    def shorten(bits: Array) -> Array:
        value = rounding.narrow(bits.view(F4).astype(F8), half, mode)
        if relu:
            value = np.where(np.isnan(value), value, np.maximum(value, 0.0))
        return _pack(value, half).astype(U4)

    def lanes(a: Array, b: Array) -> Array:
        return (shorten(a) << U4(16)) | shorten(b)

    return step_of(lanes, [form.source(1, "f32"), form.source(2, "f32")], form.target(0, 32))


def bind_pack_fp8(form: "Form") -> Step:
    """cvt.rn.satfinite.e4m3x2.f32 d, a, b (a upper) and …x2.f16x2 d, a."""
    to, of = form.types
    kind = to.removesuffix("x2")
    relu = "relu" in form.flags

    def shorten(value: Array) -> Array:
        if relu:
            value = np.where(np.isnan(value), value, np.maximum(value, value.dtype.type(0)))
        return to_fp8(value, kind).astype(np.uint16)

    if of == "f32":
        form.expect(3)
        sources = [form.source(1, "f32"), form.source(2, "f32")]
        pair = lambda a, b: (shorten(a.view(F4)) << np.uint16(8)) | shorten(b.view(F4))  # noqa: E731
        return step_of(pair, sources, form.target(0, 16))
    form.expect(2)

    def from_halves(value: Array) -> Array:
        low, high = (from_f16(((value >> U4(shift)) & U4(0xFFFF)).astype(np.uint16)) for shift in (0, 16))
        return (shorten(high) << np.uint16(8)) | shorten(low)

    return step_of(from_halves, [form.source(1, "b32")], form.target(0, 16))


def bind_unpack_fp8(form: "Form") -> Step:
    """cvt.rn.f16x2.e4m3x2 d, a"""
    form.expect(2)
    kind = form.types[1].removesuffix("x2")
    relu = "relu" in form.flags

    def half(codes: Array) -> Array:
        value = from_fp8(codes, kind)
        if relu:
            value = np.where(np.isnan(value), value, np.maximum(value, F4(0)))
        return to_f16(value).astype(U4)

    def lanes(value: Array) -> Array:
        low, high = value & np.uint16(0xFF), value >> np.uint16(8)
        return (half(high) << U4(16)) | half(low)

    return step_of(lanes, [form.source(1, "b16")], form.target(0, 32))


def bind_cvt_pack(form: "Form") -> Step:
    """cvt.pack.sat.{u16,s16}.s32 d, a, b and {u8,s8}.s32.b32 d, a, b, c: saturated, a above b above c's lower half."""
    to = form.types[0]
    form.expect(3, 4)
    bits = bits_of(to)
    bounds, mask = np.iinfo(_typed(to)), (1 << bits) - 1

    def shorten(value: Array) -> Array:
        return np.clip(value.view(np.int32), bounds.min, bounds.max).astype(U4) & U4(mask)

    def lanes(a: Array, b: Array, *c: Array) -> Array:
        both = (shorten(a) << U4(bits)) | shorten(b)
        return both | (c[0] << U4(2 * bits)) if c else both

    sources = [form.source(index, "b32") for index in range(1, len(form.operands))]
    return step_of(lanes, sources, form.target(0, 32))


SECTION = "Data Movement and Conversion Instructions: cvt"
MODES = words("rn rz rm rp rni rzi rmi rpi ftz sat")
PAIRS = frozenset(f"{to}.{of}" for to in INTEGERS | FLOATS for of in INTEGERS | FLOATS)
FP8 = ("e4m3x2", "e5m2x2")
ENTRIES = (
    Opcode("cvt", SECTION, 0, bind_cvt, PAIRS, MODES),
    Opcode("cvt", SECTION, 1, bind_cvt, words("f16.f32 bf16.f32"), words("rn rz ftz"), words("relu")),
    Opcode("cvt", SECTION, 1, bind_cvt, words("tf32.f32"), words("rna rn rz relu")),
    Opcode("cvt", SECTION, 1, bind_pack_halves, words("f16x2.f32 bf16x2.f32"), words("rn rz relu")),
    Opcode(
        "cvt",
        SECTION,
        1,
        bind_pack_fp8,
        frozenset(f"{to}.{of}" for to in FP8 for of in ("f32", "f16x2")),
        words("rn relu"),
        words("satfinite"),
    ),
    Opcode("cvt", SECTION, 1, bind_unpack_fp8, frozenset(f"f16x2.{of}" for of in FP8), words("rn relu")),
    Opcode("cvt", SECTION, 1, bind_cvt_pack, words("u16.s32 s16.s32 u8.s32.b32 s8.s32.b32"), needs=words("pack sat")),
)
