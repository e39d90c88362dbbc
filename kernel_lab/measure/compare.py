"""Duels fought pair by pair in one interleaved schedule, and the comparison that each ends in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

import numpy as np

from kernel_lab.measure.bench import Bench, Progress, silent
from kernel_lab.measure.pairs import BaselineFailed, CandidateFailed, Duel, Failed, take_pair
from kernel_lab.measure.schedule import shuffled
from kernel_lab.measure.statistics import (
    Conclusion,
    Noise,
    conclude,
    delta_of,
    dropped_fraction,
    is_decided,
    pair_value,
    quarantine_note,
)
from schemas.enums import RatioKind, Verdict
from schemas.measurement import Comparison, Pair, RoofPoint, ShapeResult

UNDECIDED = Conclusion(Verdict.INVALID, None, note="no look was reached")


@dataclass(frozen=True)
class Fought:
    """How a duel went: its pairs, and what they said at the last look."""

    duel: Duel
    pairs: tuple[Pair, ...] = ()
    conclusion: Conclusion = UNDECIDED
    looks: int = 0
    failed: Failed | None = None

    @property
    def is_over(self) -> bool:
        return self.failed is not None or is_decided(self.conclusion.verdict)

    def after(self, taken: Pair | Failed) -> "Fought":
        if isinstance(taken, Pair):
            return replace(self, pairs=(*self.pairs, taken))
        return replace(self, failed=taken)

    def looked_at(self, noise: Noise, level: float) -> "Fought":
        if self.failed is not None:
            return self
        conclusion = conclude(self.pairs, self.duel.weights, noise, level)
        return replace(self, conclusion=conclusion, looks=self.looks + 1)

    @property
    def values(self) -> tuple[float, ...]:
        """Overall values of the pairs that count."""
        found = (pair_value(pair, self.duel.weights) for pair in self.pairs)
        return tuple(value.overall for value in found if value is not None)


@dataclass
class Contest:
    """Several duels in one schedule. Each round takes one pair of every duel still open, in random order."""

    bench: Bench
    duels: Mapping[str, Duel]
    noise: Noise
    """Before the contest; the A/A duel's pairs are added at each look."""
    level: float
    rng: np.random.Generator
    a_a: str | None = None
    """The duel of equals: it rides along until every other is over, and never ends the contest."""
    each_round: Callable[[], None] = lambda: None
    progress: Progress = silent
    _fought: dict[str, Fought] = field(default_factory=dict)

    def run(self) -> dict[str, Fought]:
        """Every duel, decided or at its last look."""
        looks = self.bench.protocol.looks
        self._fought = {name: Fought(duel) for name, duel in self.duels.items()}
        for round_ in range(1, looks[-1] + 1):
            self.progress("pairs", round_ - 1, looks[-1])
            self._take_round()
            if round_ in looks:
                self._look()
            if all(self._fought[name].is_over for name in self.duels if name != self.a_a):
                break
        if self.a_a is not None:
            self._fought[self.a_a] = self._fought[self.a_a].looked_at(self.noise_now, self.level)
        return self._fought

    @property
    def noise_now(self) -> Noise:
        """The noise known so far, this contest's A/A pairs included."""
        return self.noise.grown(self._fought[self.a_a].values) if self.a_a else self.noise

    def _open(self) -> list[str]:
        return [name for name in self.duels if not self._is_done(name)]

    def _is_done(self, name: str) -> bool:
        fought = self._fought[name]
        return fought.failed is not None if name == self.a_a else fought.is_over

    def _take_round(self) -> None:
        self.each_round()
        for name in shuffled(self.rng, self._open()):
            taken = take_pair(self.bench, self.duels[name], self.bench.protocol.quads, self.rng)
            self._fought[name] = self._fought[name].after(taken)

    def _look(self) -> None:
        noise = self.noise_now
        for name in self._open():
            if name != self.a_a:
                self._fought[name] = self._fought[name].looked_at(noise, self.level)


def comparison_of(
    bench: Bench,
    fought: Fought,
    noise: Noise,
    kind: RatioKind,
    roofs: Sequence[RoofPoint | None] = (),
) -> Comparison:
    """The one form in which a ratio exists. No number without a verdict that allows one."""
    duel, conclusion = fought.duel, fought.conclusion
    if fought.failed is not None:
        conclusion = Conclusion(Verdict.INVALID, None, note=why_failed(fought.failed))
    shapes = shape_results(fought, conclusion, roofs) if conclusion.interval else ()
    verdict, note = _quarantined(conclusion, shapes)
    return Comparison(
        kind=kind,
        verdict=verdict,
        ratio=conclusion.interval,
        regime=duel.regime,
        machine=bench.name,
        epoch=bench.epoch,
        noise_floor=noise.stated,
        delta=delta_of(noise.stated),
        looks=fought.looks,
        dropped_fraction=dropped_fraction(fought.pairs),
        shapes=shapes,
        note=note,
        pairs=fought.pairs,
    )


def shape_results(fought: Fought, conclusion: Conclusion, roofs: Sequence[RoofPoint | None]) -> tuple[ShapeResult, ...]:
    """Raw rows beside the ratio: medians over the quads that count."""
    rows = []
    for index, (shape, ratio) in enumerate(zip(fought.duel.shapes, conclusion.shape_ratios, strict=True)):
        quads = [q for pair in fought.pairs for q in pair.quads if q.shape == index and q.dropped is None]
        roof = roofs[index] if roofs else None
        rows.append(
            ShapeResult(
                axes=dict(shape.axes),
                weight=shape.weight,
                baseline=fought.duel.baselines[index].name,
                baseline_ns=median(fmean(q.baseline_ns) for q in quads),
                candidate_ns=median(fmean(q.candidate_ns) for q in quads),
                ratio=ratio,
                roof_ns=roof.best_ns if roof else None,
            )
        )
    return tuple(rows)


def why_failed(failed: Failed) -> str:
    """One line for a person."""
    match failed:
        case CandidateFailed(finding):
            return f"rejected while it was timed: {finding.reason}: {finding.message}"
        case BaselineFailed(name, message):
            return f"the baseline {name} did not run: {message}"


def _quarantined(conclusion: Conclusion, shapes: Sequence[ShapeResult]) -> tuple[Verdict, str]:
    for row in shapes:
        note = quarantine_note(row.ratio, row.candidate_ns, row.roof_ns)
        if note is not None:
            return Verdict.QUARANTINED, note
    return conclusion.verdict, conclusion.note
