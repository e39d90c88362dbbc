"""The product of two matrices."""

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
    Claim,
    Distribution,
    Relation,
    Scalars,
    Steps,
    Workload,
    shapes_over,
)

_ELEMENT_BYTES = 4
_EXACT_MAGNITUDE = 8
_INPUTS = (Buffer("a", ("M", "K")), Buffer("b", ("K", "N")))
_LARGE = {"M": 259, "N": 1031, "K": 2053}
"""Chosen: odd, and beyond one block of a kernel along every axis, at a gigaflop a call."""


def reference(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    """c = a b in float64."""
    return {"c": np.asarray(inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64))}


def bound(inputs: Arrays, axes: Axes, _scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """2·u·√K·Σ|a||b| + ½ ulp + tiny."""
    condition = np.abs(inputs["a"]).astype(np.float64) @ np.abs(inputs["b"]).astype(np.float64)
    return {"c": dot_bound(exact["c"], np.asarray(condition), axes["K"])}


def index_order_f32(inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: products added one after another."""
    a, b = inputs["a"].astype(np.float32), inputs["b"].astype(np.float32)
    c = np.zeros((axes["M"], axes["N"]), np.float32)
    for k in range(axes["K"]):
        c += a[:, k, None] * b[k]
    return {"c": c}


def draw_exact(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Integers in [−8, 8]: Σ|a||b| stays below 2^24 for K below 2^18."""
    return {
        name: rng.integers(-_EXACT_MAGNITUDE, _EXACT_MAGNITUDE + 1, (axes[rows], axes[columns])).astype(np.float32)
        for name, rows, columns in (("a", "M", "K"), ("b", "K", "N"))
    }


def draw_cancelling(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Neighbours in a cancel and those in b are equal, so that every sum is far below Σ|a||b|."""
    a = draws.cancelling_pairs((axes["M"], axes["K"] + axes["K"] % 2), rng)[:, : axes["K"]]
    b = np.repeat(draws.normal((-(-axes["K"] // 2), axes["N"]), rng), 2, axis=0)[: axes["K"]]
    return {"a": np.ascontiguousarray(a), "b": np.ascontiguousarray(b)}


def _freivalds(_given: Arrays, _axes: Axes, rng: np.random.Generator) -> Steps:
    """A product too large for a float64 reference: c r = a (b r) for a random vector of signs, row by row, in the work
    of three matrix-vector products (Freivalds 1977). What is wrong by more than
    the row's bound escapes with probability at most ½."""
    a = rng.standard_normal((_LARGE["M"], _LARGE["K"]), dtype=np.float32)
    b = rng.standard_normal((_LARGE["K"], _LARGE["N"]), dtype=np.float32)
    outputs = yield Call({"a": a, "b": b}, _LARGE, judged=False)
    signs = rng.choice((-1.0, 1.0), _LARGE["N"])
    want = a.astype(np.float64) @ (b.astype(np.float64) @ signs)
    condition = np.abs(a).astype(np.float64) @ np.abs(b).sum(axis=1, dtype=np.float64)
    return (Claim("c r", outputs["c"].astype(np.float64) @ signs, want, dot_bound(want, condition, _LARGE["K"])),)


_distribution = partial(draws.first_filled, _INPUTS)
_shapes = partial(shapes_over, ("M", "N", "K"))

GEMM = Workload(
    name="gemm",
    summary="Product of two matrices",
    formula="c[m,n] = Σ_k a[m,k] · b[k,n]",
    inputs=_INPUTS,
    outputs=(Buffer("c", ("M", "N")),),
    axes=("M", "N", "K"),
    scalars={},
    axis_minimum={"M": 0, "N": 0, "K": 0},
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
        *({"M": m, "N": 33, "K": 5} for m in (0, 1, 2, 3, 5, 7, 8, 13, 15, 17)),
        *({"M": 3, "N": n, "K": 5} for n in (0, 1, 2, 7, 15, 16, 17, 31, 63, 65, 129)),
        *({"M": 9, "N": 17, "K": k} for k in (0, 1, 2, 3, 31, 64, 257, 1025)),
        {"M": 0, "N": 600, "K": 450},
        {"M": 600, "N": 0, "K": 450},
        {"M": 600, "N": 450, "K": 0},
    ),
    shapes={
        "small": _shapes((1, 128, 256), (31, 67, 129), (64, 96, 127)),
        "serving": _shapes((1, 4096, 4096), (16, 6144, 4096), (127, 1021, 4127), (512, 2048, 2048)),
        "large": _shapes((1, 14336, 4096), (512, 6144, 4096), (1023, 4096, 4127), (4096, 4096, 14336)),
    },
    flops=lambda axes: 2 * axes["M"] * axes["N"] * axes["K"],
    bytes_read=lambda axes: _ELEMENT_BYTES * (axes["M"] + axes["N"]) * axes["K"],
    bytes_written=lambda axes: _ELEMENT_BYTES * axes["M"] * axes["N"],
    relations=(
        relations.scaled(("a",), ("c",), "scaling a by a power of two scales c exactly"),
        relations.negated(("b",), ("c",), "negating b negates c exactly"),
        relations.permuted("row_permutation", "M", _INPUTS, "permuting rows of a permutes rows of c"),
        relations.permuted("column_permutation", "N", _INPUTS, "permuting columns of b permutes columns of c"),
        relations.permuted("depth_permutation", "K", _INPUTS, "permuting the inner axis leaves c within the bound"),
        relations.padded("K", _INPUTS, "zeros along the inner axis leave c within the bound"),
        relations.alone("M", _INPUTS, "a row gives the same result alone as within a batch, within the bound"),
        Relation("freivalds", "c r = a (b r) for a random vector r of signs, at a size beyond every block", _freivalds),
    ),
    bound_source="2·u·√K·Σ|a||b| + ½ ulp + tiny: verification.md, The bound, dot products",
)
