"""The operations as libraries do them, written into `outputs` in place. Served in their own process by the library
runner, under the same protocol as candidates."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from kernel_lab.workloads.workload import Array, Arrays, Axes, Scalars

Outputs = Mapping[str, Array]
LibraryCall = Callable[[Arrays, Outputs, Axes, Scalars], None]


def absent(library: str) -> str | None:
    """`torch absent` when `library` is not installed, else None."""
    return None if find_spec(library) else f"{library} absent"


def numpy_rms_norm(inputs: Arrays, outputs: Outputs, axes: Axes, scalars: Scalars) -> None:
    """einsum sums squares without a temporary; the rest is written over y."""
    x, y = inputs["x"].astype(np.float32, copy=False), outputs["y"]
    squares = np.einsum("th,th->t", x, x)[:, None]
    scale = np.float32(1.0) / np.sqrt(squares / np.float32(axes["H"]) + np.float32(scalars["eps"]))
    np.multiply(x, scale, out=y)
    np.multiply(y, inputs["w"], out=y)


def numpy_softmax(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """Each step is written over y."""
    x, y = inputs["x"], outputs["y"]
    np.subtract(x, np.max(x, axis=1, keepdims=True), out=y)
    np.exp(y, out=y)
    np.divide(y, np.sum(y, axis=1, keepdims=True), out=y)


def numpy_reduce_sum(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """numpy's pairwise sum."""
    np.sum(inputs["x"], keepdims=True, out=outputs["y"])


def numpy_silu_mul(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """Each step is written over y."""
    g, y = inputs["g"], outputs["y"]
    np.negative(g, out=y)
    np.exp(y, out=y)
    np.add(y, np.float32(1.0), out=y)
    np.divide(g, y, out=y)
    np.multiply(y, inputs["u"], out=y)


def numpy_transpose(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """numpy's strided copy."""
    np.copyto(outputs["y"], inputs["x"].T)


def numpy_gemv(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """OpenBLAS through matmul: its gemv for one vector, its gemm for more."""
    np.matmul(inputs["x"], inputs["w"].T, out=outputs["y"])


def numpy_gemm(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """OpenBLAS through matmul."""
    np.matmul(inputs["a"], inputs["b"], out=outputs["c"])


def torch_rms_norm(inputs: Arrays, outputs: Outputs, _axes: Axes, scalars: Scalars) -> None:
    """Written over y: torch's own rms_norm takes no `out=`."""
    torch = _torch()
    x, w, y = _tensor(inputs["x"]), _tensor(inputs["w"]), _tensor(outputs["y"])
    torch.mul(x, x, out=y)
    scale = torch.rsqrt(y.mean(dim=1, keepdim=True) + scalars["eps"])
    torch.mul(x, scale, out=y)
    y.mul_(w)


def torch_softmax(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """The operator behind torch.softmax, which has an `out` form."""
    _torch().ops.aten._softmax.out(_tensor(inputs["x"]), 1, False, out=_tensor(outputs["y"]))  # noqa: FBT003, SLF001


def torch_reduce_sum(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """torch's vectorised cascade sum."""
    _torch().sum(_tensor(inputs["x"]), dim=0, keepdim=True, out=_tensor(outputs["y"]))


def torch_silu_mul(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """torch's fused SiLU, in its `out` form, then the product in place."""
    y = _tensor(outputs["y"])
    _torch().ops.aten.silu.out(_tensor(inputs["g"]), out=y)
    y.mul_(_tensor(inputs["u"]))


def torch_transpose(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """torch's strided copy, which is blocked and uses threads."""
    _tensor(outputs["y"]).copy_(_tensor(inputs["x"]).t())


def torch_gemv(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """torch's BLAS or oneDNN, whichever it was built with."""
    _torch().mm(_tensor(inputs["x"]), _tensor(inputs["w"]).t(), out=_tensor(outputs["y"]))


def torch_gemm(inputs: Arrays, outputs: Outputs, _axes: Axes, _scalars: Scalars) -> None:
    """torch's BLAS or oneDNN, whichever it was built with."""
    _torch().mm(_tensor(inputs["a"]), _tensor(inputs["b"]), out=_tensor(outputs["c"]))


def numpy_kda_decode(inputs: Arrays, outputs: Outputs, _axes: Axes, scalars: Scalars) -> None:
    """Decayed into s, predicted by batched products, corrected by one temporary of outer products."""
    np.multiply(inputs["s0"], np.exp(inputs["g"])[..., None], out=outputs["s"])
    _numpy_correct_and_read(inputs, outputs, scalars)


def numpy_kda_decode_inplace(inputs: Arrays, outputs: Outputs, _axes: Axes, scalars: Scalars) -> None:
    """As kda_decode's, with s decayed in place."""
    np.multiply(outputs["s"], np.exp(inputs["g"])[..., None], out=outputs["s"])
    _numpy_correct_and_read(inputs, outputs, scalars)


def _numpy_correct_and_read(inputs: Arrays, outputs: Outputs, scalars: Scalars) -> None:
    """s holds the corrected state in place of the decayed one, o its product with the scaled query."""
    q, k, v, beta = (inputs[name].astype(np.float32, copy=False) for name in ("q", "k", "v", "beta"))
    s = outputs["s"]
    update = beta[..., None] * (v - np.matmul(k[..., None, :], s)[..., 0, :])
    np.add(s, k[..., :, None] * update[..., None, :], out=s)
    np.matmul((q * np.float32(scalars["scale"]))[..., None, :], s, out=outputs["o"][..., None, :])


def numpy_kda_prefill(inputs: Arrays, outputs: Outputs, axes: Axes, scalars: Scalars) -> None:
    """Token by token, batched over heads."""
    s, o = outputs["s"], outputs["o"]
    s[...] = inputs["s0"]
    for t in range(axes["T"]):
        token = {name: inputs[name][:, t] for name in ("q", "k", "v", "g", "beta")}
        numpy_kda_decode_inplace(token, {"s": s, "o": o[:, t]}, axes, scalars)


def torch_kda_decode(inputs: Arrays, outputs: Outputs, _axes: Axes, scalars: Scalars) -> None:
    """Batched products over heads; the outer products are added in place."""
    torch = _torch()
    s = _tensor(outputs["s"])
    torch.mul(_tensor(inputs["s0"]), torch.exp(_tensor(inputs["g"])).unsqueeze(-1), out=s)
    _torch_correct_and_read(inputs, s, _tensor(outputs["o"]), scalars["scale"])


def torch_kda_decode_inplace(inputs: Arrays, outputs: Outputs, _axes: Axes, scalars: Scalars) -> None:
    """As kda_decode's, with s decayed in place."""
    s = _tensor(outputs["s"])
    s.mul_(_torch().exp(_tensor(inputs["g"])).unsqueeze(-1))
    _torch_correct_and_read(inputs, s, _tensor(outputs["o"]), scalars["scale"])


def _torch_correct_and_read(inputs: Arrays, s: Any, o: Any, scale: float) -> None:
    """s holds the corrected state in place of the decayed one, o its product with the scaled query."""
    torch = _torch()
    q, k, v, beta = (_tensor(inputs[name]) for name in ("q", "k", "v", "beta"))
    heads, rows, columns = k.shape[0] * k.shape[1], s.shape[-2], s.shape[-1]
    flat, keys = s.view(heads, rows, columns), k.reshape(heads, rows, 1)
    predicted = torch.bmm(keys.transpose(1, 2), flat)
    update = beta.reshape(heads, 1, 1) * (v.reshape(heads, 1, columns) - predicted)
    flat.baddbmm_(keys, update)
    o.copy_(torch.bmm(scale * q.reshape(heads, 1, rows), flat).view(o.shape))


def torch_kda_prefill(inputs: Arrays, outputs: Outputs, axes: Axes, scalars: Scalars) -> None:
    """Token by token, batched over heads."""
    s, o = outputs["s"], outputs["o"]
    s[...] = inputs["s0"]
    for t in range(axes["T"]):
        token = {name: inputs[name][:, t] for name in ("q", "k", "v", "g", "beta")}
        torch_kda_decode_inplace(token, {"s": s, "o": o[:, t]}, axes, scalars)


LIBRARY: Mapping[tuple[str, str], LibraryCall] = {
    ("rms_norm", "numpy"): numpy_rms_norm,
    ("rms_norm", "torch"): torch_rms_norm,
    ("softmax", "numpy"): numpy_softmax,
    ("softmax", "torch"): torch_softmax,
    ("reduce_sum", "numpy"): numpy_reduce_sum,
    ("reduce_sum", "torch"): torch_reduce_sum,
    ("silu_mul", "numpy"): numpy_silu_mul,
    ("silu_mul", "torch"): torch_silu_mul,
    ("transpose", "numpy"): numpy_transpose,
    ("transpose", "torch"): torch_transpose,
    ("gemv", "numpy"): numpy_gemv,
    ("gemv", "torch"): torch_gemv,
    ("gemm", "numpy"): numpy_gemm,
    ("gemm", "torch"): torch_gemm,
    ("kda_decode", "numpy"): numpy_kda_decode,
    ("kda_decode", "torch"): torch_kda_decode,
    ("kda_decode_inplace", "numpy"): numpy_kda_decode_inplace,
    ("kda_decode_inplace", "torch"): torch_kda_decode_inplace,
    ("kda_prefill", "numpy"): numpy_kda_prefill,
    ("kda_prefill", "torch"): torch_kda_prefill,
}
"""By workload and library."""
BY_BLAS = frozenset({"gemm", "gemv"})
"""What numpy hands to OpenBLAS, which uses threads; everything else in numpy uses one."""


def _torch() -> Any:
    import torch

    return torch


def _tensor(array: Array) -> Any:
    """The same memory as a tensor, read-only arrays included (torch only warns about those)."""
    return _torch().from_numpy(array)
