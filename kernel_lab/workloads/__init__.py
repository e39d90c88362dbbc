"""Every operation that Assay knows. Adding one: a file in this folder, its spaces, and its line here."""

from collections.abc import Mapping

from kernel_lab.workloads.gemm import GEMM
from kernel_lab.workloads.gemv import GEMV
from kernel_lab.workloads.kda_decode import KDA_DECODE
from kernel_lab.workloads.kda_decode_inplace import KDA_DECODE_INPLACE
from kernel_lab.workloads.kda_prefill import KDA_PREFILL
from kernel_lab.workloads.reduce_sum import REDUCE_SUM
from kernel_lab.workloads.rms_norm import RMS_NORM
from kernel_lab.workloads.silu_mul import SILU_MUL
from kernel_lab.workloads.softmax import SOFTMAX
from kernel_lab.workloads.transpose import TRANSPOSE
from kernel_lab.workloads.workload import Workload

WORKLOADS: Mapping[str, Workload] = {
    "rms_norm": RMS_NORM,
    "softmax": SOFTMAX,
    "reduce_sum": REDUCE_SUM,
    "silu_mul": SILU_MUL,
    "transpose": TRANSPOSE,
    "gemv": GEMV,
    "gemm": GEMM,
    "kda_decode": KDA_DECODE,
    "kda_decode_inplace": KDA_DECODE_INPLACE,
    "kda_prefill": KDA_PREFILL,
}
