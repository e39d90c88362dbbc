"""The hold-out race: the only place where a result comes from (measurement.md, 8)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np

from kernel_lab.measure.bench import Bench, Progress, Racer, silent
from kernel_lab.measure.calibrate import RECALIBRATION, take_a_a_pairs, twin_of
from kernel_lab.measure.compare import Contest, Fought, comparison_of
from kernel_lab.measure.own_kernels import OwnKernels
from kernel_lab.measure.pairs import BaselineFailed, Duel
from kernel_lab.measure.roofs import RoofTimer, memory_limited, traffic_of
from kernel_lab.measure.statistics import Noise, level_per_look
from schemas.enums import RatioKind
from schemas.measurement import Comparison, Entrant, Race, RoofPoint

A_A = "a/a"


@dataclass(frozen=True)
class Runner:
    """A proven finalist at the start line."""

    candidate_id: UUID
    racer: Racer
    search_ratio: float | None


@dataclass(frozen=True)
class RaceCard:
    """Everything that a race is decided by, but the machine."""

    field: Duel
    """Workload, shapes, baselines, regime and check; its candidate is replaced by each runner in turn."""
    runners: Sequence[Runner]
    incumbent: Runner | None
    hold_out_gap_s: float
    seed: int
    """Secret until the race is over."""


@dataclass(frozen=True)
class Held:
    """A race, and the noise of this machine with the race's own A/A pairs."""

    race: Race
    noise: Noise


def race(
    bench: Bench,
    kernels: OwnKernels,
    card: RaceCard,
    noise: Noise,
    fma_gflops: float,
    progress: Progress = silent,
) -> Held | BaselineFailed:
    """Every runner against the strongest baselines and the incumbent, after another calibration and the gap."""
    rng = np.random.Generator(np.random.PCG64(card.seed))
    noise = noise.grown(take_a_a_pairs(bench, kernels, RECALIBRATION, rng, progress))
    time.sleep(card.hold_out_gap_s)
    timer = _roofs(bench, kernels, card, rng)
    contest = Contest(
        bench,
        duels_of(card),
        noise,
        level_per_look(len(card.runners)),
        rng,
        a_a=A_A,
        each_round=timer.round,
        progress=progress,
    )
    fought = contest.run()
    for duel in fought.values():
        if isinstance(duel.failed, BaselineFailed):
            return duel.failed
    roofs = limiting(timer.points(), card.field, fma_gflops)
    return Held(_finished(bench, card, fought, contest.noise_now, roofs), contest.noise_now)


def duels_of(card: RaceCard) -> dict[str, Duel]:
    """One duel per runner against the baselines, one against the incumbent, and the A/A duel."""
    duels = {_against_baseline(runner): replace(card.field, candidate=runner.racer) for runner in card.runners}
    if card.incumbent is not None:
        champion = (card.incumbent.racer,) * len(card.field.shapes)
        for runner in card.runners:
            duels[_against_incumbent(runner)] = replace(card.field, candidate=runner.racer, baselines=champion)
    return duels | {A_A: a_a_duel(card.field)}


def a_a_duel(field: Duel) -> Duel:
    """The strongest baseline of the heaviest shape against its byte-identical rebuild, on every shape it is best at."""
    heaviest = max(range(len(field.shapes)), key=lambda i: field.shapes[i].weight)
    racer = field.baselines[heaviest]
    kept = [i for i, other in enumerate(field.baselines) if other.name == racer.name]
    return replace(
        field,
        shapes=tuple(field.shapes[i] for i in kept),
        baselines=(racer,) * len(kept),
        candidate=twin_of(racer),
        is_verified=False,
    )


def _roofs(bench: Bench, kernels: OwnKernels, card: RaceCard, rng: np.random.Generator) -> RoofTimer:
    traffics = [traffic_of(card.field.workload, shape.axes) for shape in card.field.shapes]
    return RoofTimer(bench, kernels, traffics, card.field.regime, rng)


def limiting(points: Sequence[RoofPoint], duel: Duel, fma_gflops: float) -> list[RoofPoint | None]:
    """The roofs that bound something: None where arithmetic takes longer than moving the bytes."""
    return [point if memory_limited(point, duel.workload, fma_gflops) else None for point in points]


def _finished(
    bench: Bench, card: RaceCard, fought: dict[str, Fought], noise: Noise, roofs: Sequence[RoofPoint | None]
) -> Race:
    def concluded(name: str, points: Sequence[RoofPoint | None] = ()) -> Comparison:
        return comparison_of(bench, fought[name], noise, RatioKind.HOLD_OUT, points)

    entrants = tuple(
        Entrant(
            candidate_id=runner.candidate_id,
            comparison=concluded(_against_baseline(runner), roofs),
            search_ratio=runner.search_ratio,
            against_incumbent=concluded(_against_incumbent(runner)) if card.incumbent else None,
        )
        for runner in card.runners
    )
    return Race(
        entrants=entrants,
        a_a=concluded(A_A),
        seeds={"race": card.seed},
        hold_out_gap_s=card.hold_out_gap_s,
        machine=bench.name,
        noise_floor=noise.stated,
        fit=noise.fit,
    )


def _against_baseline(runner: Runner) -> str:
    return f"{runner.candidate_id}"


def _against_incumbent(runner: Runner) -> str:
    return f"{runner.candidate_id}/incumbent"
