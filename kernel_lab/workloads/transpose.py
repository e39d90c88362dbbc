"""The transpose of a matrix: data movement and nothing else, so the only right answer is the exact one."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from kernel_lab.workloads import draws, relations
from kernel_lab.workloads.bounds import F64
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
_INPUTS = (Buffer("x", ("M", "N")),)
_EXACT_MAGNITUDE = 8


def reference(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    """y = xᵀ."""
    return {"y": np.ascontiguousarray(inputs["x"].T, np.float64)}


def bound(_inputs: Arrays, _axes: Axes, _scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """0: nothing is computed, so nothing is rounded."""
    return {"y": np.zeros_like(exact["y"])}


def index_order_f32(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C moves the same values."""
    return {"y": np.ascontiguousarray(inputs["x"].T, np.float32)}


def draw_exact(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Integers in [−8, 8]."""
    shape = (axes["M"], axes["N"])
    return {"x": rng.integers(-_EXACT_MAGNITUDE, _EXACT_MAGNITUDE + 1, shape).astype(np.float32)}


def _twice(given: Arrays, axes: Axes, _rng: np.random.Generator) -> Steps:
    once = yield Call(given, axes)
    again = yield Call({"x": once["y"]}, {"M": axes["N"], "N": axes["M"]})
    return (Claim("y", again["y"], given["x"]),)


_distribution = partial(draws.first_filled, _INPUTS)
_shapes = partial(shapes_over, ("M", "N"))

TRANSPOSE = Workload(
    name="transpose",
    summary="Transpose of a matrix",
    formula="y[n,m] = x[m,n]",
    inputs=_INPUTS,
    outputs=(Buffer("y", ("N", "M")),),
    axes=("M", "N"),
    scalars={},
    axis_minimum={"M": 0, "N": 0},
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=(
        _distribution("normal", draws.normal),
        _distribution("uniform_positive", draws.uniform_positive),
        _distribution("offset", draws.offset),
        _distribution("subnormal", draws.subnormal),
        _distribution("signed_zero", draws.signed_zero),
        _distribution("large", draws.scaled_normal(2.0**120)),  # 2^120 · 6 is finite
        _distribution("one_hot", draws.one_hot),
    ),
    exact=Distribution("integers", draw_exact, zero_mean=False),
    smoke_axes=(
        *({"M": m, "N": 33} for m in (0, 1, 2, 3, 5, 16, 17, 257)),
        *({"M": 3, "N": n} for n in (0, 1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 127, 129)),
        {"M": 67, "N": 127},
        {"M": 129, "N": 65},
    ),
    shapes={
        "small": _shapes((1, 4096), (61, 1021), (128, 256)),
        "serving": _shapes((1, 4096), (512, 1024), (4096, 4096), (8191, 4097)),
        "large": _shapes((1, 1048576), (8191, 8193), (16384, 8192)),
    },
    # no arithmetic: a move counts as one operation each, so that a shape's work is never 0
    flops=lambda axes: axes["M"] * axes["N"],
    bytes_read=lambda axes: _ELEMENT_BYTES * axes["M"] * axes["N"],
    bytes_written=lambda axes: _ELEMENT_BYTES * axes["M"] * axes["N"],
    relations=(
        Relation("twice", "transposing the transpose gives x back, element for element", _twice),
        relations.scaled(("x",), ("y",), "scaling x by a power of two scales y exactly"),
        relations.permuted("row_permutation", "M", _INPUTS, "permuting rows of x permutes columns of y"),
        relations.alone("M", _INPUTS, "a row of x gives the same column alone as within a matrix"),
    ),
    bound_source="0, by value: verification.md, The bound, data movement",
)
