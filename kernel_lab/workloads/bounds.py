"""How wrong honest float32 code may be: the pieces of every bound (verification.md, The bound)."""

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-24
"""u of float32: half the spacing of numbers in [1, 2)."""
SUBNORMAL_SPACING = 2.0**-149
"""Distance between neighbouring float32 subnormals: an intermediate that underflows is off by up to half of it."""
_MIN_EXPONENT = -125
"""`frexp` exponent of the smallest normal float32, 2^-126."""


def half_ulp(y64: F64) -> F64:
    """Half the float32 spacing around each exact value: the error of rounding it once."""
    exponent = np.where(y64 == 0.0, _MIN_EXPONENT, np.frexp(y64)[1])
    return np.asarray(np.ldexp(0.5, np.maximum(exponent, _MIN_EXPONENT) - 24), np.float64)


def sum_bound(y64: F64, condition: F64, terms: int) -> F64:
    """Bound of a sum of `terms` numbers, c = 2, g = u·√N, cond = Σ|x|.

    No `tiny`: float32 additions are exact wherever their result is subnormal.
    """
    return np.asarray(2.0 * UNIT_ROUNDOFF * np.sqrt(terms) * condition + half_ulp(y64))


def dot_bound(y64: F64, condition: F64, terms: int) -> F64:
    """Bound of dot products of `terms` products, c = 2, g = u·√K, cond = Σ|a||b|.

    tiny: a product that is subnormal is rounded by up to half a spacing, which adds up like the rest: √K spacings. A
    fused multiply-add does not round it.
    """
    root = np.sqrt(terms)
    return np.asarray(2.0 * UNIT_ROUNDOFF * root * condition + half_ulp(y64) + root * SUBNORMAL_SPACING)


def norm_bound(y64: F64, width: int, tiny: F64) -> F64:
    """Bound of a normalised row of `width` elements: u·|y|·(4 + √H), rounded once more, plus `tiny`."""
    return np.asarray(UNIT_ROUNDOFF * np.abs(y64) * (4.0 + np.sqrt(width)) + half_ulp(y64) + tiny)


def softmax_bound(y64: F64, below_max: F64, width: int) -> F64:
    """Bound of a softmax row: u·y·(4(1 + |x − max|) + 2√C), rounded once more, plus `tiny`.

    2√C is the bound of its denominator as a sum (c = 2): with c = 1 one honest row in some thousands was past it
    (ADR 0022).
    `tiny` is two subnormal spacings: the exponential, its rescaling in an online or two-step evaluation, and their
    product each lose at most half a spacing before the division by a sum that is at least 1.
    """
    relative = 4.0 * (1.0 + below_max) + 2.0 * np.sqrt(width)
    return np.asarray(UNIT_ROUNDOFF * y64 * relative + half_ulp(y64) + 2.0 * SUBNORMAL_SPACING)
