"""A few vectors times a matrix: the linear layer of a decode step, a dot product of each row with each vector."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from kernel_lab.workloads import draws, relations
from kernel_lab.workloads.bounds import F64, dot_bound
from kernel_lab.workloads.workload import (
    Array,
    Arrays,
    Axes,
    Buffer,
    Call,
    Distribution,
    Relation,
    Scalars,
    Steps,
    Workload,
    shapes_over,
)

_ELEMENT_BYTES = 4
_INPUTS = (Buffer("w", ("N", "K")), Buffer("x", ("B", "K")))
_EXACT_MAGNITUDE = 8


def reference(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    """y = x wᵀ in float64."""
    return {"y": np.asarray(inputs["x"].astype(np.float64) @ inputs["w"].astype(np.float64).T)}


def bound(inputs: Arrays, axes: Axes, _scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """2·u·√K·Σ|w||x| + ½ ulp + tiny."""
    condition = np.abs(inputs["x"]).astype(np.float64) @ np.abs(inputs["w"]).astype(np.float64).T
    return {"y": dot_bound(exact["y"], np.asarray(condition), axes["K"])}


def index_order_f32(inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: products added one after another."""
    x, columns = inputs["x"].astype(np.float32), np.ascontiguousarray(inputs["w"].T, np.float32)
    y = np.zeros((axes["B"], axes["N"]), np.float32)
    for k in range(axes["K"]):
        y += x[:, k, None] * columns[k]
    return {"y": y}


def draw_exact(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Integers in [−8, 8]: Σ|w||x| stays below 2^24 for K below 2^18."""
    return {
        name: rng.integers(-_EXACT_MAGNITUDE, _EXACT_MAGNITUDE + 1, (axes[rows], axes["K"])).astype(np.float32)
        for name, rows in (("w", "N"), ("x", "B"))
    }


def draw_cancelling(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Neighbours in w cancel and those in x are equal, so that every sum is far below Σ|w||x|."""
    w = draws.cancelling_pairs((axes["N"], axes["K"] + axes["K"] % 2), rng)[:, : axes["K"]]
    x = np.repeat(draws.normal((axes["B"], -(-axes["K"] // 2)), rng), 2, axis=1)[:, : axes["K"]]
    return {"w": np.ascontiguousarray(w), "x": np.ascontiguousarray(x)}


def _summed(given: Arrays, axes: Axes, _rng: np.random.Generator) -> Steps:
    """Each vector plus the next one of the batch: a draw of another kind, judged as what it is."""
    yield Call({**given, "x": np.add(given["x"], np.roll(given["x"], 1, axis=0))}, axes)
    return ()


_distribution = partial(draws.first_filled, _INPUTS)
_shapes = partial(shapes_over, ("B", "N", "K"))

GEMV = Workload(
    name="gemv",
    summary="A few vectors times a matrix, as in a decode step",
    formula="y[b,n] = Σ_k w[n,k] · x[b,k]",
    inputs=_INPUTS,
    outputs=(Buffer("y", ("B", "N")),),
    axes=("B", "N", "K"),
    scalars={},
    axis_minimum={"B": 0, "N": 0, "K": 0},
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=(
        _distribution("normal", draws.normal),
        _distribution("uniform_positive", draws.uniform_positive),
        _distribution("offset", draws.offset),
        _distribution("lognormal_outliers", draws.lognormal_outliers),
        Distribution("cancelling_pairs", draw_cancelling, zero_mean=False),
        _distribution("subnormal", draws.subnormal),
        _distribution("signed_zero", draws.signed_zero),
        _distribution("large", draws.scaled_normal(2.0**90)),  # any partial sum of 2^32 products stays finite
        _distribution("one_hot", draws.one_hot),
    ),
    exact=Distribution("integers", draw_exact, zero_mean=False),
    smoke_axes=(
        *({"B": b, "N": 5, "K": 33} for b in (0, 1, 2, 3, 5, 8, 9)),
        *({"B": 3, "N": n, "K": 33} for n in (0, 1, 2, 7, 15, 16, 17, 31)),
        *({"B": 3, "N": 5, "K": k} for k in (0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 127, 129, 257, 1025)),
        {"B": 0, "N": 600, "K": 450},
        {"B": 4, "N": 0, "K": 70_000},
        {"B": 4, "N": 70_000, "K": 0},
    ),
    shapes={
        "small": _shapes((1, 64, 1021), (4, 61, 512), (8, 31, 255)),
        "serving": _shapes((1, 768, 288), (1, 6144, 4096), (4, 4096, 14336), (8, 1021, 4127)),
        "large": _shapes((1, 128256, 4096), (4, 14336, 4127), (8, 4096, 14336)),
    },
    flops=lambda axes: 2 * axes["B"] * axes["N"] * axes["K"],
    bytes_read=lambda axes: _ELEMENT_BYTES * (axes["N"] + axes["B"]) * axes["K"],
    bytes_written=lambda axes: _ELEMENT_BYTES * axes["B"] * axes["N"],
    relations=(
        relations.scaled(("x",), ("y",), "scaling x by a power of two scales y exactly"),
        relations.negated(("x",), ("y",), "negating x negates y exactly"),
        relations.permuted(
            "row_permutation", "N", _INPUTS, "permuting rows of w permutes columns of y within the bound"
        ),
        relations.permuted(
            "term_permutation", "K", _INPUTS, "permuting the terms of every dot product changes nothing"
        ),
        relations.alone("B", _INPUTS, "a vector gives the same result alone as within a batch, within the bound"),
        Relation(
            "linearity", "the result of a sum of two vectors is the sum of their results within the bound", _summed
        ),
    ),
    bound_source="2·u·√K·Σ|w||x| + ½ ulp + tiny: verification.md, The bound, dot products",
)
