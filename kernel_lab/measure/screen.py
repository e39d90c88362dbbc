"""The looks of a search: a cheap one for every verified candidate, longer ones for the best (measurement.md, 7).

The screen is one pair of two quads on one shape. Round 1 of halving shares the quads of a full pair out over all
shapes, two at least for each: what is best on one may lose on another, and cannot be crowned then. Round 2 is a full
pair on every shape. Each is one pair of processes, so its interval is wide: numbers to steer by.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from kernel_lab.measure.bench import Bench, Protocol
from kernel_lab.measure.compare import Fought, comparison_of
from kernel_lab.measure.pairs import Duel, Failed, take_pair
from kernel_lab.measure.statistics import WORTH_MORE_FROM, Noise, conclude_one, level_per_look
from kernel_lab.workloads.workload import Axes, Workload
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
    """The cheap look, on the shape that weighs most."""
    comparison = _look(bench, on_one_shape(duel), noise, bench.protocol.screen_quads, rng)
    return Screened(comparison, is_worth_more(comparison.ratio)) if isinstance(comparison, Comparison) else comparison


def remeasure(bench: Bench, duel: Duel, noise: Noise, round_: int, rng: np.random.Generator) -> Comparison | Failed:
    """The look of one round of halving, on every shape: a short pair in the first round, a full one after it."""
    return _look(bench, duel, noise, quads_of_round(bench.protocol, round_, len(duel.shapes)), rng)


def quads_of_round(protocol: Protocol, round_: int, shapes: int) -> int:
    """Quads at each shape."""
    return protocol.quads if round_ > 1 else max(protocol.quads // shapes, protocol.screen_quads)


def _look(bench: Bench, duel: Duel, noise: Noise, quads: int, rng: np.random.Generator) -> Comparison | Failed:
    """The first undisturbed pair of at most three."""
    fought = Fought(duel)
    for attempt in range(1, ATTEMPTS + 1):
        taken = take_pair(bench, duel, quads, rng)
        if not isinstance(taken, Pair):
            return taken
        conclusion = conclude_one(taken, duel.weights, noise, level_per_look())
        fought = Fought(duel, (taken,), conclusion, looks=attempt)
        if conclusion.verdict is not Verdict.INVALID:
            break
    return comparison_of(bench, fought, noise, RatioKind.SEARCH)


def on_one_shape(duel: Duel) -> Duel:
    """The same duel on the shape with the largest weight; among equals on the one in the middle by intensity, then by
    bytes moved: as like the others as any, and on the largest a screen takes six seconds where the middle takes one
    (the yardstick, softmax for serving)."""
    heaviest = max(duel.weights)
    equals = [i for i, weight in enumerate(duel.weights) if weight == heaviest]
    equals.sort(key=lambda i: _character(duel.workload, duel.shapes[i].axes))
    chosen = equals[len(equals) // 2]
    return replace(duel, shapes=(duel.shapes[chosen],), baselines=(duel.baselines[chosen],))


def _character(workload: Workload, axes: Axes) -> tuple[int, int]:
    """Operations per byte to the next power of two, and bytes. Bytes alone screened gemm on its one row, where every
    kernel waits for memory: the race was about 16 to 512 rows, and lost."""
    moved = max(workload.bytes_moved(axes), 1)
    return round(math.log2(max(workload.flops(axes), 1) / moved)), moved


def is_worth_more(ratio: Interval | None) -> bool:
    """Not clearly below 0.9. Without a number nothing is clear."""
    return ratio is None or ratio.high >= WORTH_MORE_FROM
