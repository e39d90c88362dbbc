"""Raw bits to floats and back, for the formats that numpy does not have."""

import numpy as np

from kernel_lab.ptx.numbers.rounding import narrow

Array = np.ndarray
U2, U4, F4, F8 = np.uint16, np.uint32, np.float32, np.float64


def from_bf16(bits: Array) -> Array:
    """bf16 bits as float32."""
    return (bits.astype(U4) << U4(16)).view(F4)


def to_bf16(value: Array) -> Array:
    """float32 (or wider) as bf16 bits, to nearest even; NaN is 0x7FFF."""
    if value.dtype == F8:
        value = narrow(value, "bf16", "rn").astype(F4)
    bits = value.view(U4)
    rounded = (bits + U4(0x7FFF) + ((bits >> U4(16)) & U4(1))) >> U4(16)
    return np.where(np.isnan(value), U4(0x7FFF), rounded).astype(U2)


def from_f16(bits: Array) -> Array:
    """f16 bits as float32."""
    return bits.view(np.float16).astype(F4)


def to_f16(value: Array) -> Array:
    """float32 (or wider) as f16 bits, to nearest even; NaN is 0x7FFF."""
    bits = value.astype(np.float16).view(U2)
    return np.where(np.isnan(value), U2(0x7FFF), bits)


def _minifloat_values(exponent_bits: int, mantissa_bits: int, bias: int) -> Array:
    codes = np.arange(1 << (exponent_bits + mantissa_bits))
    exponent, mantissa = codes >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    normal = np.ldexp(1.0 + mantissa / (1 << mantissa_bits), exponent - bias)
    subnormal = np.ldexp(mantissa / (1 << mantissa_bits), 1 - bias)
    return np.where(exponent > 0, normal, subnormal)


def _table(kind: str) -> Array:
    if kind == "e4m3":
        values = _minifloat_values(4, 3, 7)
        values[0x7F] = np.nan
    else:
        values = _minifloat_values(5, 2, 15)
        values[0x7C], values[0x7D:] = np.inf, np.nan
    return np.concatenate([values, -values]).astype(F4)


FP8 = {kind: _table(kind) for kind in ("e4m3", "e5m2")}
"""Values by code (OCP OFP8 1.0, section 5)."""
FP8_LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}


def from_fp8(codes: Array, kind: str) -> Array:
    """fp8 codes as float32."""
    return FP8[kind][codes]


def to_fp8(value: Array, kind: str) -> Array:
    """Floats as fp8 codes, to nearest even, saturated to the largest finite value (.satfinite); NaN is 0x7F."""
    finite = FP8[kind][: 0x7F if kind == "e4m3" else 0x7C].astype(F8)
    magnitude = np.minimum(np.abs(value.astype(F8)), FP8_LARGEST[kind])
    above = np.clip(np.searchsorted(finite, magnitude), 1, finite.size - 1)
    low, high = finite[above - 1], finite[above]
    to_low, to_high = magnitude - low, high - magnitude
    up = (to_high < to_low) | ((to_high == to_low) & (above % 2 == 0))
    codes = np.where(up, above, above - 1) | np.where(np.signbit(value), 0x80, 0)
    return np.where(np.isnan(value), 0x7F, codes).astype(np.uint8)


def to_tf32(bits: Array) -> Array:
    """float32 bits rounded to 10 mantissa bits, to nearest, ties away (cvt.rna.tf32)."""
    is_special = (bits & U4(0x7F800000)) == U4(0x7F800000)
    return np.where(is_special, bits, (bits + U4(0x1000)) & U4(0xFFFFE000))
