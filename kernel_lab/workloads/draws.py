"""Named ways to fill one float32 array. A workload picks those inside its domain and says how large `large` may be."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kernel_lab.workloads.workload import Array, Axes, Buffer, Distribution

F32 = NDArray[np.float32]
Fill = Callable[[tuple[int, ...], np.random.Generator], F32]


def normal(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Standard normal."""
    return rng.standard_normal(shape, dtype=np.float32)


def uniform_positive(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Uniform in (0, 1]: every partial sum grows, so lost low bits show."""
    return np.float32(1.0) - rng.random(shape, dtype=np.float32)


def offset(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Normal around 1000: catches E[x²] − E[x]² and exp without a subtracted maximum."""
    return normal(shape, rng) + np.float32(1000.0)


OUTLIER_LIMIT = np.float32(16.0)
"""Chosen: an outlier beyond makes an honest sum of squares in index order swallow the small terms that follow, which
the √H of the bound does not allow for (without it 3 of 400 rows of 4096 broke the bound, the worst 1.6-fold; with it
none of 600, the worst 0.6)."""


def lognormal_outliers(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Normal with a lognormal scale per channel (σ = 1.5, chosen) within ±OUTLIER_LIMIT: the outlier channels of
    language models."""
    channels = shape[-1:] or (1,)
    scaled = normal(shape, rng) * rng.lognormal(0.0, 1.5, channels).astype(np.float32)
    return np.clip(scaled, -OUTLIER_LIMIT, OUTLIER_LIMIT)


def cancelling_pairs(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Neighbours that cancel exactly: the sum is small against Σ|x|."""
    flat = normal(shape, rng).reshape(-1) * np.float32(1000.0)
    even = flat.size // 2 * 2
    flat[1:even:2] = -flat[0:even:2]
    return flat.reshape(shape)


def subnormal(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Magnitudes below 2^-126: flush-to-zero shows."""
    return normal(shape, rng) * np.float32(2.0**-130)


def signed_zero(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Only +0 and −0."""
    return np.copysign(np.zeros(shape, np.float32), normal(shape, rng))


def one_hot(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Zeros, and a single 1 per row at a random place: an element left out shows."""
    filled = np.zeros(shape, np.float32)
    if filled.size:
        rows = filled.reshape(-1, shape[-1])
        rows[np.arange(rows.shape[0]), rng.integers(0, shape[-1], rows.shape[0])] = 1.0
    return filled


def ties(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
    """Half of the elements share the maximum, 0; the others are continuous, so that rounding stays unbiased."""
    return np.minimum(normal(shape, rng), np.float32(0.0))


def scaled_normal(scale: float) -> Fill:
    """Normal times `scale`: the top of a workload's domain."""

    def fill(shape: tuple[int, ...], rng: np.random.Generator) -> F32:
        return normal(shape, rng) * np.float32(scale)

    return fill


ZERO_MEAN = frozenset({"normal", "lognormal_outliers", "large"})
"""Draws on which the error-class rule is meaningful: symmetric, and with relative error at every output."""


def first_filled(inputs: Sequence[Buffer], name: str, fill: Fill) -> Distribution:
    """The distribution `name`, whose first input is drawn by `fill` and whose others are normal."""

    def draw(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
        first, *others = inputs
        drawn: dict[str, Array] = {first.name: fill(first.extent(axes), rng)}
        return drawn | {other.name: normal(other.extent(axes), rng) for other in others}

    return Distribution(name, draw, zero_mean=name in ZERO_MEAN)
