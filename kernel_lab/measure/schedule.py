"""The order in which things are timed, purely: given a generator, everything is decided before the first call."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.enums import Regime

Side = Literal["candidate", "baseline"]
SIDES: tuple[Side, ...] = ("candidate", "baseline")
Refresh = Literal["same_pointers", "new_pointers"]

ROTATION_CAP_BYTES = 1 << 30
"""measurement.md, Regimes."""
ROTATION_CAP_PAIRS = 1024
"""Most pairs of buffer sets in one rotation. Chosen: a set is up to 27 mappings of a runner, and Linux allows 65,530;
an arm keeps at most 4,096 sets."""
HOT_ROUND_BYTES = 8 << 20
HOT_ROUND_PAIRS = 32
"""A hot round of restored sets. Chosen: within a last-level cache, and long enough that the microsecond of its two
marks is below a percent."""


HOPELESS_FROM = 3.0
HOPELESS_AFTER = 2
"""Chosen: one sample may be disturbed by any factor, and the strongest must not be lost to it; after two that
are three times too slow a third is not worth its time."""


@dataclass(frozen=True)
class QuadPlan:
    """One ABBA quad: who goes first, how its data is renewed, and which candidate sample is verified, if any."""

    shape: int
    first: Side
    refresh: Refresh
    verified_sample: int | None
    """0 or 1: the candidate's first or second sample, whose outputs V8 checks afterwards."""

    @property
    def order(self) -> tuple[Side, Side, Side, Side]:
        """A B B A."""
        second: Side = "baseline" if self.first == "candidate" else "candidate"
        return (self.first, second, second, self.first)


def plan_pair(rng: np.random.Generator, shapes: int, quads: int) -> tuple[QuadPlan, ...]:
    """Every quad of one pair, shape by shape in random order; one random quad of the pair is verified (V8)."""
    order = [int(shape) for shape in rng.permutation(shapes)]
    verified = int(rng.integers(shapes * quads))
    return tuple(
        QuadPlan(
            shape=shape,
            first=_first(rng),
            refresh=_refresh(rng, quad),
            verified_sample=int(rng.integers(2)) if place * quads + quad == verified else None,
        )
        for place, shape in enumerate(order)
        for quad in range(quads)
    )


def rotation(set_bytes: int, pair_bytes: int, llc_bytes: int, regime: Regime, *, restored: bool = False) -> int:
    """How many pairs of buffer sets a sample rotates over so that a call finds its data as cold, or as hot, as asked.

    Outputs come round once every so many calls, each set of inputs once every twice as many. Sets that are restored
    between calls are called once a round, so even hot there are some.
    """
    if regime is Regime.HOT and restored:
        fitting = min(HOT_ROUND_BYTES, llc_bytes // 2) // max(2 * set_bytes, 1)
        return max(1, min(fitting, HOT_ROUND_PAIRS))
    if regime is Regime.HOT or set_bytes > 2 * llc_bytes:
        return 1
    wanted = math.ceil(2 * llc_bytes / max(set_bytes, 1)) + 1
    return max(1, min(wanted, ROTATION_CAP_BYTES // max(pair_bytes, 1), ROTATION_CAP_PAIRS))


def shuffled(rng: np.random.Generator, names: Sequence[str]) -> tuple[str, ...]:
    """`names` in a random order, for one round of timing."""
    return tuple(names[int(i)] for i in rng.permutation(len(names)))


def worth_timing(taken_ns: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Names that may still be the fastest: timed less than HOPELESS_AFTER times, or at least once not HOPELESS_FROM
    times slower than the best."""
    limit = HOPELESS_FROM * min((ns for taken in taken_ns.values() for ns in taken), default=math.inf)
    return tuple(name for name, taken in taken_ns.items() if len(taken) < HOPELESS_AFTER or min(taken) < limit)


def thread_counts(threads: int) -> tuple[int, ...]:
    """1, 2, 4 … and the whole quota: the thread counts that a roof is searched over."""
    powers = [1 << bit for bit in range(threads.bit_length()) if 1 << bit < threads]
    return (*powers, max(threads, 1))


def _first(rng: np.random.Generator) -> Side:
    return "candidate" if rng.integers(2) else "baseline"


def _refresh(rng: np.random.Generator, quad: int) -> Refresh:
    return "new_pointers" if quad == 0 or rng.integers(2) else "same_pointers"
