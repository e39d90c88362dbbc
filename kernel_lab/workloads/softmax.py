"""Softmax over rows."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from kernel_lab.workloads import draws, relations
from kernel_lab.workloads.bounds import F64, softmax_bound
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
_INPUTS = (Buffer("x", ("R", "C")),)
_SHIFTS = (100.0, 8192.0, 65536.0)
"""Chosen: far beyond where an exponential of an unshifted number overflows or vanishes."""


def _below_max(inputs: Arrays) -> F64:
    x = inputs["x"].astype(np.float64)
    return np.asarray(x.max(axis=1, keepdims=True) - x)


def reference(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    """y = e^{x − max} / Σ e^{x − max} in float64."""
    powers = np.exp(-_below_max(inputs))
    return {"y": powers / powers.sum(axis=1, keepdims=True)}


def bound(inputs: Arrays, axes: Axes, _scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """u·y·(4(1 + |x − max|) + 2√C) + ½ ulp + tiny."""
    return {"y": softmax_bound(exact["y"], _below_max(inputs), axes["C"])}


def index_order_f32(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: maximum, exponentials added one after another, one division each."""
    x = inputs["x"].astype(np.float32)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": powers / np.add.accumulate(powers, axis=1, dtype=np.float32)[:, -1:]}


def _distribution(name: str, fill: draws.Fill) -> Distribution:
    def draw(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
        return {"x": fill((axes["R"], axes["C"]), rng)}

    return Distribution(name, draw, zero_mean=name in draws.ZERO_MEAN - {"large"})


def _one_hot(shape: tuple[int, ...], rng: np.random.Generator) -> draws.F32:
    """One 40 per row among zeros. With a 1, C equal powers e^-1 would round the same way in index order, and honest
    code would break √C."""
    return draws.one_hot(shape, rng) * np.float32(40.0)


def _bounded_outliers(shape: tuple[int, ...], rng: np.random.Generator) -> draws.F32:
    """Outlier channels within ±8. With a gap of 15 and more to the maximum, the other powers are a few ulp of the sum
    and nearly equal, so they round the same way: plain C in index order broke √C in 8 of 40 draws at 64×512, in none of
    300 like this."""
    return np.clip(draws.lognormal_outliers(shape, rng), np.float32(-8.0), np.float32(8.0))


def _shifted(given: Arrays, axes: Axes, rng: np.random.Generator) -> Steps:
    """The shifted inputs are rounded, so they are judged as what they are."""
    for shift in (-rng.choice(_SHIFTS), rng.choice(_SHIFTS)):
        yield Call({"x": np.add(given["x"], np.float32(shift))}, axes)
    return ()


_shapes = partial(shapes_over, ("R", "C"))

SOFTMAX = Workload(
    name="softmax",
    summary="Softmax over rows",
    formula="y[r,c] = exp(x[r,c] − max_c x[r,c]) / Σ_c exp(x[r,c] − max_c x[r,c])",
    inputs=_INPUTS,
    outputs=(Buffer("y", ("R", "C")),),
    axes=("R", "C"),
    scalars={},
    axis_minimum={"R": 0, "C": 1},
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=(
        _distribution("normal", draws.normal),
        _distribution("uniform_positive", draws.uniform_positive),
        _distribution("offset", draws.offset),
        _distribution("lognormal_outliers", _bounded_outliers),
        _distribution("cancelling_pairs", draws.cancelling_pairs),
        _distribution("subnormal", draws.subnormal),
        _distribution("signed_zero", draws.signed_zero),
        _distribution("large", draws.scaled_normal(40.0)),  # gaps of 87 to 104 give subnormal results
        _distribution("one_hot", _one_hot),
        _distribution("ties", draws.ties),
    ),
    exact=None,
    smoke_axes=(
        *({"R": r, "C": 33} for r in (0, 1, 2, 3, 5)),
        *({"R": 3, "C": c} for c in (1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 127, 129, 257)),
    ),
    shapes={
        "small": _shapes((1, 8192), (13, 1021), (64, 512)),
        "serving": _shapes((1, 128256), (63, 4097), (2048, 1024), (32768, 1024)),
        "large": _shapes((1, 393216), (127, 50257), (16, 393216), (512, 128256)),
    },
    flops=lambda axes: 5 * axes["R"] * axes["C"],
    bytes_read=lambda axes: _ELEMENT_BYTES * axes["R"] * axes["C"],
    bytes_written=lambda axes: _ELEMENT_BYTES * axes["R"] * axes["C"],
    relations=(
        Relation("shift", "adding a constant to every element leaves y unchanged within the bound", _shifted),
        relations.permuted("row_permutation", "R", _INPUTS, "permuting rows of x permutes rows of y within the bound"),
        relations.alone("R", _INPUTS, "a row gives the same result alone as within a batch, within the bound"),
        relations.permuted("column_permutation", "C", _INPUTS, "permuting columns of x permutes columns of y"),
    ),
    bound_source="u·y·(4(1 + |x − max|) + 2√C) + ½ ulp + tiny: verification.md, The bound, softmax and sums; ADR 0022",
    shared_axes=("C",),
)
