"""Floating point arithmetic in f32, f64, f16, bf16 and their packed forms."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.numbers import arithmetic, rounding
from kernel_lab.ptx.numbers.formats import from_bf16, from_f16, to_bf16, to_f16
from kernel_lab.ptx.opcodes.lanes import Array, Lanes, LanesOf, alu, step_of
from kernel_lab.ptx.opcodes.table import Opcode, Step, Unsupported, words

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

F4, F8, U2, U4, U8 = np.float32, np.float64, np.uint16, np.uint32, np.uint64
NAN32 = np.uint32(0x7FFFFFFF).view(F4)


def flushing(lanes: Lanes, form: "Form") -> Lanes:
    """The .ftz and .sat of a float32 function."""
    ftz, sat = "ftz" in form.flags, "sat" in form.flags
    if not (ftz or sat):
        return lanes

    def run(*values: Array) -> Array:
        if ftz:
            values = tuple(rounding.flush(value, "f32") for value in values)
        result = lanes(*values)
        if ftz:
            result = rounding.flush(result, "f32")
        return rounding.saturate(result) if sat else result

    return run


def on32(lanes: Lanes, form: "Form") -> Lanes:
    """A float32 function on raw bits."""
    inner = flushing(lanes, form)
    return lambda *values: inner(*[value.view(F4) for value in values]).view(U4)


def on64(lanes: Lanes) -> Lanes:
    """A float64 function on raw bits."""
    return lambda *values: lanes(*[value.view(F8) for value in values]).view(U8)


def on16(lanes: Lanes, form: "Form") -> Lanes:
    """A float32 function on one or two f16 or bf16 lanes; its result is rounded to them, and flushed or clamped.

    One rounding in float32 and one to 8 or 11 bits give the right sum and product: 24 ≥ 2 × 11 + 2.
    """
    is_bf16 = form.type.startswith("bf16")
    widen, shorten = (from_bf16, to_bf16) if is_bf16 else (from_f16, to_f16)
    kind = "bf16" if is_bf16 else "f16"
    ftz, sat, relu = (flag in form.flags for flag in ("ftz", "sat", "relu"))

    def run(*values: Array) -> Array:
        wide = [widen(value) for value in values]
        if ftz:
            wide = [rounding.flush(value, kind) for value in wide]
        result = lanes(*wide)
        if relu:
            result = np.where(np.isnan(result), result, np.maximum(result, result.dtype.type(0)))
        if sat:
            result = rounding.saturate(result)
        bits = shorten(result)
        return shorten(rounding.flush(widen(bits), kind)) if ftz else bits

    return packed(run) if form.type.endswith("x2") else run


def packed(lanes: Lanes, lane: type[np.generic] = np.uint16) -> Lanes:
    """A function of narrow lanes on registers that hold two."""

    def run(*values: Array) -> Array:
        register = values[0].dtype
        values = tuple(np.ascontiguousarray(value).view(lane) for value in np.broadcast_arrays(*values))
        return lanes(*values).view(register)

    return run


def by_type(f32: Callable[[str], Lanes], f64: Callable[[str], Lanes], f16: Lanes | None = None) -> LanesOf:
    """The right width's function, in the instruction's rounding mode."""

    def of(form: "Form") -> Lanes:
        if form.type == "f32":
            return on32(f32(form.mode), form)
        if form.type == "f64":
            return on64(f64(form.mode))
        if form.type == "f32x2":
            return packed(on32(f32(form.mode), form), U4)
        if f16 is None:
            raise Unsupported(form.instruction.text)
        return on16(f16, form)

    return of


def subtract(add: Callable[[str], Lanes]) -> Callable[[str], Lanes]:
    """a - b as a + (-b): exact, and right in every mode."""
    return lambda mode: np.subtract if mode == "rn" else lambda a, b: add(mode)(a, -b)


def bind_fma(form: "Form") -> Step:
    """fma in every type; f16 and bf16 are rounded once from an exact float64 product."""
    return alu(_fma_lanes, 3)(form)


def _fma_lanes(form: "Form") -> Lanes:
    match form.type:
        case "f32":
            return on32(arithmetic.fma32(form.mode), form)
        case "f64":
            return on64(arithmetic.fma64(form.mode))
        case "f32x2":
            return packed(on32(arithmetic.fma32(form.mode), form), U4)
        case type_:
            fused = arithmetic.narrow_fma("bf16" if type_.startswith("bf16") else "f16")
            return on16(lambda a, b, c: fused(a.astype(F8), b.astype(F8), c.astype(F8)), form)


def extreme(form: "Form", larger: bool) -> Lanes:
    """min and max: -0 < +0; a NaN loses to a number unless .NaN; two or three operands."""
    pick, is_nan, propagates = (np.maximum if larger else np.minimum), np.isnan, "NaN" in form.flags
    xorsign = "xorsign" in form.flags

    def two(a: Array, b: Array) -> Array:
        sign = np.signbit(a) ^ np.signbit(b)
        if xorsign:
            a, b = np.abs(a), np.abs(b)
        result = pick(a, b)
        if not result.all():
            result = np.where((a == 0) & (b == 0), a + b if larger else -(-a - b), result)
        if np.count_nonzero(is_nan(result)):
            nan = result.dtype.type(np.nan)
            either = np.where(is_nan(a), b, np.where(is_nan(b), a, result))
            result = np.where(is_nan(result), nan if propagates else either, result)
        return np.copysign(result, np.where(sign, -1, 1).astype(result.dtype)) if xorsign else result

    return lambda first, *rest: two(first, rest[0]) if len(rest) == 1 else two(two(first, rest[0]), rest[1])


def bind_extreme(form: "Form") -> Step:
    """min and max"""
    form.expect(3, 4)
    lanes = extreme(form, form.instruction.opcode == "max")

    def of(form: "Form") -> Lanes:
        if form.type == "f32":
            return canonical32(on32(lanes, form))
        return on64(lanes) if form.type == "f64" else on16(lanes, form)

    return alu(of, len(form.operands) - 1)(form)


def canonical32(lanes: Lanes) -> Lanes:
    """NaN results are 0x7FFFFFFF."""

    def run(*values: Array) -> Array:
        bits = lanes(*values)
        nan = (bits & U4(0x7FFFFFFF)) > U4(0x7F800000)
        return np.where(nan, U4(0x7FFFFFFF), bits) if np.count_nonzero(nan) else bits

    return run


def sign_bit(negate: bool) -> LanesOf:
    """neg and abs on the sign bit; .ftz flushes."""

    def of(form: "Form") -> Lanes:
        bits = {"f64": 0x8000000000000000, "f32": 0x80000000, "f16": 0x8000, "bf16": 0x8000}.get(form.type, 0x80008000)
        ftz = "ftz" in form.flags

        def run(value: Array) -> Array:
            mask = value.dtype.type(bits)
            if ftz and form.type == "f32":
                value = rounding.flush(value.view(F4), "f32").view(U4)
            return value ^ mask if negate else value & ~mask

        return run

    return of


def approximate(function: Callable[[Array], Array]) -> LanesOf:
    """An .approx function of float32: computed in float64 and rounded, so within any bound that the manual states."""

    def of(form: "Form") -> Lanes:
        if form.type in ("f32", "f64"):
            lanes = (lambda a: function(a.astype(F8)).astype(F4)) if form.type == "f32" else function
            return on32(lanes, form) if form.type == "f32" else on64(lanes)
        return on16(lambda a: function(a.astype(F8)), form)

    return of


def _reciprocal_root(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


def _reciprocal(mode: str, divide: Callable[[str], Lanes]) -> Lanes:
    inner = divide(mode)
    return lambda a: inner(np.ones_like(a), a)


def _nearest_quotient(mode: str) -> Lanes:
    del mode
    return np.divide


def copysign(form: "Form") -> Lanes:
    """copysign d, a, b: b with the sign of a."""
    width = 64 if form.type == "f64" else 32

    def run(a: Array, b: Array) -> Array:
        sign = a.dtype.type(1 << (width - 1))
        return (b & ~sign) | (a & sign)

    return run


TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).smallest_normal),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).smallest_normal),
}


def bind_testp(form: "Form") -> Step:
    """testp"""
    form.expect(2)
    (test,) = form.flags
    view = F4 if form.type == "f32" else F8
    return step_of(lambda a: TESTS[test](a.view(view)), [form.source(1, form.type)], form.target(0, 1))


MODES = words("rn rz rm rp")
SINGLE, HALF = "Floating-Point Instructions", "Half Precision Floating-Point Instructions"
NARROW = words("f16 f16x2 bf16 bf16x2")
ADD = by_type(arithmetic.add32, arithmetic.add64, np.add)
SUB = by_type(subtract(arithmetic.add32), subtract(arithmetic.add64), np.subtract)  # fmt: skip
MUL = by_type(arithmetic.mul32, arithmetic.mul64, np.multiply)
DIV = by_type(arithmetic.div32, arithmetic.div64)
RCP = by_type(lambda mode: _reciprocal(mode, arithmetic.div32), lambda mode: _reciprocal(mode, arithmetic.div64))
SQRT = by_type(arithmetic.sqrt32, arithmetic.sqrt64)
WIDE = words("f32 f64 f32x2")


def _rounded(name: str, lanes: LanesOf) -> tuple[Opcode, ...]:
    return (
        Opcode(name, SINGLE, 0, alu(lanes, 2), WIDE, MODES | words("ftz sat")),
        Opcode(name, HALF, 1, alu(lanes, 2), NARROW, words("rn ftz sat")),
    )


def _approximate(name: str, function: Callable[[Array], Array], types: str = "f32") -> Opcode:
    return Opcode(name, SINGLE, 0, alu(approximate(function), 1), words(types), words("ftz"), words("approx"))


ENTRIES = (
    *_rounded("add", ADD),
    *_rounded("sub", SUB),
    *_rounded("mul", MUL),
    Opcode("fma", SINGLE, 0, bind_fma, WIDE, MODES | words("ftz sat")),
    Opcode("mad", SINGLE, 0, bind_fma, words("f32 f64"), MODES | words("ftz sat")),
    Opcode("fma", HALF, 1, bind_fma, NARROW, words("rn ftz sat relu")),
    *(Opcode(name, SINGLE, 0, bind_extreme, words("f32 f64"), words("ftz NaN xorsign abs")) for name in ("min", "max")),
    *(Opcode(name, HALF, 1, bind_extreme, NARROW, words("ftz NaN xorsign abs")) for name in ("min", "max")),
    *(
        Opcode(name, section, tier, alu(sign_bit(name == "neg"), 1), types, words("ftz"))
        for name in ("neg", "abs")
        for section, tier, types in ((SINGLE, 0, words("f32 f64")), (HALF, 1, NARROW))
    ),
    Opcode("div", SINGLE, 0, alu(DIV, 2), words("f32 f64"), MODES | words("ftz")),
    *(
        Opcode(
            "div",
            SINGLE,
            0,
            alu(by_type(_nearest_quotient, _nearest_quotient), 2),
            words("f32"),
            words("ftz"),
            words(kind),
        )
        for kind in ("approx", "full")
    ),
    Opcode("rcp", SINGLE, 0, alu(RCP, 1), words("f32 f64"), MODES | words("ftz")),
    Opcode("sqrt", SINGLE, 0, alu(SQRT, 1), words("f32 f64"), MODES | words("ftz")),
    _approximate("rcp", lambda a: 1.0 / a, "f32 f64"),
    _approximate("sqrt", np.sqrt),
    _approximate("rsqrt", _reciprocal_root, "f32 f64"),
    _approximate("sin", np.sin),
    _approximate("cos", np.cos),
    _approximate("lg2", np.log2),
    _approximate("ex2", np.exp2, "f32 f16 f16x2"),
    _approximate("tanh", np.tanh, "f32 f16 f16x2 bf16 bf16x2"),
    Opcode("ex2", HALF, 1, alu(approximate(np.exp2), 1), words("bf16 bf16x2"), needs=words("approx ftz")),
    Opcode("copysign", SINGLE, 0, alu(copysign, 2), words("f32 f64")),
    Opcode("testp", SINGLE, 0, bind_testp, words("f32 f64"), frozenset(TESTS)),
)
