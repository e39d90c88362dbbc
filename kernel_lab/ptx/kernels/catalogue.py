"""Our kernels. To add one: an entry here, its source in `cuda/`, and `python -m kernel_lab.ptx.kernels.build`."""

import numpy as np

from kernel_lab.ptx.kernels import draws, references
from kernel_lab.ptx.kernels.problem import Kernel, Pointer
from kernel_lab.ptx.launch import Role

_TOKENS = ("B", "T", "H")


def _pointers(role: Role, **shapes: tuple[str | int, ...]) -> tuple[Pointer, ...]:
    return tuple(Pointer(name, role, shape) for name, shape in shapes.items())


def _matrices(dtype: type[np.generic]) -> tuple[Pointer, ...]:
    return (
        Pointer("a", "in", ("M", "K"), dtype),
        Pointer("b", "in", ("K", "N"), dtype),
        Pointer("c", "out", ("M", "N"), dtype),
    )


VECTOR_ADD = Kernel(
    name="vector_add",
    source="vector_add",
    entry="vector_add",
    pointers=_pointers("in", a=("N",), b=("N",)) + _pointers("out", y=("N",)),
    axes=("N",),
    draw=draws.normals(a=("N",), b=("N",)),
    reference=references.vector_add,
    sizes=({"N": 1000}, {"N": 1}, {"N": 513}),
)

SILU_MUL = Kernel(
    name="silu_mul",
    source="silu_mul",
    entry="silu_mul",
    pointers=_pointers("in", g=("T", "I"), u=("T", "I")) + _pointers("out", y=("T", "I")),
    axes=("T", "I"),
    draw=draws.normals(g=("T", "I"), u=("T", "I")),
    reference=references.silu_mul,
    sizes=({"T": 3, "I": 516}, {"T": 2, "I": 1021}, {"T": 1, "I": 3}),
)

RMS_NORM = Kernel(
    name="rms_norm",
    source="rms_norm",
    entry="rms_norm",
    pointers=_pointers("in", x=("T", "H"), w=("H",)) + _pointers("out", y=("T", "H")),
    axes=("T", "H"),
    scalars={"eps": 1e-5},
    draw=draws.normals(x=("T", "H"), w=("H",)),
    reference=references.rms_norm,
    sizes=({"T": 3, "H": 1021}, {"T": 2, "H": 7}),
)

SOFTMAX = Kernel(
    name="softmax",
    source="softmax",
    entry="softmax",
    pointers=_pointers("in", x=("R", "C")) + _pointers("out", y=("R", "C")),
    axes=("R", "C"),
    draw=draws.normals(x=("R", "C")),
    reference=references.softmax,
    sizes=({"R": 5, "C": 1021}, {"R": 2, "C": 3}),
)

REDUCE_SUM = Kernel(
    name="reduce_sum",
    source="reduce_sum",
    entry="reduce_sum",
    pointers=_pointers("in", x=("N",)) + _pointers("out", y=(1,)),
    axes=("N",),
    draw=draws.normals(x=("N",)),
    reference=references.reduce_sum,
    sizes=({"N": 4099}, {"N": 1}),
)

GEMM = Kernel(
    name="gemm",
    source="gemm",
    entry="gemm",
    pointers=_pointers("in", a=("M", "K"), b=("K", "N")) + _pointers("out", c=("M", "N")),
    axes=("M", "N", "K"),
    draw=draws.normals(a=("M", "K"), b=("K", "N")),
    reference=references.gemm,
    sizes=({"M": 64, "N": 32, "K": 48}, {"M": 37, "N": 41, "K": 19}),
)

GEMM_F16 = Kernel(
    name="gemm_f16",
    source="gemm_tensor",
    entry="gemm_f16",
    pointers=_matrices(np.float16),
    axes=("M", "N", "K"),
    draw=draws.halves,
    reference=references.gemm_f16,
    sizes=({"M": 128, "N": 64, "K": 96}, {"M": 67, "N": 72, "K": 40}, {"M": 33, "N": 19, "K": 37}),
)

GEMM_BF16 = Kernel(
    name="gemm_bf16",
    source="gemm_tensor",
    entry="gemm_bf16",
    pointers=_matrices(np.uint16),
    axes=("M", "N", "K"),
    draw=draws.bf16s,
    reference=references.gemm_bf16,
    sizes=({"M": 64, "N": 64, "K": 64}, {"M": 67, "N": 72, "K": 40}, {"M": 33, "N": 19, "K": 37}),
)

TRANSPOSE = Kernel(
    name="transpose",
    source="transpose",
    entry="transpose",
    pointers=_pointers("in", x=("M", "N")) + _pointers("out", y=("N", "M")),
    axes=("M", "N"),
    draw=draws.normals(x=("M", "N")),
    reference=references.transpose,
    sizes=({"M": 64, "N": 32}, {"M": 37, "N": 71}),
)

ATTENTION = Kernel(
    name="attention",
    source="attention",
    entry="attention",
    pointers=_pointers("in", q=("H", "T", 64), k=("H", "T", 64), v=("H", "T", 64)) + _pointers("out", o=("H", "T", 64)),
    axes=("H", "T"),
    scalars={"scale": 0.125},
    draw=draws.normals(q=("H", "T", 64), k=("H", "T", 64), v=("H", "T", 64)),
    reference=references.attention,
    sizes=({"H": 2, "T": 45}, {"H": 1, "T": 64}),
)

_KDA_POINTERS = (
    *_pointers("in", q=(*_TOKENS, "K"), k=(*_TOKENS, "K"), v=(*_TOKENS, "V"), g=(*_TOKENS, "K")),
    *_pointers("in", beta=_TOKENS, s0=("B", "H", "K", "V")),
    *_pointers("out", o=(*_TOKENS, "V"), s=("B", "H", "K", "V")),
)

KDA_RECURRENT = Kernel(
    name="kda_recurrent",
    source="kda_recurrent",
    entry="kda_prefill",
    pointers=_KDA_POINTERS,
    axes=("B", "T", "H", "K", "V"),
    scalars={"scale": 0.125},
    draw=draws.kda,
    reference=references.kda,
    sizes=({"B": 1, "T": 19, "H": 2, "K": 64, "V": 48}, {"B": 2, "T": 9, "H": 1, "K": 37, "V": 21}),
)

KDA_CHUNKED = Kernel(
    name="kda_chunked",
    source="kda_chunked",
    entry="kda_prefill",
    pointers=_KDA_POINTERS,
    axes=("B", "T", "H", "K", "V"),
    scalars={"scale": 0.125},
    draw=draws.kda,
    reference=references.kda,
    sizes=({"B": 1, "T": 37, "H": 2, "K": 64, "V": 48}, {"B": 2, "T": 16, "H": 1, "K": 37, "V": 21}),
)

HISTOGRAM = Kernel(
    name="histogram",
    source="histogram",
    entry="histogram",
    pointers=(Pointer("x", "in", ("N",), np.int32), Pointer("counts", "inout", ("BINS",), np.uint32)),
    axes=("N", "BINS"),
    draw=draws.bins,
    reference=references.histogram,
    sizes=({"N": 3000, "BINS": 37}, {"N": 5, "BINS": 300}),
)

PIPELINE = Kernel(
    name="pipeline",
    source="pipeline",
    entry="pipeline",
    pointers=_pointers("in", x=("N",)) + _pointers("out", y=("N",)),
    axes=("N",),
    scalars={"alpha": 1.7},
    draw=draws.normals(x=("N",)),
    reference=references.scaled,
    sizes=({"N": 2048}, {"N": 1501}),
)

BULK_PIPELINE = Kernel(
    name="bulk_pipeline",
    source="bulk_pipeline",
    entry="bulk_pipeline",
    pointers=_pointers("in", x=("N",)) + _pointers("out", y=("N",)),
    axes=("N",),
    scalars={"alpha": 1.7},
    draw=draws.normals(x=("N",)),
    reference=references.scaled,
    sizes=({"N": 2048}, {"N": 1500}),
    architectures=("sm_90", "sm_100"),
)

HANDOFF = Kernel(
    name="handoff",
    source="handoff",
    entry="handoff",
    pointers=_pointers("in", x=("N",)) + _pointers("out", y=("N",)),
    axes=("N",),
    draw=draws.normals(x=("N",)),
    reference=references.plus_one,
    sizes=({"N": 512}, {"N": 301}),
)

KERNELS = (
    VECTOR_ADD,
    SILU_MUL,
    RMS_NORM,
    SOFTMAX,
    REDUCE_SUM,
    GEMM,
    GEMM_F16,
    GEMM_BF16,
    TRANSPOSE,
    ATTENTION,
    KDA_RECURRENT,
    KDA_CHUNKED,
    HISTOGRAM,
    PIPELINE,
    BULK_PIPELINE,
    HANDOFF,
)
