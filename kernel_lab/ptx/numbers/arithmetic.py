"""add, mul, fma, div and sqrt on float lanes in every type and rounding mode, each rounded exactly once."""

from collections.abc import Callable

import numpy as np

from kernel_lab.ptx.numbers import exact
from kernel_lab.ptx.numbers.rounding import (
    F4,
    F8,
    HALF_29,
    LOW_29,
    U4,
    U8,
    narrow,
    sum_to_odd,
    to_odd,
    two_product,
    two_sum,
)

Array = np.ndarray
Binary = Callable[[Array, Array], Array]
Ternary = Callable[[Array, Array, Array], Array]


def add32(mode: str) -> Binary:
    """a + b of float32."""
    if mode == "rn":
        return np.add

    def add(a: Array, b: Array) -> Array:
        return fix_zero_sum(narrow(sum_to_odd(a.astype(F8), b.astype(F8)), "f32", mode), a, b, mode).astype(F4)

    return add


def mul32(mode: str) -> Binary:
    """a × b of float32; the product is exact in float64."""
    return np.multiply if mode == "rn" else lambda a, b: narrow(a.astype(F8) * b.astype(F8), "f32", mode).astype(F4)


def fix_zero_sum(total: Array, a: Array, b: Array, mode: str) -> Array:
    """Rounding down, x + (-x) is -0; the sum of two zeros of one sign keeps it."""
    if mode != "rm":
        return total
    opposite = (total == 0) & (a.astype(F8) == -b.astype(F8)) & (np.signbit(a) != np.signbit(b))
    return np.where(opposite, -0.0, total)


def fma32(mode: str) -> Ternary:
    """a × b + c of float32, rounded once."""
    return fma32_nearest if mode == "rn" else lambda a, b, c: fma32_odd(a, b, c, mode)


def fma32_nearest(a: Array, b: Array, c: Array) -> Array:
    """To nearest. float64 holds the product exactly; rounding its sum again to float32 can only go wrong on the middle
    between two floats, or where the result is subnormal and the middle lies elsewhere: there the slow way decides."""
    total = a.astype(F8)
    total = total * b
    total = total + c
    near = total.astype(F4)
    doubtful = (total.view(U8) & LOW_29) == HALF_29
    doubtful |= is_subnormal32(near)
    if np.count_nonzero(doubtful):
        lanes = np.flatnonzero(doubtful)
        x, y, z = (value[lanes] if value.size > 1 else value for value in (a, b, c))
        near[lanes] = fma32_odd(x, y, z, "rn")
    return near


def is_subnormal32(value: Array) -> Array:
    """Where a float32 is subnormal and not zero."""
    return ((value.view(U4) << np.uint32(1)) - np.uint32(1)) < np.uint32(0x00FFFFFF)


def fma32_odd(a: Array, b: Array, c: Array, mode: str) -> Array:
    """In any mode, by rounding to odd in float64."""
    product, addend = a.astype(F8) * b.astype(F8), c.astype(F8)
    total = narrow(sum_to_odd(product, addend), "f32", mode)
    return fix_zero_sum(total, product, addend, mode).astype(F4)


def div32(mode: str) -> Binary:
    """a / b of float32. To nearest numpy divides; else the residual's sign tells on which side the quotient lies."""
    if mode == "rn":
        return np.divide

    def divide(a: Array, b: Array) -> Array:
        return narrow(_quotient_to_odd(a.astype(F8), b.astype(F8)), "f32", mode).astype(F4)

    return divide


def _quotient_to_odd(a: Array, b: Array) -> Array:
    quotient = a / b
    product, error = two_product(quotient, b)
    remainder = (a - product) - error
    remainder = np.where(np.isfinite(quotient) & np.isfinite(b), remainder, 0.0)
    return to_odd(quotient, np.where(np.signbit(b), -remainder, remainder))


def sqrt32(mode: str) -> Callable[[Array], Array]:
    """√a of float32."""
    if mode == "rn":
        return np.sqrt

    def root(a: Array) -> Array:
        wide = a.astype(F8)
        estimate = np.sqrt(wide)
        product, error = two_product(estimate, estimate)
        remainder = np.where(np.isfinite(estimate), (wide - product) - error, 0.0)
        return narrow(to_odd(estimate, remainder), "f32", mode).astype(F4)

    return root


def add64(mode: str) -> Binary:
    """a + b of float64."""
    if mode == "rn":
        return np.add
    total = exact.fma("f64", mode)
    return _finite_or_nearest(lambda a, b: total(a, 1.0, b), np.add)


def mul64(mode: str) -> Binary:
    """a × b of float64."""
    return np.multiply if mode == "rn" else _finite_or_nearest(exact_product(mode), np.multiply)


def exact_product(mode: str) -> Callable[..., float]:
    """a × b of finite Python floats, rounded once to float64."""

    def product(a: float, b: float) -> float:
        return a * b if a == 0.0 or b == 0.0 else exact.fma("f64", mode)(a, b, 0.0)

    return product


def div64(mode: str) -> Binary:
    """a / b of float64."""
    if mode == "rn":
        return np.divide
    quotient = exact.divide("f64", mode)
    return _finite_or_nearest(lambda a, b: quotient(a, b) if b else _ieee_divide(a, b), np.divide)


def _ieee_divide(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def sqrt64(mode: str) -> Callable[[Array], Array]:
    """√a of float64."""
    if mode == "rn":
        return np.sqrt
    root = exact.square_root("f64", mode)

    def rounded(a: Array) -> Array:
        fine = np.isfinite(a) & (a > 0)
        return np.where(fine, exact.per_lane(root, np.where(fine, a, 1.0)), np.sqrt(a))

    return rounded


def _finite(*operands: Array) -> tuple[Array, ...]:
    """The operands with lanes that are not finite set to one: their results are thrown away."""
    lanes = np.broadcast_arrays(*operands)
    fine = np.logical_and.reduce([np.isfinite(lane) for lane in lanes])
    return tuple(np.where(fine, lane, 1.0) for lane in lanes)


def _finite_or_nearest(operation: Callable[..., float], nearest: Callable[..., Array]) -> Binary:
    """The exact operation where all operands are finite, IEEE's infinities and NaN elsewhere."""

    def run(a: Array, b: Array) -> Array:
        fine = np.isfinite(a) & np.isfinite(b)
        return np.where(fine, exact.per_lane(operation, *_finite(a, b)), nearest(a, b))

    return run


def fma64(mode: str) -> Ternary:
    """a × b + c of float64, rounded once: error-free transformations to nearest, exact integers where they may fail."""
    slow = exact.fma("f64", mode)

    def fma(a: Array, b: Array, c: Array) -> Array:
        a, b, c = np.broadcast_arrays(a, b, c)
        rough = a * b + c
        unsafe = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        if mode == "rn":
            unsafe = unsafe & ~_tame(a, b, c, rough)
        result = _fma64_nearest(a, b, c) if mode == "rn" else rough
        special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
        result = np.where(special, rough, result)
        if unsafe.any():
            result[unsafe] = exact.per_lane(slow, a[unsafe], b[unsafe], c[unsafe])
        return result

    return fma


def _tame(a: Array, b: Array, c: Array, rough: Array) -> Array:
    """Lanes whose exponents keep every step of the error-free way far from overflow and underflow."""
    product = np.abs(a * b)
    fits = (np.abs(a) < 2.0**400) & (np.abs(b) < 2.0**400) & (np.abs(c) < 2.0**800)
    big = (product > 2.0**-800) & (np.abs(rough) > 2.0**-700) & ((c == 0) | (np.abs(c) > 2.0**-800))
    return fits & big


def _fma64_nearest(a: Array, b: Array, c: Array) -> Array:
    high, low = two_product(a, b)
    t_high, t_low = two_sum(c, low)
    v_high, v_low = two_sum(high, t_high)
    return v_high + sum_to_odd(t_low, v_low)


def narrow_fma(type_: str, mode: str = "rn") -> Ternary:
    """a × b + c of f16 or bf16 values in float64, rounded once; float64 in and out."""
    return lambda a, b, c: narrow(sum_to_odd(a * b, c), type_, mode)
