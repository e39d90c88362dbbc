"""Exact rounding with Python's integers: slow, certain, and used for the lanes where floating point tricks may fail."""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np

Array = np.ndarray

PRECISION = {"f64": (53, -1022, 1023), "f32": (24, -126, 127), "f16": (11, -14, 15), "bf16": (8, -126, 127)}
"""Significand bits, smallest and largest exponent of normal numbers (IEEE 754-2019, table 3.5; bf16 as in the ISA)."""


def round_fraction(exact: Fraction, type_: str, mode: str, *, sticky: bool = False) -> float:
    """A non-zero fraction in the type; `sticky` says that the true magnitude is a little larger than it."""
    bits, low, high = PRECISION[type_]
    negative, magnitude = exact < 0, abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, low) - bits + 1)
    whole, rest = divmod(magnitude, unit)
    if _rounds_away(int(whole), rest, unit, mode, negative, sticky):
        whole += 1
    value = Fraction(whole) * unit
    if value >= Fraction(2) ** (high + 1):
        value_or_inf = float("inf") if _overflows_to_infinity(mode, negative) else _largest(bits, high)
        return -value_or_inf if negative else value_or_inf
    return -float(value) if negative else float(value)


def _rounds_away(whole: int, rest: Fraction, unit: Fraction, mode: str, negative: bool, sticky: bool) -> bool:
    match mode:
        case "rn":
            twice = 2 * rest
            return twice > unit or (twice == unit and (sticky or whole % 2 == 1))
        case "rz":
            return False
        case "rp":
            return (rest > 0 or sticky) and not negative
        case _:  # rm
            return (rest > 0 or sticky) and negative


def _overflows_to_infinity(mode: str, negative: bool) -> bool:
    return mode == "rn" or (mode == "rp" and not negative) or (mode == "rm" and negative)


def _largest(bits: int, high: int) -> float:
    return float((Fraction(2) - Fraction(2) ** (1 - bits)) * Fraction(2) ** high)


def per_lane(operation: Callable[..., float], *operands: Array) -> Array:
    """The operation on every lane's Python floats, as float64."""
    lanes = np.broadcast_arrays(*operands)
    flat = (lane.ravel().tolist() for lane in lanes)
    return np.array([operation(*values) for values in zip(*flat, strict=True)], np.float64).reshape(lanes[0].shape)


def fma(type_: str, mode: str) -> Callable[[float, float, float], float]:
    """a × b + c of finite numbers, rounded once."""

    def exact(a: float, b: float, c: float) -> float:
        total = Fraction(a) * Fraction(b) + Fraction(c)
        return round_fraction(total, type_, mode) if total else zero_sum(a * b, c, mode)

    return exact


def zero_sum(a: float, b: float, mode: str) -> float:
    """The signed zero of a sum that is exactly zero (IEEE 754-2019, section 6.3)."""
    if np.signbit(a) == np.signbit(b) and a == 0.0 and b == 0.0:
        return a
    return -0.0 if mode == "rm" else 0.0


def divide(type_: str, mode: str) -> Callable[[float, float], float]:
    """a / b of finite numbers, b not zero, rounded once."""

    def exact(a: float, b: float) -> float:
        if a == 0.0:
            return a / b
        return round_fraction(Fraction(a) / Fraction(b), type_, mode)

    return exact


def square_root(type_: str, mode: str) -> Callable[[float], float]:
    """The root of a positive finite number, rounded once."""

    def exact(a: float) -> float:
        if a == 0.0:
            return a
        value = Fraction(a)
        scaled = (
            value.numerator * value.denominator << 256
        )  # sqrt(n/d) = sqrt(n·d)/d, with 128 more bits than f64 needs
        root = isqrt(scaled)
        estimate = Fraction(root, value.denominator << 128)
        return round_fraction(estimate, type_, mode, sticky=root * root != scaled)

    return exact
