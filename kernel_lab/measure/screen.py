"""The cheap look that every verified candidate gets: one pair of two quads on one shape (measurement.md, 7)."""

from dataclasses import dataclass, replace

import numpy as np

from kernel_lab.measure.bench import Bench
from kernel_lab.measure.compare import Fought, comparison_of
from kernel_lab.measure.pairs import Duel, Failed, take_pair
from kernel_lab.measure.statistics import WORTH_MORE_FROM, Noise, conclude_one, level_per_look
from schemas.enums import RatioKind, Verdict
from schemas.measurement import Comparison, Interval, Pair

ATTEMPTS = 3
"""A disturbed pair is thrown away whole and taken again this often. Chosen: three in a row are the machine's fault."""


@dataclass(frozen=True)
class Screened:
    """A search number, and whether the candidate deserves more attention."""

    comparison: Comparison
    worth_more: bool


def screen(bench: Bench, duel: Duel, noise: Noise, rng: np.random.Generator) -> Screened | Failed:
    """The first undisturbed pair of at most three, on the shape that weighs most."""
    narrow = on_one_shape(duel)
    fought = Fought(narrow)
    for attempt in range(1, ATTEMPTS + 1):
        taken = take_pair(bench, narrow, bench.protocol.screen_quads, rng)
        if not isinstance(taken, Pair):
            return taken
        conclusion = conclude_one(taken, narrow.weights, noise, level_per_look())
        fought = Fought(narrow, (taken,), conclusion, looks=attempt)
        if conclusion.verdict is not Verdict.INVALID:
            break
    comparison = comparison_of(bench, fought, noise, RatioKind.SEARCH)
    return Screened(comparison, is_worth_more(comparison.ratio))


def on_one_shape(duel: Duel) -> Duel:
    """The same duel on the shape with the largest weight; among equals the one that moves most bytes."""
    workload = duel.workload
    heaviest = max(
        range(len(duel.shapes)), key=lambda i: (duel.shapes[i].weight, workload.bytes_moved(duel.shapes[i].axes))
    )
    return replace(duel, shapes=(duel.shapes[heaviest],), baselines=(duel.baselines[heaviest],))


def is_worth_more(ratio: Interval | None) -> bool:
    """Not clearly below 0.9. Without a number nothing is clear."""
    return ratio is None or ratio.high >= WORTH_MORE_FROM
