"""Rounding once: sums and products in float64 rounded to odd, then to the target in any mode.

Rounding to odd in 53 bits and then to p ≤ 51 bits in any mode gives the directly rounded result (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE TC 57(4), 2008).
"""

import numpy as np

Array = np.ndarray

U4, U8, F4, F8, I8 = np.uint32, np.uint64, np.float32, np.float64, np.int64
ONE = np.uint64(1)
LOW_29 = np.uint64(0x1FFFFFFF)
HALF_29 = np.uint64(0x10000000)
SMALLEST_NORMAL = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}
SPLITTER = 134217729.0  # 2^27 + 1, Dekker's


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    from_b = total - a
    return total, (a - (total - from_b)) + (b - from_b)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error (Dekker), barring overflow and underflow."""
    product = a * b
    a_high = SPLITTER * a
    a_high = a_high - (a_high - a)
    b_high = SPLITTER * b
    b_high = b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def sum_to_odd(a: Array, b: Array) -> Array:
    """a + b in float64, rounded to odd."""
    total, error = two_sum(a, b)
    return to_odd(total, error)


def to_odd(total: Array, error: Array) -> Array:
    """A rounded value with its error, as the value rounded to odd."""
    bits = total.view(U8)
    adjust = (error != 0) & ((bits & ONE) == 0) & np.isfinite(error) & np.isfinite(total)
    if not adjust.any():
        return total
    grows = (error > 0) == (total > 0)
    return np.where(adjust, np.where(grows, bits + ONE, bits - ONE), bits).view(F8)


def narrow(exact: Array, type_: str, mode: str) -> Array:
    """float64 values (exact, or rounded to odd) in a narrower type, as float64 holding values of that type."""
    match type_:
        case "f32":
            near = exact.astype(F4).astype(F8)
        case "f16":
            near = exact.astype(np.float16).astype(F8)
        case _:
            near = _nearest_bf16(exact)
    return near if mode == "rn" else directed(near, exact, type_, mode)


def directed(near: Array, exact: Array, type_: str, mode: str) -> Array:
    """The neighbour that a directed mode wants, from the nearest and the exact value."""
    away = np.signbit(exact)
    match mode:
        case "rz":
            too_far = np.abs(near) > np.abs(exact)
            up = away
        case "rp":
            too_far = near < exact
            up = np.True_
        case _:  # rm
            too_far = near > exact
            up = np.False_
    if not too_far.any():
        return near
    return np.where(too_far, _step(near, type_, up), near)


def _step(value: Array, type_: str, up: Array | np.bool_) -> Array:
    towards = np.where(up, np.inf, -np.inf)
    if type_ == "f64":
        return np.nextafter(value, towards)
    if type_ == "f32":
        return np.nextafter(value.astype(F4), towards.astype(F4)).astype(F8)
    if type_ == "f16":
        return np.nextafter(value.astype(np.float16), towards.astype(np.float16)).astype(F8)
    return _step_bf16(value, up)


def _step_bf16(value: Array, up: Array | np.bool_) -> Array:
    bits = (value.astype(F4).view(U4) >> np.uint32(16)).astype(np.int32)
    magnitude = bits & 0x7FFF
    key = np.where(bits >> 15 != 0, -magnitude, magnitude) + np.where(up, 1, -1)
    moved = np.where(key < 0, 0x8000 | -key, key).astype(U4) << np.uint32(16)
    return moved.view(F4).astype(F8)


def _nearest_bf16(exact: Array) -> Array:
    """Nearest, ties to even, in 8 bits: by float32 rounded to odd, and its bits."""
    odd = exact.astype(F4)
    short = odd.astype(F8)
    with np.errstate(invalid="ignore"):
        odd = to_odd32(odd, np.where(np.isfinite(short), exact - short, 0.0))
    bits = odd.view(U4)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    overflowed = np.abs(exact) >= 3.3961775292304e38  # (2 - 2^-8) × 2^127: rounds to infinity
    rounded = np.where(overflowed, (bits & np.uint32(0x80000000)) | np.uint32(0x7F800000), rounded)
    return np.where(np.isnan(exact), np.uint32(0x7FFF0000), rounded).view(F4).astype(F8)


def to_odd32(value: Array, error: Array) -> Array:
    """A float32 with the error it was rounded by, as float32 rounded to odd."""
    bits = value.view(U4)
    adjust = (error != 0) & ((bits & np.uint32(1)) == 0)
    grows = (error > 0) == (value > 0)
    grows = np.where(value == 0, True, grows)  # noqa: FBT003  (a lane's value, not a switch)
    signed = np.where((value == 0) & (error < 0), np.uint32(0x80000000), bits)
    return np.where(adjust, np.where(grows, signed + np.uint32(1), signed - np.uint32(1)), bits).view(F4)


def flush(value: Array, type_: str) -> Array:
    """Subnormal lanes as zeros of the same sign (.ftz)."""
    small = np.abs(value) < SMALLEST_NORMAL[type_]
    return np.where(small, np.copysign(value.dtype.type(0), value), value)


def saturate(value: Array) -> Array:
    """Lanes clamped to [0, 1], NaN to +0 (.sat)."""
    return np.where(value > 0, np.minimum(value, value.dtype.type(1)), value.dtype.type(0))
