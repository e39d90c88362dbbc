"""One token of Kimi Delta Attention: every head's state is decayed, corrected by one outer product, and read."""

from collections.abc import Mapping

import numpy as np

from kernel_lab.workloads import kda
from kernel_lab.workloads.kda_recurrence import by_rows, recurrent
from kernel_lab.workloads.windows import F64
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Scalars, Workload
from schemas.goal import Shape

_FORM = kda.Form(("B", "H"), "s0")
_STATE = ("B", "H", "K", "V")


def reference(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, F64]:
    """The recurrence in float64."""
    tokens, s0 = _FORM.tokens(inputs, np.float64), inputs["s0"].astype(np.float64)
    return {name: np.asarray(y) for name, y in _FORM.outputs(by_rows(recurrent, tokens, s0, scalars["scale"])).items()}


def bound(inputs: Arrays, axes: Axes, scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """8 · max(1e-5·RMS of the head, 3·rounding noise), the same for all elements of a head."""
    return _FORM.bound(inputs, scalars, exact, axes)


def index_order_f32(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, Array]:
    """Plain float32 C: decay, predict, correct, read, sums over K in index order."""
    tokens, s0 = _FORM.tokens(inputs, np.float32), inputs["s0"].astype(np.float32)
    return {name: np.asarray(y) for name, y in _FORM.outputs(by_rows(recurrent, tokens, s0, scalars["scale"])).items()}


def shape_of(b: int, h: int, k: int, v: int) -> Shape:
    """A decode shape."""
    return Shape(axes={"B": b, "H": h, "K": k, "V": v})


SMOKE_AXES: tuple[Axes, ...] = (
    *({"B": b, "H": 2, "K": 5, "V": 17} for b in (0, 1, 2, 3)),
    *({"B": 2, "H": h, "K": 8, "V": 9} for h in (1, 3, 5)),
    *({"B": 1, "H": 2, "K": k, "V": 19} for k in (1, 2, 7, 16, 17, 65)),
    *({"B": 1, "H": 2, "K": 6, "V": v} for v in (1, 2, 7, 16, 31, 33, 64, 65, 129)),
)
"""Each axis at its least, 1, 2, a prime, and around vectors and tiles."""

KDA_DECODE = Workload(
    name="kda_decode",
    summary="One token of Kimi Delta Attention, from one state to the next",
    formula="S̃ = e^g ⊙ s0; u = beta·(v − S̃ᵀk); s = S̃ + k·uᵀ; o = sᵀ(scale·q)",
    inputs=(*_FORM.vectors, Buffer("s0", _STATE)),
    outputs=(Buffer("o", ("B", "H", "V")), Buffer("s", _STATE)),
    axes=_STATE,
    scalars={"scale": kda.SCALE},
    axis_minimum={"B": 0, "H": 1, "K": 1, "V": 1},
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=kda.distributions(_FORM),
    exact=_FORM.exact(),
    smoke_axes=SMOKE_AXES,
    shapes={
        "small": (shape_of(1, 2, 64, 64), shape_of(3, 2, 32, 33), shape_of(1, 1, 128, 128)),
        "serving": (
            shape_of(1, 32, 128, 128),
            shape_of(7, 16, 96, 65),
            shape_of(8, 32, 128, 128),
            shape_of(64, 32, 128, 128),
        ),
        "large": (shape_of(1, 96, 128, 128), shape_of(5, 64, 128, 257), shape_of(64, 96, 128, 128)),
    },
    flops=kda.flops,
    bytes_read=lambda axes: kda.state_bytes(axes) + kda.vector_bytes(axes)[0],
    bytes_written=lambda axes: kda.state_bytes(axes) + kda.vector_bytes(axes)[1],
    relations=_FORM.relations,
    bound_source=kda.BOUND_SOURCE,
    windows=_FORM.windows,
)
