"""The error-class rule: on zero-mean draws a kernel errs like f32 arithmetic, not like a smaller format.

RMS error pooled over at least 256 outputs of at least 12 reductions <= 4 * max(RMS of plain C f32 in index order,
1/2 ulp). It catches tf32 (125-1000 times) and bf16 (1000-8000 times), which any fixed tolerance passes
(verification.md, The bound).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernel_lab.verify.draws import Prepared, outputs_of, trials_of
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads.workload import Array, Axes, Workload
from schemas.enums import Reason

POOLED_OUTPUTS = 256
"""Fewest outputs that give a class rather than luck."""
POOLED_TRIALS = 12
"""Fewest that err independently. Outputs of a row share the error of its sum, and now and then plain index order is
right by luck: a single row in some hundreds would refuse honest kernels, twelve rows one in 10^5 (chi squared: the root
mean square of twelve is seldom below a quarter of what it should be)."""
FACTOR = 4.0
"""How many times plain index-order f32 an honest reordering may err."""


def draws_needed(workload: Workload, axes: Axes) -> int:
    """How many draws at `axes` make a pool that gives a class."""
    return max(
        -(-POOLED_OUTPUTS // max(1, outputs_of(workload, axes))),
        -(-POOLED_TRIALS // max(1, trials_of(workload, axes))),
    )


@dataclass
class Pool:
    """Squared errors of one distribution at one size and thread count."""

    outputs: int = 0
    trials: int = 0
    squared: float = 0.0
    yardstick_squared: float = 0.0
    half_ulp_squared: float = 0.0
    last: Prepared | None = None

    def add(self, prepared: Prepared, got: Mapping[str, Array]) -> None:
        """The finite outputs of one draw are in the pool."""
        with np.errstate(all="ignore"):
            for name, want in prepared.reference.items():
                finite = np.isfinite(want) & np.isfinite(got[name]) & np.isfinite(prepared.index_order[name])
                exact = want[finite]
                self.outputs += exact.size
                self.squared += float(np.sum((got[name][finite].astype(np.float64) - exact) ** 2))
                yardstick = prepared.index_order[name][finite].astype(np.float64)
                self.yardstick_squared += float(np.sum((yardstick - exact) ** 2))
                half_ulp = np.abs(np.spacing(exact.astype(np.float32))).astype(np.float64) / 2
                self.half_ulp_squared += float(np.sum(half_ulp**2))
        self.trials += trials_of(prepared.workload, prepared.draw.axes)
        self.last = prepared

    def verdict(self, distribution: str, threads: int, scale: float) -> Finding | None:
        """The finding, when the pool is large enough and errs beyond its class. A looser goal loosens this too."""
        if self.outputs < POOLED_OUTPUTS or self.trials < POOLED_TRIALS or self.last is None:
            return None
        allowed = FACTOR * max(1.0, scale) * np.sqrt(max(self.yardstick_squared, self.half_ulp_squared) / self.outputs)
        rms = float(np.sqrt(self.squared / self.outputs))
        if rms <= allowed:
            return None
        message = (
            f"RMS error {rms:.3g} over {self.outputs} outputs of {distribution} draws at {threads} threads; f32 allows "
            f"{allowed:.3g}: is part of it computed in a smaller format?"
        )
        return Finding(Reason.ERROR_CLASS, message, None, self.last.draw.kept(self.last.workload.name))
