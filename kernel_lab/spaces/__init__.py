"""Every design space. Adding one: `kernel_lab/spaces/<op>/<language>.py` and its line here."""

from collections.abc import Mapping

from kernel_lab.spaces.gemm.c import SPACE as GEMM_C
from kernel_lab.spaces.gemv.c import SPACE as GEMV_C
from kernel_lab.spaces.kda_decode.c import SPACE as KDA_DECODE_C
from kernel_lab.spaces.kda_decode_inplace.c import SPACE as KDA_DECODE_INPLACE_C
from kernel_lab.spaces.kda_prefill.c import SPACE as KDA_PREFILL_C
from kernel_lab.spaces.null import null_space
from kernel_lab.spaces.reduce_sum.c import SPACE as REDUCE_SUM_C
from kernel_lab.spaces.rms_norm.c import SPACE as RMS_NORM_C
from kernel_lab.spaces.silu_mul.c import SPACE as SILU_MUL_C
from kernel_lab.spaces.softmax.c import SPACE as SOFTMAX_C
from kernel_lab.spaces.space import Space
from kernel_lab.spaces.transpose.c import SPACE as TRANSPOSE_C
from kernel_lab.workloads import WORKLOADS

_REAL = (
    GEMM_C,
    GEMV_C,
    KDA_DECODE_C,
    KDA_DECODE_INPLACE_C,
    KDA_PREFILL_C,
    REDUCE_SUM_C,
    RMS_NORM_C,
    SILU_MUL_C,
    SOFTMAX_C,
    TRANSPOSE_C,
)
_NULL = tuple(null_space(workload) for workload in WORKLOADS)

SPACES: Mapping[tuple[str, str], Space] = {(space.workload, space.language): space for space in (*_REAL, *_NULL)}
"""By workload and language."""
