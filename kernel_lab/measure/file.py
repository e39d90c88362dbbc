"""One file against the strongest baseline, or against another file, by PAIR: `assay candidate measure`."""

import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from kernel_lab.backends.backend import Built, NotBuilt
from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, Progress, Protocol, Racer, open_bench, silent
from kernel_lab.measure.calibrate import LIGHT, Calibration, Effort, calibrate
from kernel_lab.measure.compare import Contest, Fought, comparison_of, why_failed
from kernel_lab.measure.contending import Contending
from kernel_lab.measure.own_kernels import OwnKernels, build_own_kernels
from kernel_lab.measure.pairs import BaselineFailed, CandidateFailed, Duel
from kernel_lab.measure.race import A_A, a_a_duel, limiting
from kernel_lab.measure.roofs import RoofTimer, traffic_of
from kernel_lab.measure.statistics import level_per_look
from kernel_lab.measure.strongest import BaselineRacing, Field, NoBaseline, choose_baselines
from kernel_lab.spaces.launch import LaunchProblem, kernel_from_source
from kernel_lab.verify.court import open_court
from kernel_lab.verify.finding import Finding
from kernel_lab.verify.judge import not_built
from kernel_lab.verify.rungs import timed_outputs
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads.workload import Workload
from schemas.enums import Dtype, JudgedAs, Language, RatioKind, Regime, Rung, RungStatus
from schemas.faults import Misconfigured, Transient
from schemas.goal import Shape
from schemas.measurement import Comparison, Contender, RoofPoint
from schemas.model import clip
from schemas.verdict import Judgement, RungResult
from schemas.work import MAX_SOURCE_BYTES, Kernel

Against = Path | Literal["best"]


@dataclass(frozen=True)
class MeasuredFile:
    """A verified file and how it compares. Without a number when the machine could give none."""

    comparison: Comparison
    judgement: Judgement
    contenders: tuple[Contender, ...]
    """Every baseline considered; empty when compared with a file."""
    roofs: tuple[RoofPoint, ...]


@dataclass(frozen=True)
class Terms:
    """How a file is measured. Only tests take others."""

    protocol: Protocol = field(default_factory=Protocol)
    effort: Effort = LIGHT
    regime: Regime = Regime.COLD
    depth: Depth = Depth.DEEP


def measure_file(
    file: Path | Kernel,
    workload: Workload,
    against: Against,
    shapes: tuple[Shape, ...],
    isolation: str = "auto",
    *,
    progress: Progress = silent,
    terms: Terms | None = None,
    host: str = "here",
) -> MeasuredFile | Judgement:
    """The comparison of a verified file or kernel, or the judgement that stopped it: then there is no number.

    Raises Misconfigured when a file cannot be read, or when `against` is itself not verified.
    """
    terms = terms or Terms()
    court, machine = open_court(isolation), machine_class()
    with tempfile.TemporaryDirectory(prefix="assay-measure-") as folder:
        contending = Contending(court, machine, workload, Plan(shapes, depth=terms.depth), Path(folder))
        progress("verifying", 0, 1)
        verified = _verified(contending, file, "candidate")
        if isinstance(verified, Judgement):
            return verified
        bench = open_bench(court.lab, machine, host, terms.protocol)
        kernels = build_own_kernels(court.backend, machine, Path(folder, "own"))
        rng = np.random.Generator(np.random.PCG64(secrets.randbits(62)))
        calibration = calibrate(bench, kernels, terms.effort, rng, progress)
        session = _Session(contending, bench, kernels, calibration, terms.regime, rng, progress)
        return session.compare(verified, session.opponents(against))


@dataclass(frozen=True)
class _Verified:
    racer: Racer
    judgement: Judgement


@dataclass(frozen=True)
class _Opponents:
    """One racer per shape, and who else was considered."""

    racers: tuple[Racer, ...]
    contenders: tuple[Contender, ...] = ()


def _verified(judging: Contending, file: Path | Kernel, name: str) -> _Verified | Judgement:
    """The file as a racer, or the judgement that it is none."""
    court, machine = judging.court, judging.machine
    kernel = file if isinstance(file, Kernel) else kernel_from_source(_read(file), Language.C, machine.route)
    if isinstance(kernel, LaunchProblem):
        return not_built(NotBuilt(kernel.reason, kernel.message, ""), court.isolation)
    built = court.backend.compile(kernel, judging.workload.name, machine)
    if not isinstance(built, Built):
        return not_built(built, court.isolation)
    judgement = court.judge(built.object, kernel, machine, judging.workload, judging.plan)
    if judgement.verdict is not JudgedAs.VERIFIED:
        return judgement
    object_path = judging.folder / f"{name}.so"
    object_path.write_bytes(built.object)
    return _Verified(Racer(name, kernel.threads or machine.threads, object_path, built.sha256), judgement)


@dataclass(frozen=True)
class _Session:
    """One calibrated machine and what is compared on it."""

    contending: Contending
    bench: Bench
    kernels: OwnKernels
    calibration: Calibration
    regime: Regime
    rng: np.random.Generator
    progress: Progress

    @property
    def workload(self) -> Workload:
        return self.contending.workload

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return self.contending.plan.shapes

    def opponents(self, against: Against) -> _Opponents:
        """The strongest baseline per shape, or the one file that was named."""
        if isinstance(against, Path):
            other = _verified(self.contending, against, "against")
            if isinstance(other, Judgement):
                raise Misconfigured(f"{against} is no yardstick: {other.rung}: {other.reason}: {other.message}")
            return _Opponents((other.racer,) * len(self.shapes))
        racing = BaselineRacing(
            self.bench, self.kernels, self.contending, self.calibration.noise, self.rng, self.progress
        )
        at = Field(self.workload, self.shapes, self.regime, self.bench.machine.threads)
        chosen = choose_baselines(racing, at)
        if isinstance(chosen, NoBaseline):
            raise Transient(f"{self.workload.name}: {chosen.message}")
        return _Opponents(tuple(one.ready.racer for one in chosen.strongest), chosen.contenders)

    def compare(self, verified: _Verified, opponents: _Opponents) -> MeasuredFile | Judgement:
        """The whole of PAIR, roofs and A/A in the same schedule."""
        shapes = self.shapes
        duel = Duel(self.workload, shapes, verified.racer, opponents.racers, self.regime)
        traffics = [traffic_of(self.workload, shape.axes) for shape in shapes]
        timer = RoofTimer(self.bench, self.kernels, traffics, self.regime, self.rng)
        contest = Contest(
            self.bench,
            {"file": duel, A_A: a_a_duel(duel)},
            self.calibration.noise,
            level_per_look(),
            self.rng,
            a_a=A_A,
            each_round=timer.round,
            progress=self.progress,
        )
        fought = contest.run()["file"]
        if isinstance(fought.failed, CandidateFailed):
            return rejected_while_timed(verified.judgement, fought.failed.finding)
        return self._measured(fought, contest, timer.points(), verified, opponents)

    def _measured(
        self,
        fought: Fought,
        contest: Contest,
        roofs: tuple[RoofPoint, ...],
        verified: _Verified,
        opponents: _Opponents,
    ) -> MeasuredFile:
        if isinstance(fought.failed, BaselineFailed):
            raise Transient(why_failed(fought.failed))
        limits = limiting(roofs, fought.duel, self.calibration.fma_gflops[Dtype.F32.value])
        comparison = comparison_of(self.bench, fought, contest.noise_now, RatioKind.SEARCH, limits)
        return MeasuredFile(comparison, verified.judgement, opponents.contenders, roofs)


def rejected_while_timed(judgement: Judgement, finding: Finding) -> Judgement:
    """What was verified before is rejected by V8."""
    message = clip(finding.message, 4096)
    failed = RungResult(
        rung=Rung.TIMED_OUTPUTS,
        version=timed_outputs.VERSION,
        status=RungStatus.FAILED,
        checks=0,
        elapsed_ms=0.0,
        message=clip(message, 1024),
    )
    return judgement.model_copy(
        update={
            "verdict": JudgedAs.REJECTED,
            "rung": Rung.TIMED_OUTPUTS,
            "reason": finding.reason,
            "message": message,
            "worst": finding.worst,
            "rungs": (*judgement.rungs, failed),
            "counterexample": finding.counterexample,
        }
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror or error}") from error
