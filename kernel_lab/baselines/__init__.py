"""The strongest available competitors of a candidate."""

from kernel_lab.baselines.contender import ContenderSpec, c_source, contenders, previous_champion, vector_widths
from kernel_lab.baselines.library import LIBRARY, LibraryCall, absent

__all__ = [
    "LIBRARY",
    "ContenderSpec",
    "LibraryCall",
    "absent",
    "c_source",
    "contenders",
    "previous_champion",
    "vector_widths",
]
