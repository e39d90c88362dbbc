"""kda_decode_inplace in C: the state's own lines are written back, or past the caches by streaming stores."""

from kernel_lab.spaces.kda_step import Operation
from kernel_lab.workloads.kda_decode_inplace import KDA_DECODE_INPLACE

SPACE = Operation(KDA_DECODE_INPLACE.name, KDA_DECODE_INPLACE.signature(), "s").space()
