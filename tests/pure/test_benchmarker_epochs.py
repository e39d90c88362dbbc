"""A benchmarker whose machine changes under it: its noise is forgotten, and the next calibration is a fact."""

from types import SimpleNamespace
from typing import Any, cast

from kernel_lab.measure.bench import Bench
from kernel_lab.measure.calibrate import Calibration
from kernel_lab.measure.drift import EARLIER, RECENT
from kernel_lab.measure.statistics import NOISE_PAIRS, Noise
from schemas.events import CandidateMeasured, CandidateVerified, MachineObserved
from schemas.ids import answer_id
from services.benchmarker.core import Benchmarker, Outcome, Recalibrated, Screen, Screened, Work
from services.benchmarker.work import Station
from tests.fixtures.facts import golden
from tests.pure.test_benchmarker_core import CAUSE, because

VERIFIED = golden(CandidateVerified)
WORK = Screen(VERIFIED.build, VERIFIED.task)
COMPARISON = golden(CandidateMeasured).comparison
CALIBRATION = Calibration((0.0,) * NOISE_PAIRS, {"f32": 1.0}, {"read": 1.0})


class Drifting(Station):
    """A station that is calibrated when it has to be, and finds a baseline as fast as the test says."""

    baseline_ns = 1000.0

    def _perform(self, work: Work) -> Outcome:
        if self.calibration is None:
            self.calibration = CALIBRATION
            self.noise = self.noise.grown(CALIBRATION.a_a)
        row = COMPARISON.shapes[0].model_copy(update={"baseline_ns": self.baseline_ns})
        return Screened(COMPARISON.model_copy(update={"shapes": (row,), "epoch": self.bench.epoch}), worth_more=True)


def station() -> Drifting:
    bench = Bench(VERIFIED.task.machine, "host", cast("Any", None), cast("Any", None), epoch=1)
    return Drifting(
        court=cast("Any", SimpleNamespace(isolation="none")),
        bench=bench,
        kernels=cast("Any", SimpleNamespace(toolchain="gcc")),
        store=cast("Any", None),
        serves_cpu=True,
        serves_null=False,
    )


def test_a_jump_of_the_baseline_forgets_the_noise_and_is_calibrated_and_stated_again() -> None:
    drifting = station()
    first = drifting.perform(WORK)
    assert isinstance(first, Recalibrated)
    assert first.profile.epoch == 1
    for _ in range(EARLIER):
        assert isinstance(drifting.perform(WORK), Screened)
    drifting.baseline_ns = 1400.0
    jumped = [drifting.perform(WORK) for _ in range(RECENT) if drifting.bench.epoch == 1]
    assert all(isinstance(outcome, Screened) for outcome in jumped)
    assert (drifting.bench.epoch, drifting.noise, drifting.calibration) == (2, Noise(), None)
    again = drifting.perform(WORK)
    assert isinstance(again, Recalibrated)
    assert (again.profile.epoch, again.profile.fit) == (2, True)
    assert isinstance(again.outcome, Screened)
    assert again.outcome.comparison.epoch == 2


def test_a_steady_machine_stays_in_its_epoch() -> None:
    drifting = station()
    for turn in range(3 * EARLIER):
        drifting.baseline_ns = 1000.0 + 10.0 * (turn % 5)
        drifting.perform(WORK)
    assert drifting.bench.epoch == 1


def test_a_calibration_on_the_way_is_stated_beside_the_answer_under_an_id_of_its_own() -> None:
    cause, profile = because(CandidateVerified), golden(MachineObserved).profile
    screened = Screened(COMPARISON, worth_more=True)
    observed, measured = Benchmarker().conclude(cause, WORK, Recalibrated(screened, replace_epoch(profile)))
    assert observed.fact == MachineObserved(profile=replace_epoch(profile))
    assert (observed.id, measured.id) == (answer_id(CAUSE, "observe"), answer_id(CAUSE, "measure"))
    assert isinstance(measured.fact, CandidateMeasured)


def replace_epoch(profile: Any) -> Any:
    return profile.model_copy(update={"epoch": 2})
