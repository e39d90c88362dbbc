"""One token of Kimi Delta Attention that replaces each head's state by the next: one buffer, read and written."""

from collections.abc import Mapping

import numpy as np

from kernel_lab.workloads import kda
from kernel_lab.workloads.kda_decode import KDA_DECODE
from kernel_lab.workloads.kda_recurrence import by_rows, recurrent
from kernel_lab.workloads.windows import F64
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Scalars, Workload

_FORM = kda.Form(("B", "H"), "s")


def reference(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, F64]:
    """The recurrence in float64, from the state that s held."""
    tokens, s0 = _FORM.tokens(inputs, np.float64), inputs["s"].astype(np.float64)
    return {name: np.asarray(y) for name, y in _FORM.outputs(by_rows(recurrent, tokens, s0, scalars["scale"])).items()}


def bound(inputs: Arrays, axes: Axes, scalars: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
    """As kda_decode's."""
    return _FORM.bound(inputs, scalars, exact, axes)


def index_order_f32(inputs: Arrays, _axes: Axes, scalars: Scalars) -> dict[str, Array]:
    """As kda_decode's: what is replaced is not read again."""
    tokens, s0 = _FORM.tokens(inputs, np.float32), inputs["s"].astype(np.float32)
    return {name: np.asarray(y) for name, y in _FORM.outputs(by_rows(recurrent, tokens, s0, scalars["scale"])).items()}


KDA_DECODE_INPLACE = Workload(
    name="kda_decode_inplace",
    summary="One token of Kimi Delta Attention, the state replaced in place",
    formula="S̃ = e^g ⊙ s; u = beta·(v − S̃ᵀk); s ← S̃ + k·uᵀ; o = sᵀ(scale·q)",
    inputs=_FORM.vectors,
    outputs=(Buffer("s", ("B", "H", "K", "V"), in_out=True), Buffer("o", ("B", "H", "V"))),
    axes=KDA_DECODE.axes,
    scalars=KDA_DECODE.scalars,
    axis_minimum=KDA_DECODE.axis_minimum,
    reference=reference,
    bound=bound,
    index_order_f32=index_order_f32,
    distributions=kda.distributions(_FORM),
    exact=_FORM.exact(),
    smoke_axes=KDA_DECODE.smoke_axes,
    shapes=KDA_DECODE.shapes,
    flops=KDA_DECODE.flops,
    bytes_read=KDA_DECODE.bytes_read,
    bytes_written=KDA_DECODE.bytes_written,
    relations=_FORM.relations,
    bound_source=kda.BOUND_SOURCE,
    windows=_FORM.windows,
)
