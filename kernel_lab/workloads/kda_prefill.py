"""A prompt of Kimi Delta Attention: the recurrence over T tokens, or the same in chunks."""

from collections.abc import Mapping

import numpy as np

from kernel_lab.workloads import kda
from kernel_lab.workloads.kda_recurrence import by_rows, recurrent
from kernel_lab.workloads.windows import F64
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Scalars, Workload
from schemas.goal import Shape

_FORM = kda.Form(("B", "T", "H"), "s0")
_STATE = ("B", "H", "K", "V")


def reference(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, F64]:
    """The recurrence in float64, token by token."""
    tokens, s0 = _FORM.tokens(inputs, np.float64), inputs["s0"].astype(np.float64)
    return {name: np.asarray(y) for name, y in _FORM.outputs(by_rows(recurrent, tokens, s0, scalars["scale"])).items()}


def bound(inputs: Arrays, axes: Axes, scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """8 · max(1e-5·RMS, 3·rounding noise) per head, and per 64 tokens of it."""
    return _FORM.bound(inputs, scalars, exact, axes)


def index_order_f32(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: token by token, sums over K in index order."""
    tokens, s0 = _FORM.tokens(inputs, np.float32), inputs["s0"].astype(np.float32)
    return {name: np.asarray(y) for name, y in _FORM.outputs(by_rows(recurrent, tokens, s0, scalars["scale"])).items()}


def _shape(b: int, t: int, h: int, k: int, v: int) -> Shape:
    return Shape(axes={"B": b, "T": t, "H": h, "K": k, "V": v})


def _axes(b: int, t: int, h: int, k: int, v: int) -> Axes:
    return {"B": b, "T": t, "H": h, "K": k, "V": v}


KDA_PREFILL = Workload(
    name="kda_prefill",
    summary="Kimi Delta Attention over a prompt, from one state to the next",
    formula="for t: S̃ = e^g ⊙ s; u = beta·(v − S̃ᵀk); s = S̃ + k·uᵀ; o = sᵀ(scale·q), from s0",
    inputs=(*_FORM.vectors, Buffer("s0", _STATE)),
    outputs=(Buffer("o", ("B", "T", "H", "V")), Buffer("s", _STATE)),
    axes=("B", "T", "H", "K", "V"),
    scalars={"scale": kda.SCALE},
    axis_minimum={"B": 0, "T": 0, "H": 1, "K": 1, "V": 1},
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=kda.distributions(_FORM),
    exact=_FORM.exact(),
    smoke_axes=(
        *(_axes(b, 3, 2, 5, 17) for b in (0, 1, 2)),
        *(_axes(3, t, 1, 8, 9) for t in (0, 1, 2, 7)),
        *(_axes(1, t, 2, 6, 7) for t in (16, 17, 33, 64, 65)),
        *(_axes(1, 5, h, 4, 8) for h in (1, 3)),
        *(_axes(1, 5, 2, k, 19) for k in (1, 2, 7, 16, 17, 65)),
        *(_axes(1, 5, 2, 6, v) for v in (1, 2, 7, 15, 16, 31, 33, 64, 65, 129)),
        _axes(4, 0, 8, 64, 65),
    ),
    shapes={
        "small": (_shape(1, 65, 2, 16, 17), _shape(2, 18, 2, 32, 48), _shape(1, 9, 1, 128, 128)),
        "serving": (
            _shape(1, 16, 32, 128, 128),
            _shape(1, 129, 8, 128, 128),
            _shape(2, 150, 4, 96, 65),
            _shape(1, 1024, 2, 128, 128),
        ),
        "large": (_shape(1, 8192, 4, 128, 128), _shape(1, 2048, 16, 128, 257), _shape(4, 1024, 16, 128, 128)),
    },
    flops=kda.flops,
    bytes_read=lambda axes: kda.state_bytes(axes) + kda.vector_bytes(axes)[0],
    bytes_written=lambda axes: kda.state_bytes(axes) + kda.vector_bytes(axes)[1],
    relations=_FORM.relations,
    bound_source=kda.BOUND_SOURCE,
    windows=_FORM.windows,
)
