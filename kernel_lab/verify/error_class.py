"""The error-class rule: on zero-mean draws a kernel errs like f32 arithmetic, not like a smaller format.

RMS error pooled over at least 256 outputs <= 4 * max(RMS of plain C f32 in index order, 1/2 ulp). It catches tf32
(125-1000 times) and bf16 (1000-8000 times), which any fixed tolerance passes (verification.md, The bound).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernel_lab.verify.draws import Prepared
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads.workload import Array
from schemas.enums import Reason

POOLED_OUTPUTS = 256
"""Fewest outputs that give a class rather than luck."""
FACTOR = 4.0
"""How many times plain index-order f32 an honest reordering may err."""


@dataclass
class Pool:
    """Squared errors of one distribution at one size and thread count."""

    outputs: int = 0
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
        self.last = prepared

    def verdict(self, distribution: str, threads: int, scale: float) -> Finding | None:
        """The finding, when the pool is large enough and errs beyond its class. A looser goal loosens this too."""
        if self.outputs < POOLED_OUTPUTS or self.last is None:
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
