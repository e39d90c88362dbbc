"""The sum of a vector."""

from collections.abc import Mapping

import numpy as np

from kernel_lab.workloads import draws, relations
from kernel_lab.workloads.bounds import F64, sum_bound
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Distribution, Scalars, Workload
from schemas.goal import Shape

_ELEMENT_BYTES = 4
_INPUTS = (Buffer("x", ("N",)),)
_EXACT_MAGNITUDE = 8
_EXACT_TERMS = 2**24 // _EXACT_MAGNITUDE - 1
"""Most terms of magnitude 8 with Σ|x| < 2^24: every partial sum in any order is an exact float32."""


def reference(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    """y = Σ x in float64."""
    return {"y": np.array([inputs["x"].sum(dtype=np.float64)])}


def bound(inputs: Arrays, axes: Axes, _scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """2·u·√N·Σ|x| + ½ ulp."""
    condition = np.array([np.abs(inputs["x"]).sum(dtype=np.float64)])
    return {"y": sum_bound(exact["y"], condition, axes["N"])}


def index_order_f32(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: terms added one after another."""
    x = inputs["x"].astype(np.float32)
    total = np.add.accumulate(x, dtype=np.float32)[-1:]
    return {"y": total if x.size else np.zeros(1, np.float32)}


def draw_exact(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
    """Integers in [−8, 8], thinned out above 2^21 terms so that Σ|x| stays below 2^24."""
    x = rng.integers(-_EXACT_MAGNITUDE, _EXACT_MAGNITUDE + 1, axes["N"]).astype(np.float32)
    stride = -(-axes["N"] // _EXACT_TERMS)
    if stride > 1:
        kept = np.arange(int(rng.integers(stride)), axes["N"], stride)[:_EXACT_TERMS]
        thin = np.zeros_like(x)
        thin[kept] = x[kept]
        return {"x": thin}
    return {"x": x}


def _distribution(name: str, fill: draws.Fill) -> Distribution:
    def draw(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
        return {"x": fill((axes["N"],), rng)}

    return Distribution(name, draw, zero_mean=name in draws.ZERO_MEAN)


def _shapes(*sizes: int) -> tuple[Shape, ...]:
    return tuple(Shape(axes={"N": n}) for n in sizes)


REDUCE_SUM = Workload(
    name="reduce_sum",
    summary="Sum of a vector",
    formula="y = Σ_n x[n]",
    inputs=_INPUTS,
    outputs=(Buffer("y", (1,)),),
    axes=("N",),
    scalars={},
    axis_minimum={"N": 0},
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
        _distribution("large", draws.scaled_normal(2.0**90)),  # any partial sum of 2^32 terms stays finite
        _distribution("one_hot", draws.one_hot),
    ),
    exact=Distribution("integers", draw_exact, zero_mean=False),
    smoke_axes=tuple({"N": n} for n in (0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 63, 64, 65, 127, 129, 257, 1021, 4095, 4097)),
    shapes={
        "small": _shapes(4096, 65537, 131072),
        "serving": _shapes(65536, 1048577, 2**25, 2**26),
        "large": _shapes(65536, 2**26 + 1, 2**27),
    },
    flops=lambda axes: axes["N"],
    bytes_read=lambda axes: _ELEMENT_BYTES * axes["N"],
    bytes_written=lambda _axes: _ELEMENT_BYTES,
    relations=(
        relations.scaled(("x",), ("y",), "scaling x by a power of two scales y exactly"),
        relations.negated(("x",), ("y",), "negating x negates y exactly"),
        relations.permuted("permutation", "N", _INPUTS, "permuting x leaves y unchanged within the bound"),
        relations.padded("N", _INPUTS, "zeros among x leave y unchanged within the bound"),
    ),
    bound_source="2·u·√N·Σ|x| + ½ ulp: verification.md, The bound, sums",
)
