"""The benchmarker's effect on real kernels: baselines, a screen and a race of one small goal; one file by itself."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from kernel_lab.backends.backend import Built
from kernel_lab.baselines import ContenderSpec, c_source, contenders
from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, open_bench, start
from kernel_lab.measure.calibrate import Effort
from kernel_lab.measure.contending import Contending
from kernel_lab.measure.contents import Rotation
from kernel_lab.measure.file import MeasuredFile, Terms, measure_file
from kernel_lab.measure.own_kernels import OwnKernels, build_own_kernels
from kernel_lab.measure.profile import calibrate_here
from kernel_lab.measure.roofs import RoofTimer, fma_peak_gflops, traffic_of
from kernel_lab.measure.statistics import NOISE_PAIRS
from kernel_lab.runner.arm import LoadFailed, Returned
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.subject import Depth, Plan
from schemas.enums import Dtype, JudgedAs, Language, RatioKind, Regime, Target, Verdict
from schemas.goal import Constraints
from schemas.ids import NULL_ROUTE
from schemas.measurement import Contender
from schemas.verdict import Judgement
from schemas.work import Artifact, Baseline, Build, Contestant, Kernel, Task
from services.benchmarker.core import (
    Calibrate,
    Calibrated,
    ChooseBaselines,
    Chosen,
    NotRun,
    Raced,
    Recalibrated,
    RunRace,
    Screen,
    Screened,
)
from services.benchmarker.samples import race_that_fits
from services.benchmarker.work import Station, open_effect
from services.runtime.artifacts import ArtifactStore
from services.runtime.settings import Settings
from tests.integration.measure_lab import QUIET_MACHINE, SHAPE, SHORT, SUM, RetellingLab, calm

pytestmark = pytest.mark.alone

MACHINE = machine_class()
SHORTEST = replace(SHORT, looks=(2, 3), screen_quads=1)
CANDIDATE = UUID("22222222-2222-2222-2222-222222222222")


@pytest.fixture(scope="module")
def court() -> Court:
    return open_court("auto")


@pytest.fixture
def bench(court: Court) -> Bench:
    """A short schedule, deaf to what else this machine does."""
    small_cache = MACHINE.model_copy(update={"llc_bytes": 8 << 20})  # bandwidth is measured over twice of it
    return replace(open_bench(court.lab, small_cache, "test", SHORTEST), start_arm=RetellingLab(court.lab, calm))


@pytest.fixture
def kernels(court: Court, tmp_path: Path) -> OwnKernels:
    return build_own_kernels(court.backend, MACHINE, tmp_path / "own")


@pytest.fixture
def station(court: Court, bench: Bench, kernels: OwnKernels, tmp_path: Path) -> Station:
    return Station(
        court, bench, kernels, ArtifactStore((tmp_path / "artifacts").as_uri()), serves_cpu=True, serves_null=True
    )


def task(**changes: object) -> Task:
    small = Task(
        goal_id="g1",
        workload="reduce_sum",
        dtype=Dtype.F32,
        target=Target.CPU,
        route=MACHINE.route,
        machine=MACHINE,
        languages=(Language.C,),
        shapes=(SHAPE,),
        regime=Regime.HOT,
        min_gain=0.02,
        tolerance_scale=1.0,
        constraints=Constraints(max_threads=1),
        hold_out_gap_s=0.0,
    )
    return small.model_copy(update=changes)


def built_by(station: Station, spec: ContenderSpec, entry: str = "reduce_sum") -> Build:
    assert spec.kernel is not None
    built = station.court.backend.compile(spec.kernel, entry, MACHINE)
    assert isinstance(built, Built)
    stored = station.store.put(built.object)
    return Build(kernel=spec.kernel, object=stored, command=built.command, toolchain=built.toolchain)


@pytest.mark.slow
def test_a_small_goal_is_measured_from_its_baselines_to_its_race(station: Station) -> None:
    calibrated = station.perform(Calibrate())
    assert isinstance(calibrated, Calibrated)
    assert [profile.machine.route for profile in calibrated.profiles] == [MACHINE.route, NULL_ROUTE]
    assert calibrated.profiles[0].fma_gflops["f32"] > 0
    station.noise = QUIET_MACHINE  # this test is about the path, not about this machine's noise

    earlier = built_by(station, contenders("reduce_sum", MACHINE, 1)[0])
    champion = Contestant(candidate_id=CANDIDATE, build=earlier, search_ratio=None)
    chosen = station.perform(ChooseBaselines(task(), champion))
    assert isinstance(chosen, Chosen)
    names = {contender.name for contender in chosen.race.contenders}
    assert names == {spec.name for spec in contenders("reduce_sum", MACHINE, 1)} | {"champion"}
    assert all(len(c.median_ns) == 1 for c in chosen.race.contenders if c.status in ("raced", "screened"))
    assert sum(c.status == "raced" for c in chosen.race.contenders) == 2
    assert chosen.race.roofs[0].bytes_moved == SUM.bytes_moved(SHAPE.axes)

    due = task(baselines=chosen.race.strongest)
    slowest = next(s for s in contenders("reduce_sum", MACHINE, 1) if s.name.startswith("c_naive_one_o3"))
    screened = station.perform(Screen(built_by(station, slowest), due))
    assert isinstance(screened, Screened)
    assert screened.comparison.kind is RatioKind.SEARCH
    assert screened.comparison.shapes[0].baseline == chosen.race.strongest[0].name

    contestant = Contestant(candidate_id=CANDIDATE, build=built_by(station, slowest), search_ratio=0.5)
    raced = station.perform(RunRace((contestant,), contestant, due))
    assert isinstance(raced, Raced)
    entrant = raced.race.entrants[0]
    assert entrant.comparison.kind is RatioKind.HOLD_OUT
    assert entrant.comparison.verdict is Verdict.UNFIT or entrant.comparison.shapes[0].roof_ns is not None
    assert (entrant.comparison.verdict is Verdict.UNFIT) == (not raced.race.fit)
    assert entrant.against_incumbent is not None
    assert raced.race.a_a.verdict not in (Verdict.FASTER, Verdict.SLOWER)
    assert raced.race.seeds["race"] > 0
    assert len(station.noise.values) > len(QUIET_MACHINE.values)

    moved = race_that_fits(raced.race, station.store)
    assert moved == raced.race


@pytest.mark.slow
def test_a_lost_object_is_rebuilt_to_the_same_bytes_or_the_work_is_not_done(station: Station, tmp_path: Path) -> None:
    build = built_by(station, contenders("reduce_sum", MACHINE, 1)[0])
    emptied = replace(station, store=ArtifactStore((tmp_path / "emptied").as_uri()))
    emptied.noise = QUIET_MACHINE
    same_on_both_sides = Baseline(name="itself", axes=SHAPE.axes, median_ns=1.0, artifact=build)
    calibrated_on_the_way = emptied.perform(Screen(build, task(baselines=(same_on_both_sides,))))
    assert isinstance(calibrated_on_the_way, Recalibrated)
    assert isinstance(calibrated_on_the_way.outcome, Screened)
    other = build.model_copy(update={"object": build.object.model_copy(update={"sha256": "0" * 64})})
    outcome = emptied.perform(Screen(other, task(baselines=(same_on_both_sides,))))
    assert isinstance(outcome, NotRun)
    assert "lost" in outcome.message


def test_null_work_is_answered_at_once_and_always_the_same(tmp_path: Path) -> None:
    perform = open_effect(Settings(data_dir=tmp_path, null_route=True))
    null = task(target=Target.NULL, route=NULL_ROUTE)
    chosen = perform(ChooseBaselines(null, None))
    assert isinstance(chosen, Chosen)
    kernel = Kernel(language=Language.NULL, source="null", fingerprint="f1")
    build = Build(kernel=kernel, object=Artifact(sha256="0" * 64, uri="null", size=0), command=(), toolchain="null")
    first, again = (perform(Screen(build, null)) for _ in range(2))
    assert isinstance(first, Screened)
    assert first == again
    raced = perform(RunRace((Contestant(candidate_id=CANDIDATE, build=build, search_ratio=1.0),), None, null))
    assert isinstance(raced, Raced)


@pytest.mark.parametrize("traffic", [(1000, 1000), (1 << 18, 1 << 18), (1 << 18, 1), (100, 5000)])
def test_the_roof_kernels_move_what_they_say(bench: Bench, kernels: OwnKernels, traffic: tuple[int, int]) -> None:
    axes = {"R": traffic[0], "W": traffic[1]}
    for kernel in (kernels.ordinary, kernels.streaming, kernels.prefetching):
        arena = bench.new_arena()
        data = Rotation(arena, kernel.workload, axes, 1, np.random.default_rng(1))
        watched = data.watch().contents[0]
        racer = kernel.racer("mover", MACHINE.threads)
        arm = start(bench, racer, kernel.workload)
        assert not isinstance(arm, LoadFailed)
        with arm:
            assert isinstance(arm.call(watched.buffers, {}), Returned)
        want = kernel.workload.reference(watched.inputs, axes, {})["y"]
        assert np.array_equal(watched.buffers.output("y"), want)
        data.close()
        arena.close()


def test_roofs_and_peaks_are_plausible(bench: Bench, kernels: OwnKernels) -> None:
    timer = RoofTimer(bench, kernels, [traffic_of(SUM, SHAPE.axes)], Regime.HOT, np.random.default_rng(1))
    timer.round()
    (point,) = timer.points()
    assert point.bytes_moved == SUM.bytes_moved(SHAPE.axes)
    assert 0 < point.bytes_moved / point.best_ns < 10_000
    assert 0.1 < fma_peak_gflops(bench, kernels, np.random.default_rng(1)) / MACHINE.threads < 10_000


HONEST_FILE = """void reduce_sum(const float *x, float *y, int64_t N) {
    double s = 0;
    for (int64_t i = 0; i < N; i++) s += x[i];
    y[0] = (float)s;
}
"""
QUICK = Terms(SHORTEST, Effort(pairs=NOISE_PAIRS, regime=Regime.HOT, bandwidth_rounds=1), Regime.HOT, Depth.CHEAP)


@pytest.mark.slow
def test_a_file_is_measured_against_another_after_both_were_verified(tmp_path: Path) -> None:
    path = tmp_path / "sum.c"
    path.write_text("#include <stdint.h>\n" + HONEST_FILE)
    seen: list[str] = []
    measured = measure_file(
        path, SUM, path, (SHAPE,), progress=lambda doing, _done, _of: seen.append(doing), terms=QUICK
    )
    assert isinstance(measured, MeasuredFile)
    assert measured.judgement.verdict is JudgedAs.VERIFIED
    assert measured.comparison.verdict not in (Verdict.FASTER, Verdict.SLOWER)
    assert {"verifying", "A/A pairs", "pairs"} <= set(seen)


def test_a_file_that_is_not_verified_gets_no_number(tmp_path: Path) -> None:
    path = tmp_path / "zero.c"
    path.write_text("#include <stdint.h>\n" + HONEST_FILE.replace("(float)s", "0"))
    judged = measure_file(path, SUM, "best", (SHAPE,), terms=QUICK)
    assert isinstance(judged, Judgement)
    assert judged.verdict is JudgedAs.REJECTED


def test_a_baseline_that_fails_verification_is_refused_and_said_so(court: Court, tmp_path: Path) -> None:
    wrong = c_source("reduce_sum", "naive", parallel=False).replace("+=", "=")
    kernel = Kernel(language=Language.C, source=wrong, fingerprint="wrong")
    spec = ContenderSpec("c_wrong", "keeps the last element only", 1, kernel=kernel)
    contending = Contending(court, MACHINE, SUM, Plan((SHAPE,)), tmp_path)
    refused = contending.ready(spec)
    assert isinstance(refused, Contender)
    assert refused.status == "refused"
    assert refused.message
    absent = contending.ready(replace(spec, absent="torch absent"))
    assert isinstance(absent, Contender)
    assert (absent.status, absent.message) == ("absent", "torch absent")


@pytest.mark.slow
def test_a_machine_is_calibrated_with_no_bus() -> None:
    seen: list[str] = []
    effort = Effort(pairs=3, regime=Regime.HOT, bandwidth_rounds=1)
    profile = calibrate_here(effort=effort, progress=lambda doing, _done, _of: seen.append(doing))
    assert profile.machine == MACHINE
    assert set(profile.copy_gbps) == {"read", "copy", "streaming_copy"}
    assert (profile.noise_floor, profile.fit) == (None, False), "three pairs are no calibration"
    assert "A/A pairs" in seen
