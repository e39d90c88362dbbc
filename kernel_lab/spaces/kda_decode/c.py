"""kda_decode in C: from one state to the next, which streaming stores may write past the caches."""

from kernel_lab.spaces.kda_step import Operation
from kernel_lab.workloads.kda_decode import KDA_DECODE

SPACE = Operation(KDA_DECODE.name, KDA_DECODE.signature(), "s0").space()
