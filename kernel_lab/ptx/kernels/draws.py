"""Inputs for our kernels, inside the domains of their workloads."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernel_lab.ptx.kernels.references import Array, Axes, to_bf16

GATE_LIMIT = -5.0
"""The bounded gate's limit: a published kernel went non-finite there (TIRx-kernels issue 214)."""

F32 = NDArray[np.float32]
Shape = tuple[str | int, ...]


def normals(**shapes: Shape) -> Callable[[Axes, np.random.Generator], dict[str, Array]]:
    """Standard normal float32 arrays of these shapes."""

    def draw(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
        return {name: normal(axes, rng, shape) for name, shape in shapes.items()}

    return draw


def halves(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """A pair of normal matrices in fp16."""
    return {name: normal(axes, rng, shape).astype(np.float16) for name, shape in _MATRICES.items()}


def bf16s(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """A pair of normal matrices as bf16 bits."""
    return {name: to_bf16(normal(axes, rng, shape)) for name, shape in _MATRICES.items()}


def bins(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Bin numbers with a crowded bin 0, and counts that do not start at zero."""
    drawn = rng.integers(0, axes["BINS"], axes["N"]) * rng.integers(0, 2, axes["N"])
    return {"x": drawn.astype(np.int32), "counts": rng.integers(0, 9, axes["BINS"]).astype(np.uint32)}


def kda(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Normalised q and k, bounded gates with every eighth at its limit, beta in (0, 1), a state that is not 0."""
    tokens: Shape = ("B", "T", "H")
    q, k, gate = (normal(axes, rng, (*tokens, "K")) for _ in range(3))
    g = np.float32(GATE_LIMIT) / (1.0 + np.exp(-gate))
    g.reshape(-1)[::8] = GATE_LIMIT
    return {
        "q": _normalised(q),
        "k": _normalised(k),
        "v": normal(axes, rng, (*tokens, "V")),
        "g": g.astype(np.float32),
        "beta": (1.0 / (1.0 + np.exp(-normal(axes, rng, tokens)))).astype(np.float32),
        "s0": normal(axes, rng, ("B", "H", "K", "V")),
    }


def normal(axes: Axes, rng: np.random.Generator, shape: Shape) -> F32:
    """Standard normal float32."""
    return rng.standard_normal([axes[part] if isinstance(part, str) else part for part in shape]).astype(np.float32)


_MATRICES: dict[str, Shape] = {"a": ("M", "K"), "b": ("K", "N")}


def _normalised(rows: F32) -> F32:
    norms = np.sqrt(np.sum(rows**2, axis=-1, keepdims=True) + 1e-6)
    return np.asarray(rows / norms, np.float32)
