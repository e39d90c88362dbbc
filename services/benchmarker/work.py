"""The benchmarker's one effect: fetch the objects, time them by PAIR, say what came out."""

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, assert_never

import numpy as np

from kernel_lab.backends.backend import Built
from kernel_lab.baselines import contenders
from kernel_lab.machine import machine_class, observe
from kernel_lab.measure.bench import Bench, Racer, open_bench
from kernel_lab.measure.calibrate import LIGHT, TOP_UP, Calibration, calibrate, take_a_a_pairs
from kernel_lab.measure.compare import why_failed
from kernel_lab.measure.contending import Contending
from kernel_lab.measure.drift import Epoch
from kernel_lab.measure.null import (
    pretended_baselines,
    pretended_comparison,
    pretended_profile,
    pretended_race,
)
from kernel_lab.measure.own_kernels import OwnKernels, build_own_kernels
from kernel_lab.measure.pairs import BaselineFailed, CandidateFailed, Duel, Failed
from kernel_lab.measure.profile import profile_of
from kernel_lab.measure.race import RaceCard, Runner, race
from kernel_lab.measure.screen import is_worth_more, remeasure, screen
from kernel_lab.measure.statistics import Noise
from kernel_lab.measure.strongest import BaselineRacing, ChosenBaselines, Field, NoBaseline, Strongest, choose_baselines
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.subject import Plan
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.enums import Dtype, RatioKind, Target
from schemas.faults import Misconfigured
from schemas.measurement import BaselineRace, Comparison, MachineProfile
from schemas.model import clip
from schemas.work import Baseline, Build, Contestant, Task
from services.benchmarker.core import (
    Calibrate,
    Calibrated,
    ChooseBaselines,
    Chosen,
    NoneFound,
    NotRun,
    Observe,
    Observed,
    Outcome,
    Raced,
    Recalibrated,
    Refused,
    Remeasure,
    Remeasured,
    RunRace,
    Screen,
    Screened,
    Work,
)
from services.benchmarker.samples import race_that_fits
from services.runtime.artifacts import ArtifactStore, Missing
from services.runtime.settings import Settings, host_id

SEED_BITS = 62

Seen = TypeVar("Seen")


def open_effect(settings: Settings) -> Callable[[Work], Outcome]:
    """Things can be timed: the sandbox works, Assay's own kernels are compiled, the artifact store is open."""
    court, machine = open_court(settings.isolation), machine_class()
    station = Station(
        court=court,
        bench=replace(open_bench(court.lab, machine, host_id(settings.data_dir)), epoch=Epoch().number),
        kernels=build_own_kernels(court.backend, machine, settings.data_dir / "own-kernels"),
        store=ArtifactStore(settings.artifacts),
        serves_cpu=settings.cpu_route,
        serves_null=settings.null_route,
    )
    return station.perform


class ObjectLost(Exception):
    """An object is neither in the store nor can it be rebuilt to the same digest here."""


@dataclass
class Station:
    """One machine and what is known of its noise. The effect's process keeps it between work items."""

    court: Court
    bench: Bench
    kernels: OwnKernels
    store: ArtifactStore
    serves_cpu: bool
    serves_null: bool
    noise: Noise = field(default_factory=Noise)
    calibration: Calibration | None = None
    epoch: Epoch = field(default_factory=Epoch)

    def perform(self, work: Work) -> Outcome:
        """The outcome of `work`. Raises Transient when the store is away or Assay's own kernels do not run."""
        before = self.calibration
        outcome = self._perform(work)
        calibration = self.calibration
        for comparison in _comparisons_of(outcome):
            self._follow(work, comparison)
        if isinstance(work, Observe | Calibrate) or calibration is None or calibration is before:
            return outcome
        return Recalibrated(outcome, self._profile_from(calibration))

    def _follow(self, work: Work, comparison: Comparison) -> None:
        """The epoch knows the baseline times of `comparison`. In a new one nothing is known of the machine's noise."""
        if isinstance(work, Observe | Calibrate) or _is_null(work.task):
            return
        before = self.epoch.number
        for row in comparison.shapes:
            self.epoch = self.epoch.seen(work.task.workload, row)
        if self.epoch.number != before:
            self.bench = replace(self.bench, epoch=self.epoch.number)
            self.noise, self.calibration = Noise(), None

    def _perform(self, work: Work) -> Outcome:
        match work:
            case Observe():
                return Observed((self._uncalibrated(),) if self.serves_cpu else ())
            case Calibrate():
                return self._announced()
            case ChooseBaselines(task, champion):
                return Chosen(pretended_baselines(task)) if _is_null(task) else self._choose(task, champion)
            case Screen(build, task):
                return _pretended_screen(build, task) if _is_null(task) else self._screen(build, task)
            case Remeasure(build, task, round_):
                return _pretended_remeasure(build, task) if _is_null(task) else self._remeasure(build, task, round_)
            case RunRace(contestants, incumbent, task):
                if _is_null(task):
                    return Raced(pretended_race(task, contestants, incumbent))
                return self._race(work)
            case _:
                assert_never(work)

    def _announced(self) -> Calibrated:
        null = (pretended_profile(),) if self.serves_null else ()
        return Calibrated((*((self._profile(),) if self.serves_cpu else ()), *null))

    def _uncalibrated(self) -> MachineProfile:
        """This machine, its noise and its peaks still to be measured."""
        return observe(
            self.bench.machine,
            host_id=self.bench.host,
            compiler=self.kernels.toolchain,
            isolation=self.court.isolation,
            fma_gflops={},
            copy_gbps={},
            noise_floor=None,
            fit=None,
        )

    def _profile(self) -> MachineProfile:
        return self._profile_from(self._calibrate())

    def _profile_from(self, calibration: Calibration) -> MachineProfile:
        return profile_of(self.bench, self.kernels, self.court.isolation, calibration, self.noise)

    def _calibrate(self) -> Calibration:
        self.calibration = calibrate(self.bench, self.kernels, LIGHT, _fresh_rng())
        self.noise = self.noise.grown(self.calibration.a_a)
        return self.calibration

    def _calibrated(self) -> Calibration:
        """A fresh process knows nothing of the machine, for example after its predecessor was killed. One that found
        it unfit looks again before each work item: noise passes."""
        calibration = self.calibration or self._calibrate()
        if not self.noise.fit:
            self.noise = self.noise.grown(take_a_a_pairs(self.bench, self.kernels, TOP_UP, _fresh_rng()))
        return calibration

    def _choose(self, task: Task, champion: Contestant | None) -> Chosen | NoneFound:
        self._calibrated()
        workload = _workload(task.workload)
        kernel = champion.build.kernel if champion else None
        at = Field(workload, task.shapes, task.regime, _threads(task), kernel)
        with _folder() as folder:
            plan = Plan(task.shapes, tolerance_scale=task.tolerance_scale, counterexamples=task.counterexamples)
            contending = Contending(self.court, self.bench.machine, workload, plan, folder)
            racing = BaselineRacing(self.bench, self.kernels, contending, self.noise, _fresh_rng())
            chosen = choose_baselines(racing, at)
        if isinstance(chosen, NoBaseline):
            return NoneFound(chosen.message, chosen.contenders)
        return Chosen(self._baseline_race(chosen))

    def _baseline_race(self, chosen: ChosenBaselines) -> BaselineRace:
        return BaselineRace(
            contenders=chosen.contenders,
            strongest=tuple(self._baseline(one) for one in chosen.strongest),
            roofs=chosen.roofs,
            noise_floor=self.noise.stated,
            machine=self.bench.name,
        )

    def _baseline(self, one: Strongest) -> Baseline:
        built, kernel = one.ready.built, one.ready.spec.kernel
        artifact = None
        if built is not None and kernel is not None:
            stored = self.store.put(built.object)
            artifact = Build(kernel=kernel, object=stored, command=built.command, toolchain=built.toolchain)
        return Baseline(name=one.ready.spec.name, axes=dict(one.shape.axes), median_ns=one.median_ns, artifact=artifact)

    def _screen(self, build: Build, task: Task) -> Screened | Refused | NotRun:
        found = self._looked_at(build, task, lambda duel: screen(self.bench, duel, self.noise, _fresh_rng()))
        if isinstance(found, Refused | NotRun):
            return found
        return Screened(found.comparison, found.worth_more)

    def _remeasure(self, build: Build, task: Task, round_: int) -> Remeasured | Refused | NotRun:
        found = self._looked_at(build, task, lambda duel: remeasure(self.bench, duel, self.noise, round_, _fresh_rng()))
        return found if isinstance(found, Refused | NotRun) else Remeasured(found)

    def _looked_at(self, build: Build, task: Task, look: Callable[[Duel], Seen | Failed]) -> Seen | Refused | NotRun:
        self._calibrated()
        with _folder() as folder:
            try:
                duel = self._duel(task, self._racer("candidate", build, task, folder), folder)
            except ObjectLost as lost:
                return NotRun(str(lost))
            found = look(duel)
        match found:
            case CandidateFailed(finding):
                return Refused(finding.reason, clip(finding.message, 4096), finding.counterexample)
            case BaselineFailed():
                return NotRun(why_failed(found))
            case seen:
                return seen

    def _race(self, work: RunRace) -> Raced | NotRun:
        gflops = self._calibrated().fma_gflops[Dtype.F32.value]
        with _folder() as folder:
            try:
                card = self._card(work, folder)
            except ObjectLost as lost:
                return NotRun(str(lost))
            held = race(self.bench, self.kernels, card, self.noise, gflops)
        if isinstance(held, BaselineFailed):
            return NotRun(why_failed(held))
        self.noise = held.noise
        return Raced(race_that_fits(held.race, self.store))

    def _card(self, work: RunRace, folder: Path) -> RaceCard:
        runners = [self._runner(contestant, work.task, folder) for contestant in work.contestants]
        return RaceCard(
            field=self._duel(work.task, runners[0].racer, folder),
            runners=runners,
            incumbent=self._runner(work.incumbent, work.task, folder) if work.incumbent else None,
            hold_out_gap_s=work.task.hold_out_gap_s,
            seed=secrets.randbits(SEED_BITS),
        )

    def _runner(self, contestant: Contestant, task: Task, folder: Path) -> Runner:
        racer = self._racer(str(contestant.candidate_id), contestant.build, task, folder)
        return Runner(contestant.candidate_id, racer, contestant.search_ratio)

    def _duel(self, task: Task, candidate: Racer, folder: Path) -> Duel:
        return Duel(
            workload=_workload(task.workload),
            shapes=task.shapes,
            candidate=candidate,
            baselines=tuple(self._baseline_racer(baseline, task, folder) for baseline in task.baselines),
            regime=task.regime,
            tolerance_scale=task.tolerance_scale,
        )

    def _baseline_racer(self, baseline: Baseline, task: Task, folder: Path) -> Racer:
        if baseline.artifact is not None:
            return self._racer(baseline.name, baseline.artifact, task, folder)
        specs = contenders(task.workload, self.bench.machine, _threads(task))
        spec = next((spec for spec in specs if spec.name == baseline.name and spec.absent is None), None)
        if spec is None or spec.library is None:
            raise ObjectLost(f"the baseline {baseline.name} is not installed on this machine")
        return Racer(spec.name, spec.threads, library=spec.library, environment=spec.environment)

    def _racer(self, name: str, build: Build, task: Task, folder: Path) -> Racer:
        path = folder / f"{name}.so"
        path.write_bytes(self._object(build, task))
        threads = min(build.kernel.threads or self.bench.machine.threads, _threads(task))
        return Racer(name, threads, path, build.object.sha256)

    def _object(self, build: Build, task: Task) -> bytes:
        """The object by its digest; on a miss, built again from source to the same digest."""
        try:
            return self.store.get(build.object)
        except Missing:
            built = self.court.backend.compile(build.kernel, task.workload, task.machine)
            if isinstance(built, Built) and built.sha256 == build.object.sha256:
                return built.object
            lost = f"object {build.object.sha256} is lost and this toolchain does not rebuild it"
            raise ObjectLost(f"{lost} (made by {build.toolchain})") from None


def _comparisons_of(outcome: Outcome) -> tuple[Comparison, ...]:
    match outcome:
        case Screened(comparison) | Remeasured(comparison):
            return (comparison,)
        case Raced(race):
            return tuple(entrant.comparison for entrant in race.entrants[:1])
        case _:
            return ()


def _pretended_screen(build: Build, task: Task) -> Screened:
    comparison = pretended_comparison(build.kernel.fingerprint, RatioKind.SEARCH, task.shapes[:1], task.regime)
    return Screened(comparison, is_worth_more(comparison.ratio))


def _pretended_remeasure(build: Build, task: Task) -> Remeasured:
    return Remeasured(pretended_comparison(build.kernel.fingerprint, RatioKind.SEARCH, task.shapes, task.regime))


def _workload(name: str) -> Workload:
    if name not in WORKLOADS:
        raise Misconfigured(f"this copy knows no workload {name!r}; it is older than the goal: update it")
    return WORKLOADS[name]


def _threads(task: Task) -> int:
    """The goal's limit within the machine's quota."""
    return min(task.constraints.max_threads or task.machine.threads, task.machine.threads)


def _is_null(task: Task) -> bool:
    return task.target is Target.NULL


def _fresh_rng() -> np.random.Generator:
    """Secret: nobody can know the contents that a candidate is timed on."""
    return np.random.Generator(np.random.PCG64(secrets.randbits(SEED_BITS)))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="assay-measure-") as folder:
        yield Path(folder)
