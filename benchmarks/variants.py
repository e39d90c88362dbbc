"""Which variant of each design space is the fastest, at which serving shape.

Points of every variant, spread evenly over its tunables, are screened at every shape. The best of each variant at a
shape are then timed there again: the numbers that chose them do not count.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.benchmark import Benchmark, Figure, Result, Say
from benchmarks.goal_results import kept
from kernel_lab.baselines import ContenderSpec
from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, open_bench, settled_sample, start
from kernel_lab.measure.contending import Contending, Ready, make_ready
from kernel_lab.measure.contents import Rotation, rotation_of
from kernel_lab.measure.schedule import shuffled
from kernel_lab.runner.arm import LoadFailed, Timing
from kernel_lab.spaces.installed import load_spaces
from kernel_lab.spaces.space import VARIANT
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.subject import Plan
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.enums import Language, Regime, Target
from schemas.goal import Goal, Shape, SpaceLimits
from schemas.work import Genome
from services.librarian.assignment import task_for
from services.proposer.strategies.latin_hypercube import hypercube, repaired
from services.proposer.terrain import Terrain, terrain_for

POINTS = 8
"""Of each variant, before those that break a rule are moved or dropped. Chosen: ten minutes for all workloads."""
SCREEN_ROUNDS = 2
ROUNDS = 5
"""Samples of the best of each variant. Chosen: their median withstands two disturbances."""


@dataclass(frozen=True)
class Track:
    """A machine that is ready to time kernels which are right."""

    court: Court
    bench: Bench
    folder: Path
    rng: np.random.Generator


@dataclass(frozen=True)
class Best:
    """A variant's best point at one shape, and its samples."""

    genome: Genome
    taken_ns: tuple[float, ...]


Standing = Mapping[str, Best]
"""Of one shape, by variant, the fastest first."""


def run(size: float, say: Say) -> Result:
    """Every workload's variants at every serving shape."""
    figures, raw = [], {}
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        court, machine = open_court("auto"), machine_class()
        track = Track(court, open_bench(court.lab, machine, "here"), Path(folder), np.random.default_rng())
        for name in list(WORKLOADS)[: max(1, round(len(WORKLOADS) * size))]:
            workload, terrain = WORKLOADS[name], _terrain(name, track)
            ready = _ready(track, terrain, workload)
            say(f"{name}: {len(ready)} points are right, of {len(terrain.variants)} variants")
            shapes = workload.shapes["serving"]
            standings = {str(shape.axes): _standing(track, workload, shape, ready) for shape in shapes}
            figures.append(_figure(name, terrain, tuple(standings.values())))
            raw[name] = {shape: _told(standing) for shape, standing in standings.items()}
            say(f"{name}: {figures[-1].note}")
    return Result(tuple(figures), raw)


def _terrain(name: str, track: Track) -> Terrain:
    """The whole C space of a workload on this machine."""
    workload, machine = WORKLOADS[name], track.bench.machine
    goal = Goal(workload=name, target=Target.CPU, shapes=workload.shapes["serving"])
    task = task_for("variants", goal, workload, machine)
    terrain = terrain_for(task, SpaceLimits(), Language.C, load_spaces(()))
    assert terrain is not None
    return terrain


def _ready(track: Track, terrain: Terrain, workload: Workload) -> dict[str, tuple[Genome, Ready]]:
    """Points of every variant that are built and pass the cheap rungs, by a name of their own."""
    genomes = {f"point-{number}": genome for number, genome in enumerate(_genomes(track, terrain, workload.name))}
    kernels = {name: terrain.kernel(genome) for name, genome in genomes.items()}
    specs = tuple(
        ContenderSpec(name, str(genomes[name]), kernel.threads or terrain.around.threads, kernel)
        for name, kernel in kernels.items()
    )
    plan = Plan(workload.shapes["serving"])
    contending = Contending(track.court, track.bench.machine, workload, plan, track.folder)
    ready, refused = make_ready(contending, specs, lambda _done: None)
    if refused:
        raise AssertionError(f"{workload.name}: {refused[0].description} is wrong: {refused[0].message}")
    return {one.spec.name: (genomes[one.spec.name], one) for one in ready}


def _genomes(track: Track, terrain: Terrain, workload: str) -> Iterator[Genome]:
    """POINTS of every variant, and what earlier goals on this machine ended with."""
    for variant in terrain.variants:
        for genome in hypercube(terrain, variant, track.rng, POINTS):
            valid = repaired(terrain, genome, track.rng)
            if valid is not None:
                yield valid
    for result in kept():
        if (result.workload, result.route) == (workload, track.bench.machine.route) and terrain.allows(result.genome):
            yield result.genome


def _standing(track: Track, workload: Workload, shape: Shape, ready: Mapping[str, tuple[Genome, Ready]]) -> Standing:
    """The best point of each variant at `shape`, by samples of a second look."""
    pairs = rotation_of(workload, shape.axes, track.bench.machine.llc_bytes, Regime.COLD)
    with closing(track.bench.new_arena()) as arena:
        data = Rotation(arena, workload, shape.axes, pairs, track.rng)
        screened = _taken(track, workload, data, ready, SCREEN_ROUNDS)
        best: dict[str, str] = {}
        for name in sorted(screened, key=lambda name: median(screened[name])):
            best.setdefault(str(ready[name][0][VARIANT]), name)
        again = _taken(track, workload, data, {name: ready[name] for name in best.values()}, ROUNDS)
    found = {variant: Best(ready[name][0], tuple(again[name])) for variant, name in best.items()}
    return dict(sorted(found.items(), key=lambda one: median(one[1].taken_ns)))


def _taken(
    track: Track, workload: Workload, data: Rotation, ready: Mapping[str, tuple[Genome, Ready]], rounds: int
) -> dict[str, list[float]]:
    """Nanoseconds a call, of everyone in turn, in `rounds` rounds of a random order each."""
    taken: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        data.renew("new_pointers")
        for name in shuffled(track.rng, tuple(ready)):
            taken[name].append(_sample_ns(track, workload, data, ready[name][1]))
    return taken


def _sample_ns(track: Track, workload: Workload, data: Rotation, one: Ready) -> float:
    arm = start(track.bench, one.racer, workload)
    assert not isinstance(arm, LoadFailed), f"{one.spec.description}: {arm.message}"
    with closing(arm):
        sample = settled_sample(track.bench, arm, data.sets, workload.scalars)
    assert isinstance(sample, Timing), f"{one.spec.description}: {sample}"
    return sample.elapsed_ns / sample.calls


def _figure(name: str, terrain: Terrain, standings: Sequence[Standing]) -> Figure:
    """How many variants are the fastest somewhere, and how far behind the others stay at best."""
    wins = Counter(next(iter(standing)) for standing in standings)
    won = [f"{variant} at {count} of {len(standings)} shapes" for variant, count in wins.most_common()]
    lost = [
        f"{variant.name} nowhere, at best {100 * (_behind(variant.name, standings) - 1):.0f} % behind"
        for variant in terrain.variants
        if variant.name not in wins
    ]
    return Figure(f"{name}: variants that win", len(wins), f"of {len(terrain.variants)}", note="; ".join([*won, *lost]))


def _behind(variant: str, standings: Sequence[Standing]) -> float:
    """Its median over the fastest's, where it comes closest."""
    return min(_median(standing[variant]) / _median(next(iter(standing.values()))) for standing in standings)


def _median(best: Best) -> float:
    return median(best.taken_ns)


def _told(standing: Standing) -> dict[str, Any]:
    return {variant: {"genome": best.genome, "ns": best.taken_ns} for variant, best in standing.items()}


BENCHMARK = Benchmark(
    "variants", "The fastest variant of each design space at each serving shape", 12, run, is_long=True
)
