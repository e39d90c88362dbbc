"""The benchmarker: baselines, search numbers and races, each under one id; nothing measured of what went wrong."""

from typing import Any
from uuid import UUID

import pytest

from schemas.enums import AbandonReason, RatioKind, Reason, Regime, Stage, Target, Verdict
from schemas.envelope import Envelope
from schemas.events import (
    BaselineAbandoned,
    BaselineChosen,
    BaselineDue,
    BaselineNotFound,
    CandidateAbandoned,
    CandidateMeasured,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    GenerationDue,
    MachineObserved,
    MeasurementNotRun,
    MeasurementRefused,
    MeasurementRequested,
    RaceDue,
    RaceFinished,
    RaceNotRun,
)
from schemas.faults import Bug
from schemas.goal import Shape
from schemas.ids import answer_id
from schemas.work import Counterexample
from services.benchmarker.core import (
    Benchmarker,
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
    Refused,
    Remeasure,
    Remeasured,
    RunRace,
    Screen,
    Screened,
)
from services.runtime.routes import INPUTS
from services.runtime.service import Do, Quiet
from tests.fixtures.facts import BEGIN, golden

CAUSE = UUID("11111111-1111-1111-1111-111111111111")
SHAPES = (Shape(axes={"T": 1, "H": 8}),)


def because(fact: type[Any], **changes: Any) -> Envelope[Any]:
    return Envelope(CAUSE, golden(fact, **changes), "assay/test/1", BEGIN)


def concluded(cause: Envelope[Any], outcome: Outcome) -> Any:
    """The one fact that the core states, its id checked against the decision's slot."""
    core = Benchmarker()
    decided = core.decide(cause)
    assert isinstance(decided, Do)
    (draft,) = core.conclude(cause, decided.work, outcome)
    assert draft.id == answer_id(CAUSE, SLOTS[type(cause.fact)])
    return draft.fact


SLOTS: dict[type[Any], str] = {
    BaselineDue: "baseline",
    CandidateVerified: "measure",
    MeasurementRequested: "remeasure",
    RaceDue: "race",
}


def test_the_benchmarker_takes_the_work_that_the_queue_brings() -> None:
    assert Benchmarker.inputs == INPUTS[Benchmarker.name]


def test_each_input_asks_for_its_own_work() -> None:
    due, verified, race = because(BaselineDue), because(CandidateVerified), because(RaceDue)
    assert Benchmarker().decide(due) == Do(ChooseBaselines(due.fact.task, due.fact.champion))
    assert Benchmarker().decide(verified) == Do(Screen(verified.fact.build, verified.fact.task))
    requested = because(MeasurementRequested).fact
    again = Remeasure(requested.build, requested.task, requested.round)
    assert Benchmarker().decide(because(MeasurementRequested)) == Do(again)
    fact = race.fact
    assert Benchmarker().decide(race) == Do(RunRace(fact.contestants, fact.incumbent, fact.task))


def test_other_facts_are_no_work() -> None:
    with pytest.raises(Bug):
        Benchmarker().decide(because(GenerationDue))


def test_a_measurement_has_its_device_to_itself_and_a_null_one_takes_no_lock() -> None:
    task = golden(BaselineDue).task
    assert ChooseBaselines(task, None).quiet is Quiet.EXCLUSIVE
    assert Calibrate().quiet is Quiet.EXCLUSIVE
    null = task.model_copy(update={"target": Target.NULL})
    assert ChooseBaselines(null, None).quiet is Quiet.NONE


def test_the_strongest_baselines_are_stated_with_everyone_raced() -> None:
    due, race = because(BaselineDue), golden(BaselineChosen).race
    fact = concluded(due, Chosen(race))
    assert fact == BaselineChosen(goal_id=due.fact.goal_id, attempt=due.fact.attempt, race=race)


def test_no_honest_baseline_ends_with_every_refusal_said() -> None:
    contenders = golden(BaselineChosen).race.contenders
    fact = concluded(because(BaselineDue), NoneFound("none is right", contenders))
    assert isinstance(fact, BaselineNotFound)
    assert (fact.message, fact.contenders) == ("none is right", contenders)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verified_candidate_is_measured_once_whatever_the_verdict(verdict: Verdict) -> None:
    comparison = golden(CandidateMeasured).comparison.model_copy(update={"verdict": verdict})
    cause = because(CandidateVerified)
    fact = concluded(cause, Screened(comparison, worth_more=False))
    assert isinstance(fact, CandidateMeasured)
    assert (fact.candidate_id, fact.comparison, fact.worth_more) == (cause.fact.candidate_id, comparison, False)


def test_a_candidate_that_misbehaves_while_timed_is_rejected_with_its_counterexample() -> None:
    caught = Counterexample(workload="rms_norm", axes={"T": 1, "H": 8}, distribution="normal", seed=5)
    cause = because(CandidateVerified)
    fact = concluded(cause, Refused(Reason.OUT_OF_BOUND, "timed outputs: y[0, 0]", caught))
    assert isinstance(fact, CandidateRejected)
    assert (fact.stage, fact.reason) == (Stage.MEASURE, Reason.OUT_OF_BOUND)
    assert fact.counterexample is not None
    assert fact.counterexample.found_by == cause.fact.candidate_id


def test_a_longer_look_is_stated_with_its_round() -> None:
    cause, comparison = because(MeasurementRequested, round=2), golden(CandidateMeasured).comparison
    fact = concluded(cause, Remeasured(comparison))
    assert isinstance(fact, CandidateRemeasured)
    assert (fact.candidate_id, fact.round, fact.comparison) == (cause.fact.candidate_id, 2, comparison)


def test_a_candidate_that_misbehaves_on_its_longer_look_is_refused_under_the_same_id() -> None:
    caught = Counterexample(workload="rms_norm", axes={"T": 1, "H": 8}, distribution="normal", seed=5)
    cause = because(MeasurementRequested, round=1)
    fact = concluded(cause, Refused(Reason.OUT_OF_BOUND, "timed outputs: y[0, 0]", caught))
    assert isinstance(fact, MeasurementRefused)
    assert (fact.round, fact.reason, fact.stage) == (1, Reason.OUT_OF_BOUND, Stage.MEASURE)
    assert fact.counterexample is not None
    assert fact.counterexample.found_by == cause.fact.candidate_id


def test_a_race_is_stated_as_it_went() -> None:
    due, race = because(RaceDue), golden(RaceFinished).race
    assert concluded(due, Raced(race)) == RaceFinished(goal_id=due.fact.goal_id, attempt=due.fact.attempt, race=race)


@pytest.mark.parametrize(
    ("fact", "stated"),
    [
        (BaselineDue, BaselineAbandoned),
        (CandidateVerified, CandidateAbandoned),
        (MeasurementRequested, MeasurementNotRun),
        (RaceDue, RaceNotRun),
    ],
)
def test_work_that_could_not_be_done_is_settled_under_its_own_id(fact: type[Any], stated: type[Any]) -> None:
    cause = because(fact)
    (draft,) = Benchmarker().abandon(cause, AbandonReason.WORKER_LOST, "handed out too often")
    assert draft.id == answer_id(CAUSE, SLOTS[fact])
    assert isinstance(draft.fact, stated)
    assert draft.fact.reason is AbandonReason.WORKER_LOST
    assert isinstance(concluded(cause, NotRun("the baseline died")), stated)


def test_a_copy_says_what_machine_it_stands_on_before_it_calibrates() -> None:
    observe, calibrate = Benchmarker().announce()
    assert (observe, calibrate) == (Observe(), Calibrate())
    assert observe.quiet is Quiet.NONE, "it may be said while somebody measures"
    profile = golden(MachineObserved).profile.model_copy(update={"fit": None})
    assert Benchmarker().announced(observe, Observed((profile,))) == (MachineObserved(profile=profile),)
    with pytest.raises(Bug):
        Benchmarker().announced(observe, NotRun("no"))


def test_a_copy_announces_a_profile_for_each_route_it_serves() -> None:
    profile = golden(MachineObserved).profile
    stated = Benchmarker().announced(Calibrate(), Calibrated((profile, profile)))
    assert stated == (MachineObserved(profile=profile),) * 2
    with pytest.raises(Bug):
        Benchmarker().announced(Calibrate(), NotRun("no"))


def test_a_null_goal_has_fast_and_slow_kernels_and_a_race_that_confirms_them() -> None:
    from kernel_lab.measure.null import pretended_comparison, pretended_race, pretended_ratio

    ratios = [pretended_ratio(f"kernel {i}") for i in range(200)]
    assert min(ratios) < 0.9
    assert max(ratios) > 1.2
    due = golden(RaceDue)
    race = pretended_race(due.task, due.contestants, due.incumbent)
    assert [entrant.candidate_id for entrant in race.entrants] == [c.candidate_id for c in due.contestants]
    fast = next(f"kernel {i}" for i, ratio in enumerate(ratios) if ratio > 1.2)
    comparison = pretended_comparison(fast, RatioKind.HOLD_OUT, SHAPES, Regime.COLD)
    assert comparison.verdict is Verdict.FASTER
    assert comparison == pretended_comparison(fast, RatioKind.HOLD_OUT, SHAPES, Regime.COLD)
