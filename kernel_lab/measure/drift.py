"""When a machine became another one: a jump of the baselines, which every run times, ends an epoch (measurement.md, 9).

Ratios are taken inside one pair, so drift does not bend them; but a noise floor belongs to the epoch that it was
measured in. A new epoch starts with no noise floor and a fresh calibration.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from schemas.measurement import ShapeResult

RECENT = 6
EARLIER = 12
"""Times compared with each other. Chosen: six screens are some ten seconds, and their median forgives two odd ones."""
JUMP = 0.10
"""Smallest jump, as a share of the time, that is one. Chosen: as much as a noise floor may be on a fit machine."""
SPREADS = 4.0
"""And in median absolute deviations of the earlier times. Chosen: medians of six wander by less than two of them."""
KEPT = 3 * EARLIER

Key = tuple[str, str, tuple[tuple[str, int], ...]]
"""Workload, baseline and axes: what is timed again and again."""


@dataclass(frozen=True)
class Epoch:
    """The baseline times seen since the machine last changed, as logarithms, per thing that was timed."""

    number: int = 1
    times: Mapping[Key, tuple[float, ...]] = field(default_factory=dict)

    def seen(self, workload: str, row: ShapeResult) -> "Epoch":
        """This epoch with one more baseline time, or the next one when the machine has changed."""
        key = (workload, row.baseline, tuple(sorted(row.axes.items())))
        series = (*self.times.get(key, ()), math.log(row.baseline_ns))[-KEPT:]
        if jumped(series):
            return Epoch(self.number + 1)
        return Epoch(self.number, {**self.times, key: series})


def jumped(series: tuple[float, ...]) -> bool:
    """The latest times of a series lie apart from those before them, by more than noise."""
    if len(series) < RECENT + EARLIER:
        return False
    earlier, recent = series[:-RECENT], series[-RECENT:]
    middle = median(earlier)
    spread = median(abs(value - middle) for value in earlier)
    return abs(median(recent) - middle) > max(math.log1p(JUMP), SPREADS * spread)
