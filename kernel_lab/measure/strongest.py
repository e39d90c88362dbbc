"""The strongest baseline per shape: every contender is screened, the best two of each shape are raced in full."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from statistics import fmean, median

import numpy as np

from kernel_lab.baselines import ContenderSpec, contenders, previous_champion
from kernel_lab.measure.bench import Bench, Progress, settled_sample, silent, start
from kernel_lab.measure.compare import Contest, Fought
from kernel_lab.measure.contending import Contending, Ready, make_ready
from kernel_lab.measure.contents import Rotation, rotation_of
from kernel_lab.measure.own_kernels import OwnKernels
from kernel_lab.measure.pairs import Duel, ended
from kernel_lab.measure.roofs import RoofTimer, traffic_of
from kernel_lab.measure.schedule import shuffled, worth_timing
from kernel_lab.measure.statistics import Noise, level_per_look
from kernel_lab.runner.arm import Arena, LoadFailed, Timing
from kernel_lab.workloads.workload import Workload
from schemas.enums import Regime
from schemas.goal import Shape
from schemas.measurement import Contender, RoofPoint
from schemas.work import Kernel, MachineClass

RACE_LOOKS = 2
"""Looks at the best two. Chosen: two that are still undecided are as good as each other for a goal, and the third look
took as long as the first two."""
SCREEN_ROUNDS = 3
"""Samples at every shape, of every contender that may be the fastest there, before the best two are raced. Chosen: a
median of three withstands one disturbance, and the race that follows decides what is close."""


@dataclass(frozen=True)
class Field:
    """What baselines are raced at."""

    workload: Workload
    shapes: tuple[Shape, ...]
    regime: Regime
    threads: int
    champion: Kernel | None = None
    """An earlier goal's, to be beaten like any other baseline."""

    def specs(self, machine: MachineClass) -> tuple[ContenderSpec, ...]:
        """Everyone who is considered."""
        known = contenders(self.workload.name, machine, self.threads)
        return known if self.champion is None else (*known, previous_champion(self.champion, self.threads))


@dataclass(frozen=True)
class Strongest:
    """The winner at one shape."""

    ready: Ready
    shape: Shape
    median_ns: float


@dataclass(frozen=True)
class ChosenBaselines:
    """Everything that was raced, and who won where."""

    contenders: tuple[Contender, ...]
    strongest: tuple[Strongest, ...]
    """One per shape, in their order."""
    roofs: tuple[RoofPoint, ...]


@dataclass(frozen=True)
class NoBaseline:
    """Nothing honest to compare with."""

    message: str
    contenders: tuple[Contender, ...]


@dataclass(frozen=True)
class BaselineRacing:
    """Where and by what rules baselines are raced."""

    bench: Bench
    kernels: OwnKernels
    contending: Contending
    noise: Noise
    rng: np.random.Generator
    progress: Progress = silent


def choose_baselines(racing: BaselineRacing, field: Field) -> ChosenBaselines | NoBaseline:
    """The strongest verified baseline per shape, with everyone who was considered."""
    specs = field.specs(racing.bench.machine)
    ready, unraced = make_ready(
        racing.contending, specs, lambda done: racing.progress("verifying baselines", done, len(specs))
    )
    roofs = RoofTimer(
        racing.bench,
        racing.kernels,
        [traffic_of(field.workload, shape.axes) for shape in field.shapes],
        field.regime,
        racing.rng,
    )
    screened = _Screen(racing, field, ready, roofs).run()
    if not screened.timed:
        return NoBaseline("no baseline passed verification and could be timed", (*unraced, *screened.refused))
    raced = _race_best_two(racing, field, screened)
    strongest = tuple(_strongest(raced, screened, index, shape) for index, shape in enumerate(field.shapes))
    listed = (*_listed(screened, raced), *screened.refused, *unraced)
    return ChosenBaselines(listed, strongest, roofs.points())


@dataclass(frozen=True)
class Screened:
    """Medians of every contender that could be timed at every shape."""

    timed: Mapping[str, Ready]
    median_ns: Mapping[str, tuple[float, ...]]
    refused: tuple[Contender, ...]

    def best_two(self, index: int) -> list[Ready]:
        """The two fastest at shape `index`, the fastest first; one when there is only one."""
        names = sorted(self.timed, key=lambda name: self.median_ns[name][index])
        return [self.timed[name] for name in names[:2]]


@dataclass
class _Screen:
    """A few interleaved rounds over all contenders and the roofs."""

    racing: BaselineRacing
    at: Field
    ready: Sequence[Ready]
    roofs: RoofTimer
    taken_ns: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    refused: dict[str, Contender] = field(default_factory=dict)

    def run(self) -> Screened:
        for round_ in range(SCREEN_ROUNDS):
            self.racing.progress("screening baselines", round_, SCREEN_ROUNDS)
            self.roofs.round()
            with closing(self.racing.bench.new_arena()) as arena:
                for index in range(len(self.at.shapes)):
                    self._round_at(index, arena)
        timed = {one.spec.name: one for one in self.ready if one.spec.name not in self.refused}
        medians = {
            name: tuple(median(self.taken_ns[name, index]) for index in range(len(self.at.shapes))) for name in timed
        }
        return Screened(timed, medians, tuple(self.refused.values()))

    def _round_at(self, index: int, arena: Arena) -> None:
        bench, rng, axes = self.racing.bench, self.racing.rng, self.at.shapes[index].axes
        pairs = rotation_of(self.at.workload, axes, bench.machine.llc_bytes, self.at.regime)
        by_name = {one.spec.name: one for one in self.ready if one.spec.name not in self.refused}
        with closing(Rotation(arena, self.at.workload, axes, pairs, rng)) as data:
            so_far = {name: self.taken_ns.get((name, index), []) for name in by_name}
            for name in shuffled(rng, worth_timing(so_far)):
                self._sample(by_name[name], index, data)

    def _sample(self, one: Ready, index: int, data: Rotation) -> None:
        bench = self.racing.bench
        arm = start(bench, one.racer, self.at.workload)
        if isinstance(arm, LoadFailed):
            self._refuse(one, arm.message)
            return
        with closing(arm):
            taken = settled_sample(bench, arm, data.sets, self.at.workload.scalars)
        if isinstance(taken, Timing):
            self.taken_ns.setdefault((one.spec.name, index), []).append(taken.elapsed_ns / taken.calls)
        else:
            self._refuse(one, ended(taken))

    def _refuse(self, one: Ready, why: str) -> None:
        self.refused[one.spec.name] = Contender(
            name=one.spec.name, description=one.spec.description, status="refused", message=f"while timed, {why}"
        )


def _race_best_two(racing: BaselineRacing, at: Field, screened: Screened) -> dict[str, Fought]:
    """One duel per shape between its two fastest, the fastest as candidate."""
    duels = {}
    for index, shape in enumerate(at.shapes):
        best = screened.best_two(index)
        if len(best) == 2:
            duels[str(index)] = Duel(
                at.workload, (shape,), best[0].racer, (best[1].racer,), at.regime, is_verified=False
            )
    if not duels:
        return {}
    protocol = replace(racing.bench.protocol, looks=racing.bench.protocol.looks[:RACE_LOOKS])
    contest = Contest(
        replace(racing.bench, protocol=protocol),
        duels,
        racing.noise,
        level_per_look(),
        racing.rng,
        progress=racing.progress,
    )
    return contest.run()


def _strongest(raced: Mapping[str, Fought], screened: Screened, index: int, shape: Shape) -> Strongest:
    """The race's winner; the screen's where the race says nothing."""
    best = screened.best_two(index)
    fought = raced.get(str(index))
    interval = fought.conclusion.interval if fought else None
    if fought is None or interval is None:
        return Strongest(best[0], shape, screened.median_ns[best[0].spec.name][index])
    first_wins = interval.estimate >= 1
    winner = best[0] if first_wins else best[1]
    quads = [q for pair in fought.pairs for q in pair.quads if q.dropped is None]
    times = [fmean(q.candidate_ns if first_wins else q.baseline_ns) for q in quads]
    return Strongest(winner, shape, median(times))


def _listed(screened: Screened, raced: Mapping[str, Fought]) -> tuple[Contender, ...]:
    """Fastest first, over all shapes."""
    in_race = {racer.name for fought in raced.values() for racer in (fought.duel.candidate, *fought.duel.baselines)}
    names = sorted(screened.timed, key=lambda name: fmean(np.log(screened.median_ns[name])))
    return tuple(
        Contender(
            name=name,
            description=screened.timed[name].spec.description,
            status="raced" if name in in_race else "screened",
            median_ns=screened.median_ns[name],
        )
        for name in names
    )
