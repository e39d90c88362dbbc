"""RMS norm: each row divided by its root mean square, times a weight per column."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from kernel_lab.workloads import draws, relations
from kernel_lab.workloads.bounds import F64, SUBNORMAL_SPACING, norm_bound
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Scalars, Workload, shapes_over

_ELEMENT_BYTES = 4
_INPUTS = (Buffer("x", ("T", "H")), Buffer("w", ("H",)))


def _reciprocal_rms(x: F64, eps: float) -> F64:
    return np.asarray(1.0 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float64(np.float32(eps))))


def reference(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, F64]:
    """y = x · rsqrt(mean x² + eps) · w in float64; eps is the float32 that a candidate is given."""
    x, w = inputs["x"].astype(np.float64), inputs["w"].astype(np.float64)
    return {"y": x * _reciprocal_rms(x, scalars["eps"]) * w}


def bound(inputs: Arrays, axes: Axes, scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """u·|y|·(4 + √H) + ½ ulp + tiny.

    tiny: x·r may be subnormal before it is multiplied by w, or x·w before r, so half a spacing is scaled by |w| or r.
    Squares that underflow do not matter: they vanish against eps.
    """
    x, w = inputs["x"].astype(np.float64), inputs["w"].astype(np.float64)
    tiny = SUBNORMAL_SPACING * (1.0 + np.abs(w) + _reciprocal_rms(x, scalars["eps"]))
    return {"y": norm_bound(exact["y"], axes["H"], tiny)}


def index_order_f32(inputs: Arrays, axes: Axes, scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: squares added one after another, then one multiplication each by r and w."""
    x, w = inputs["x"].astype(np.float32), inputs["w"].astype(np.float32)
    squares = np.add.accumulate(x * x, axis=1, dtype=np.float32)[:, -1:]
    r = np.float32(1.0) / np.sqrt(squares / np.float32(axes["H"]) + np.float32(scalars["eps"]))
    return {"y": x * r * w}


_distribution = partial(draws.first_filled, _INPUTS)
_shapes = partial(shapes_over, ("T", "H"))

RMS_NORM = Workload(
    name="rms_norm",
    summary="Root-mean-square normalisation of rows, times a weight per column",
    formula="y[t,h] = x[t,h] · rsqrt(mean_h(x[t,h]²) + eps) · w[h]",
    inputs=_INPUTS,
    outputs=(Buffer("y", ("T", "H")),),
    axes=("T", "H"),
    scalars={"eps": 1e-5},
    axis_minimum={"T": 0, "H": 1},
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=(
        _distribution("normal", draws.normal),
        _distribution("uniform_positive", draws.uniform_positive),
        _distribution("offset", draws.offset),
        _distribution("lognormal_outliers", draws.lognormal_outliers),
        _distribution("cancelling_pairs", draws.cancelling_pairs),
        _distribution("subnormal", draws.subnormal),
        _distribution("signed_zero", draws.signed_zero),
        _distribution("large", draws.scaled_normal(2.0**48)),  # x² < 2^102: finite in f32 for any H below 2^25
        _distribution("one_hot", draws.one_hot),
    ),
    exact=None,
    smoke_axes=(
        *({"T": t, "H": 33} for t in (0, 1, 2, 3, 5)),
        *({"T": 3, "H": h} for h in (1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 127, 129, 257)),
        {"T": 0, "H": 270_000},
    ),
    shapes={
        "small": _shapes((1, 4096), (17, 1021), (64, 1024)),
        "serving": _shapes((1, 4096), (16, 4096), (511, 2305), (4096, 4096)),
        "large": _shapes((1, 7168), (1023, 7169), (4096, 7168), (16384, 4096)),
    },
    flops=lambda axes: 4 * axes["T"] * axes["H"],
    bytes_read=lambda axes: _ELEMENT_BYTES * (axes["T"] * axes["H"] + axes["H"]),
    bytes_written=lambda axes: _ELEMENT_BYTES * axes["T"] * axes["H"],
    relations=(
        relations.scaled(("w",), ("y",), "scaling w by a power of two scales y exactly"),
        relations.negated(("x",), ("y",), "negating x negates y exactly"),
        relations.permuted("row_permutation", "T", _INPUTS, "permuting rows of x permutes rows of y within the bound"),
        relations.permuted("column_permutation", "H", _INPUTS, "permuting columns of x and w permutes those of y"),
        relations.alone("T", _INPUTS, "a row gives the same result alone as within a batch, within the bound"),
    ),
    bound_source="u·|y|·(4 + √H) + ½ ulp + tiny: verification.md, The bound, norms",
    shared_axes=("H",),
)
