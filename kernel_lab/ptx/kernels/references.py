"""What each kernel should compute, in float64, with a bound on the error of honest float32 code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernel_lab.workloads.reduce_sum import REDUCE_SUM
from kernel_lab.workloads.rms_norm import RMS_NORM
from kernel_lab.workloads.softmax import SOFTMAX
from kernel_lab.workloads.workload import Workload

Array = NDArray[np.generic]
F64 = NDArray[np.float64]
Arrays = Mapping[str, Array]
Axes = Mapping[str, int]
Scalars = Mapping[str, float]

U = 2.0**-24
"""Unit roundoff of float32."""
TINY = 2.0**-149
"""The smallest float32 above zero."""
KDA_RELATIVE = 2e-5
"""Of a head's RMS. Chosen: at the gate's limit the running sum reaches −80 in a chunk of 16, where float32 has steps of
8e-6, and so have the decays; a wrong decay order is off by 0.2."""


def _f64(array: Array) -> F64:
    return array.astype(np.float64)


@dataclass(frozen=True)
class Expected:
    """The exact result and how far an honest kernel may be from it, element by element."""

    exact: F64
    bound: F64
    decode: Callable[[Array], Array] = _f64
    """From the array that the kernel wrote to values."""

    def worst(self, got: Array) -> float:
        """The largest error as a fraction of its bound: at most 1 when the result is right, inf for no number."""
        error = np.abs(_f64(self.decode(got)) - self.exact)
        ratio = np.where(error == 0.0, 0.0, error / np.maximum(self.bound, TINY))
        return float(np.nan_to_num(ratio, nan=np.inf, posinf=np.inf).max(initial=0.0))


def workload_reference(workload: Workload, inputs: Arrays, axes: Axes, scalars: Scalars) -> dict[str, Expected]:
    """The reference and bound that the factory's workload of this name declares."""
    exact = workload.reference(dict(inputs), dict(axes), dict(scalars))
    bound = workload.bound(dict(inputs), dict(axes), dict(scalars), exact)
    return {name: Expected(np.asarray(exact[name]), np.asarray(bound[name])) for name in exact}


def rms_norm(inputs: Arrays, axes: Axes, scalars: Scalars) -> dict[str, Expected]:
    """As the workload says."""
    return workload_reference(RMS_NORM, inputs, axes, scalars)


def softmax(inputs: Arrays, axes: Axes, scalars: Scalars) -> dict[str, Expected]:
    """As the workload says."""
    return workload_reference(SOFTMAX, inputs, axes, scalars)


def reduce_sum(inputs: Arrays, axes: Axes, scalars: Scalars) -> dict[str, Expected]:
    """As the workload says."""
    return workload_reference(REDUCE_SUM, inputs, axes, scalars)


def vector_add(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """y = a + b, rounded once."""
    return {"y": _rounded_once(_f64(inputs["a"]) + _f64(inputs["b"]))}


def scaled(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, Expected]:
    """y = alpha·x, rounded once."""
    return {"y": _rounded_once(scalars["alpha"] * _f64(inputs["x"]))}


def plus_one(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """y = x + 1, rounded once."""
    return {"y": _rounded_once(_f64(inputs["x"]) + 1.0)}


def silu_mul(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """y = g·sigmoid(g)·u. The exponent's rounding costs |g| units, the four operations about two each."""
    g, u = _f64(inputs["g"]), _f64(inputs["u"])
    y = g / (1.0 + np.exp(-g)) * u
    return {"y": Expected(y, U * np.abs(y) * (8.0 + 2.0 * np.abs(g)) + TINY)}


def gemm(inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """c = a·b within 2u√K·Σ|a||b|, the bound of the workload reduce_sum."""
    return {"c": _product(inputs["a"], inputs["b"], axes["K"], 0.0)}


def gemm_f16(inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """c = a·b with float32 sums, then half a unit of fp16."""
    return {"c": _product(inputs["a"], inputs["b"], axes["K"], 2.0**-11)}


def gemm_bf16(inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """c = a·b with float32 sums, then half a unit of bf16. Arrays hold bf16 bits."""
    product = _product(from_bf16(inputs["a"]), from_bf16(inputs["b"]), axes["K"], 2.0**-8)
    return {"c": replace(product, decode=from_bf16)}


def transpose(inputs: Arrays, _axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """y = xᵀ, exactly."""
    return {"y": _exactly(_f64(inputs["x"]).T)}


def histogram(inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, Expected]:
    """counts + how often each bin occurs in x, exactly."""
    found = np.bincount(inputs["x"].astype(np.int64), minlength=axes["BINS"])
    return {"counts": _exactly(_f64(inputs["counts"]) + found)}


def attention(inputs: Arrays, axes: Axes, scalars: Scalars) -> dict[str, Expected]:
    """Causal softmax(scale·q kᵀ) v. A score's error shifts its weight by as much, relatively."""
    q, k, v = (_f64(inputs[name]) for name in "qkv")
    scale, t, d = scalars["scale"], axes["T"], q.shape[-1]
    scores = np.where(np.tri(t, dtype=bool), scale * np.einsum("htd,hsd->hts", q, k), -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    score_error = U * np.sqrt(d) * scale * np.einsum("htd,hsd->hts", np.abs(q), np.abs(k)).max(axis=-1)
    spread = np.nan_to_num(scores.max(axis=-1, keepdims=True) - scores, posinf=0.0).max(axis=-1)
    relative = 2.0 * score_error + U * (16.0 + np.sqrt(t) + 2.0 * spread)
    bound = relative[..., None] * np.einsum("hts,hsd->htd", weights, np.abs(v))
    return {"o": Expected(np.einsum("hts,hsd->htd", weights, v), bound + TINY)}


def kda(inputs: Arrays, axes: Axes, scalars: Scalars) -> dict[str, Expected]:
    """The recurrence of arXiv 2510.26692, step by step: decay, predict from the decayed state, correct, read out."""
    q, k, v, g, beta = (_f64(inputs[name]) for name in ("q", "k", "v", "g", "beta"))
    state, out = _f64(inputs["s0"]).copy(), np.zeros(v.shape)
    for t in range(axes["T"]):
        state = np.exp(g[:, t])[..., None] * state
        update = beta[:, t][..., None] * (v[:, t] - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t][..., None] * update[..., None, :]
        out[:, t] = np.einsum("bhkv,bhk->bhv", state, scalars["scale"] * q[:, t])
    return {"o": _relative_to_rms(out, (1, 3)), "s": _relative_to_rms(state, (2, 3))}


def from_bf16(bits: Array) -> NDArray[np.float32]:
    """The values of bf16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(values: Array) -> NDArray[np.uint16]:
    """bf16 bits of finite float32 values, rounded to nearest even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def _exactly(exact: F64) -> Expected:
    return Expected(exact, np.zeros(exact.shape))


def _rounded_once(exact: F64) -> Expected:
    return Expected(exact, U * np.abs(exact) + TINY)


def _product(a: Array, b: Array, depth: int, output_roundoff: float) -> Expected:
    exact = _f64(a) @ _f64(b)
    sums = 2.0 * U * np.sqrt(depth) * (np.abs(_f64(a)) @ np.abs(_f64(b)))
    return Expected(exact, sums + (output_roundoff + U) * np.abs(exact) + 2.0**-25 * (output_roundoff > 0.0) + TINY)


def _relative_to_rms(exact: F64, over: tuple[int, ...]) -> Expected:
    rms = np.sqrt(np.mean(exact**2, axis=over, keepdims=True))
    return Expected(exact, np.broadcast_to(KDA_RELATIVE * rms, exact.shape))
