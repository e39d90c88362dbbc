"""SiLU times a second factor, element by element: the gate of a feed-forward layer."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from kernel_lab.workloads import draws, relations
from kernel_lab.workloads.bounds import F64, SUBNORMAL_SPACING, UNIT_ROUNDOFF, half_ulp
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Scalars, Workload, shapes_over

_ELEMENT_BYTES = 4
_INPUTS = (Buffer("g", ("T", "I")), Buffer("u", ("T", "I")))
_FINITE_POWER = 700.0
"""e^700 is a finite float64; beyond it sigmoid(−g) is 0 for every purpose here."""


def reference(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    """y = g · sigmoid(g) · u in float64."""
    g, u = inputs["g"].astype(np.float64), inputs["u"].astype(np.float64)
    return {"y": g / (1.0 + np.exp(-g)) * u}


def bound(inputs: Arrays, _axes: Axes, _scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """u·|y|·4(2 + |g|·sigmoid(−g)) + ½ ulp + tiny.

    The exponential's relative error grows with its argument (e^g as 2^(g·log₂e) rounds the product), and reaches the
    result by the share e^−g / (1 + e^−g) = sigmoid(−g). tiny: g·sigmoid(g) may be subnormal before it is multiplied by
    u, or u·sigmoid(g) before g, so half a spacing is scaled by |u| or |g|.
    """
    g, u = inputs["g"].astype(np.float64), inputs["u"].astype(np.float64)
    relative = 4.0 * (2.0 + np.abs(g) / (1.0 + np.exp(np.minimum(g, _FINITE_POWER))))
    tiny = SUBNORMAL_SPACING * (1.0 + np.abs(g) + np.abs(u))
    return {"y": UNIT_ROUNDOFF * np.abs(exact["y"]) * relative + half_ulp(exact["y"]) + tiny}


def index_order_f32(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: one exponential, one division, one product each."""
    g, u = inputs["g"].astype(np.float32), inputs["u"].astype(np.float32)
    return {"y": g / (np.float32(1.0) + np.exp(-g)) * u}


_distribution = partial(draws.first_filled, _INPUTS)
_shapes = partial(shapes_over, ("T", "I"))

SILU_MUL = Workload(
    name="silu_mul",
    summary="SiLU of a gate times a second factor, element by element",
    formula="y[t,i] = g[t,i] · sigmoid(g[t,i]) · u[t,i]",
    inputs=_INPUTS,
    outputs=(Buffer("y", ("T", "I")),),
    axes=("T", "I"),
    scalars={},
    axis_minimum={"T": 0, "I": 0},
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=(
        _distribution("normal", draws.normal),
        _distribution("uniform_positive", draws.uniform_positive),
        _distribution("offset", draws.offset),
        _distribution("lognormal_outliers", draws.lognormal_outliers),
        _distribution("subnormal", draws.subnormal),
        _distribution("signed_zero", draws.signed_zero),
        # e^-g overflows below -88, where plain C gives 0 for a normal result: more than 7 standard deviations away
        _distribution("large", draws.scaled_normal(12.0)),
        _distribution("one_hot", draws.one_hot),
    ),
    exact=None,
    smoke_axes=(
        *({"T": t, "I": 33} for t in (0, 1, 2, 3, 5)),
        *({"T": 3, "I": i} for i in (0, 1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 127, 129, 257, 1023, 1025)),
    ),
    shapes={
        "small": _shapes((1, 4096), (17, 1021), (64, 1024)),
        "serving": _shapes((1, 14336), (16, 14336), (511, 8193), (4096, 8192)),
        "large": _shapes((1, 14336), (511, 14337), (4096, 14336)),
    },
    flops=lambda axes: 5 * axes["T"] * axes["I"],
    bytes_read=lambda axes: 2 * _ELEMENT_BYTES * axes["T"] * axes["I"],
    bytes_written=lambda axes: _ELEMENT_BYTES * axes["T"] * axes["I"],
    relations=(
        relations.scaled(("u",), ("y",), "scaling u by a power of two scales y exactly"),
        relations.negated(("u",), ("y",), "negating u negates y exactly"),
        relations.permuted("row_permutation", "T", _INPUTS, "permuting rows of g and u alike permutes rows of y"),
        relations.permuted("column_permutation", "I", _INPUTS, "permuting columns of both permutes columns of y"),
        relations.alone("T", _INPUTS, "a row gives the same result alone as within a batch, within the bound"),
    ),
    bound_source="u·|y|·4(2 + |g|·sigmoid(−g)) + ½ ulp + tiny: derived in bound(), as verification.md asks",
)
