"""From raw quads to a verdict, purely (measurement.md, points 3 to 6 and 10).

Everything inside is a natural logarithm of baseline time over candidate time: above 0 the candidate is faster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np
from scipy.special import ndtri, stdtrit

from schemas.enums import Verdict
from schemas.measurement import Interval, Pair, Quad

ALPHA = 0.01
"""False verdicts allowed per comparison (measurement.md, 3)."""
LOOKS = (5, 8, 16)
"""Pairs at which a comparison may stop (measurement.md, 3)."""
QUADS_PER_PAIR = 6
SMALLEST_DELTA = 0.01
UNFIT_ABOVE = 0.10
"""A machine whose noise floor is higher promotes nothing (measurement.md, 4)."""
NOISE_PAIRS = 30
"""Fewest A/A pairs that make a noise floor (measurement.md, 4)."""
NOISE_WINDOW = 60
"""A/A pairs remembered. Chosen: two calibrations, so that one odd minute does not own the floor."""
MOST_DROPPED = 0.30
"""Share of quads that may be dropped before a measurement is INVALID (measurement.md, 5)."""
QUARANTINE_OVER_BASELINE = 10.0
QUARANTINE_OF_ROOF = 0.8
"""measurement.md, 10."""
WORTH_MORE_FROM = 0.9
"""measurement.md, 7."""


@dataclass(frozen=True)
class PairValue:
    """What one pair says: per shape the median over its quads, and their weighted mean."""

    overall: float
    shapes: tuple[float, ...]


@dataclass(frozen=True)
class Conclusion:
    """What a comparison says after some pairs. No interval, no shapes: there is no number to show."""

    verdict: Verdict
    interval: Interval | None
    shape_ratios: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Noise:
    """The latest A/A pair values of this machine, oldest first."""

    values: tuple[float, ...] = ()

    def grown(self, values: Sequence[float]) -> "Noise":
        """These and `values`, cut to the window."""
        return Noise((*self.values, *values)[-NOISE_WINDOW:])

    @property
    def floor(self) -> float | None:
        """p90 of |pair value|, or None before 30 A/A pairs."""
        if len(self.values) < NOISE_PAIRS:
            return None
        return float(np.quantile(np.abs(self.values), 0.9))

    @property
    def stated(self) -> float:
        """The floor as facts carry it: 1 while uncalibrated, because then no difference means anything."""
        return 1.0 if self.floor is None else self.floor

    @property
    def fit(self) -> bool:
        """Calibrated, and quiet enough to promote anything."""
        return self.floor is not None and self.floor <= UNFIT_ABOVE


def delta_of(noise_floor: float) -> float:
    """The smallest difference that may be called one."""
    return max(SMALLEST_DELTA, noise_floor)


def level_per_look(contestants: int = 1) -> float:
    """Confidence at each look: α is shared by the looks and by the contestants of a race."""
    return 1.0 - ALPHA / (len(LOOKS) * contestants)


def quad_log_ratio(quad: Quad) -> float:
    """Log-ratio of the geometric means of the two baseline and the two candidate samples: linear drift cancels."""
    return (sum(map(math.log, quad.baseline_ns)) - sum(map(math.log, quad.candidate_ns))) / 2


def pair_value(pair: Pair, weights: Sequence[float]) -> PairValue | None:
    """The value of `pair`, or None when some shape has no quad left that counts."""
    medians = []
    for shape in range(len(weights)):
        ratios = [quad_log_ratio(q) for q in pair.quads if q.shape == shape and q.dropped is None]
        if not ratios:
            return None
        medians.append(median(ratios))
    return PairValue(weighted_mean(medians, weights), tuple(medians))


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Σwv / Σw."""
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def dropped_fraction(pairs: Sequence[Pair]) -> float:
    """Share of quads with a recorded outside cause; 1 when there are none at all."""
    quads = [quad for pair in pairs for quad in pair.quads]
    return sum(q.dropped is not None for q in quads) / len(quads) if quads else 1.0


def interval_over_pairs(values: Sequence[float], level: float) -> Interval:
    """Student-t interval of the mean of at least two pair values, as a ratio of times."""
    mean = fmean(values)
    half = _t_quantile((1 + level) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return _as_ratios(mean, half, level)


def interval_of_one_pair(value: float, noise: Noise, level: float, quads: int = QUADS_PER_PAIR) -> Interval:
    """Prediction interval of a single pair, its spread taken from the A/A pairs.

    The floor is p90 of |value|, which is 1.645 standard deviations of a centred normal. A screen's pair has fewer
    `quads` than an A/A pair, and is as much noisier as if quads were independent.
    """
    floor, n = noise.floor, len(noise.values)
    if floor is None:
        raise ValueError(f"a single pair needs {NOISE_PAIRS} A/A pairs to be judged by; there are {n}")
    sigma = floor / float(ndtri(0.95)) * math.sqrt(QUADS_PER_PAIR / min(quads, QUADS_PER_PAIR))
    half = sigma * _t_quantile((1 + level) / 2, n - 1) * math.sqrt(1 + 1 / n)
    return _as_ratios(value, half, level)


def verdict_of(interval: Interval, shape_ratios: Sequence[float], delta: float) -> Verdict:
    """The verdict rule of measurement.md, 6."""
    no_loser = all(ratio >= 1 - delta for ratio in shape_ratios)
    if interval.low > 1 and interval.estimate > 1 + delta and no_loser:
        return Verdict.FASTER
    if interval.high < 1 and interval.estimate < 1 / (1 + delta):
        return Verdict.SLOWER
    if interval.low >= 1 / (1 + delta) and interval.high <= 1 + delta and no_loser:
        return Verdict.EQUIVALENT
    return Verdict.INCONCLUSIVE


def conclude(pairs: Sequence[Pair], weights: Sequence[float], noise: Noise, level: float) -> Conclusion:
    """What `pairs` say at one look."""
    dropped = dropped_fraction(pairs)
    if dropped > MOST_DROPPED:
        return Conclusion(Verdict.INVALID, None, note=f"{dropped:.0%} of the quads were disturbed from outside")
    values = [value for pair in pairs if (value := pair_value(pair, weights)) is not None]
    if len(values) < 2:
        return Conclusion(Verdict.INVALID, None, note="fewer than two pairs are undisturbed on every shape")
    return conclude_values(values, noise, level)


def conclude_values(values: Sequence[PairValue], noise: Noise, level: float) -> Conclusion:
    """What at least two pair values say at one look."""
    floor = noise.floor
    if floor is None or not noise.fit:
        return Conclusion(Verdict.UNFIT, None, note=unfit_note(noise))
    interval = interval_over_pairs([v.overall for v in values], level)
    return concluded(interval, _mean_shape_ratios(values), floor)


def conclude_one(pair: Pair, weights: Sequence[float], noise: Noise, level: float) -> Conclusion:
    """What a screen's single pair says: its spread comes from the A/A pairs."""
    floor = noise.floor
    if floor is None or not noise.fit:
        return Conclusion(Verdict.UNFIT, None, note=unfit_note(noise))
    value = pair_value(pair, weights)
    dropped = dropped_fraction([pair])
    if value is None or dropped > MOST_DROPPED:
        return Conclusion(Verdict.INVALID, None, note=f"{dropped:.0%} of the quads were disturbed from outside")
    interval = interval_of_one_pair(value.overall, noise, level, len(pair.quads) // len(weights))
    return concluded(interval, tuple(math.exp(v) for v in value.shapes), floor)


def concluded(interval: Interval, shape_ratios: tuple[float, ...], noise_floor: float) -> Conclusion:
    """The conclusion that interval and shapes allow; names the shape that forbids a better one."""
    delta = delta_of(noise_floor)
    losers = [i for i, ratio in enumerate(shape_ratios) if ratio < 1 - delta]
    note = f"shape {losers[0]} is slower: {shape_ratios[losers[0]]:.3f}x" if losers and interval.estimate > 1 else ""
    return Conclusion(verdict_of(interval, shape_ratios, delta), interval, shape_ratios, note)


def unfit_note(noise: Noise) -> str:
    """Why this machine may not promote anything."""
    if noise.floor is None:
        return f"{len(noise.values)} A/A pairs of the {NOISE_PAIRS} that a noise floor needs"
    return f"noise floor {noise.floor:.1%} is over {UNFIT_ABOVE:.0%}"


def is_decided(verdict: Verdict) -> bool:
    """More pairs would not be taken: the comparison may stop at this look."""
    return verdict not in (Verdict.INCONCLUSIVE, Verdict.INVALID)


def quarantine_note(ratio: float, candidate_ns: float, roof_ns: float | None) -> str | None:
    """Why a number is too good to promote without a second machine, or None (measurement.md, 10)."""
    if ratio > QUARANTINE_OVER_BASELINE:
        return f"{ratio:.1f}x over the strongest baseline; above {QUARANTINE_OVER_BASELINE:.0f}x needs confirmation"
    if roof_ns is not None and candidate_ns < QUARANTINE_OF_ROOF * roof_ns:
        return f"{candidate_ns:.0f} ns is below {QUARANTINE_OF_ROOF} of the roof's {roof_ns:.0f} ns"
    return None


def _mean_shape_ratios(values: Sequence[PairValue]) -> tuple[float, ...]:
    return tuple(math.exp(fmean(column)) for column in zip(*(v.shapes for v in values), strict=True))


def _t_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t. `scipy.stats` has the same and costs each process 0.5 s and tens of megabytes."""
    return float(stdtrit(freedom, probability))


def _as_ratios(mean: float, half: float, level: float) -> Interval:
    return Interval(
        estimate=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), level=round(level, 6)
    )
