"""Every design space. Adding one: `kernel_lab/spaces/<op>/<language>.py` and its line here."""

from collections.abc import Mapping

from kernel_lab.spaces.null import null_space
from kernel_lab.spaces.space import Space
from kernel_lab.workloads import WORKLOADS

_NULL = tuple(null_space(workload) for workload in WORKLOADS)

SPACES: Mapping[tuple[str, str], Space] = {(space.workload, space.language): space for space in _NULL}
"""By workload and language."""
