"""What the benchmarker answers: the strongest baselines, a search number for a candidate, the result of a race."""

from dataclasses import dataclass
from typing import Any, ClassVar, assert_never

from schemas.enums import AbandonReason, Reason, Stage, Target
from schemas.envelope import Draft, Envelope, answer
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
    Fact,
    MachineObserved,
    MeasurementNotRun,
    MeasurementRefused,
    MeasurementRequested,
    RaceDue,
    RaceFinished,
    RaceNotRun,
)
from schemas.faults import Bug
from schemas.measurement import BaselineRace, Comparison, Contender, MachineProfile, Race
from schemas.work import Build, Contestant, Counterexample, Task
from services.runtime.service import Do, Facts, Quiet

BASELINE = "baseline"
MEASURE = "measure"
"""Shared by measured, rejected and abandoned: the first wins."""
REMEASURE = "remeasure"
RACE = "race"
OBSERVE = "observe"


@dataclass(frozen=True)
class ChooseBaselines:
    """Race every contender of this task, an earlier champion among them, and name the strongest for each shape."""

    task: Task
    champion: Contestant | None

    @property
    def quiet(self) -> Quiet:
        return quiet_for(self.task)


@dataclass(frozen=True)
class Screen:
    """Give this verified candidate its cheap look."""

    build: Build
    task: Task

    @property
    def quiet(self) -> Quiet:
        return quiet_for(self.task)


@dataclass(frozen=True)
class Remeasure:
    """Give this candidate, one of the best of its generation, the longer look of a round of halving."""

    build: Build
    task: Task
    round: int

    @property
    def quiet(self) -> Quiet:
        return quiet_for(self.task)


@dataclass(frozen=True)
class RunRace:
    """Race the proven, once, for the result."""

    contestants: tuple[Contestant, ...]
    incumbent: Contestant | None
    task: Task

    @property
    def quiet(self) -> Quiet:
        return quiet_for(self.task)


@dataclass(frozen=True)
class Observe:
    """Say what machine this is, before it is known how noisy it is: whoever waits for it sees that it is coming."""

    @property
    def quiet(self) -> Quiet:
        return Quiet.NONE


@dataclass(frozen=True)
class Calibrate:
    """Look at the machine and measure how noisy it is."""

    @property
    def quiet(self) -> Quiet:
        return Quiet.EXCLUSIVE


Work = ChooseBaselines | Screen | Remeasure | RunRace | Observe | Calibrate


@dataclass(frozen=True)
class Chosen:
    race: BaselineRace


@dataclass(frozen=True)
class NoneFound:
    """No contender is both right and there."""

    message: str
    contenders: tuple[Contender, ...]


@dataclass(frozen=True)
class Screened:
    comparison: Comparison
    worth_more: bool


@dataclass(frozen=True)
class Remeasured:
    comparison: Comparison


@dataclass(frozen=True)
class Refused:
    """The candidate did something while it was timed for which it is rejected."""

    reason: Reason
    message: str
    counterexample: Counterexample | None


@dataclass(frozen=True)
class Raced:
    race: Race


@dataclass(frozen=True)
class NotRun:
    """Something other than a candidate failed: a baseline died, an object cannot be had again."""

    message: str


@dataclass(frozen=True)
class Observed:
    """One profile per real machine that this copy serves and has yet to calibrate."""

    profiles: tuple[MachineProfile, ...]


@dataclass(frozen=True)
class Calibrated:
    """One profile per route that this copy serves."""

    profiles: tuple[MachineProfile, ...]


@dataclass(frozen=True)
class Recalibrated:
    """The machine was calibrated on the way, at the beginning of a new epoch: that is a fact too."""

    outcome: "Outcome"
    profile: MachineProfile


Outcome = Chosen | NoneFound | Screened | Remeasured | Refused | Raced | NotRun | Observed | Calibrated | Recalibrated


class Benchmarker:
    """Says how fast things are, and nothing about whether they are right: that was settled before."""

    name: ClassVar[str] = "benchmarker"
    inputs: ClassVar[tuple[type[Fact], ...]] = (BaselineDue, CandidateVerified, MeasurementRequested, RaceDue)

    def decide(self, cause: Envelope[Any]) -> Do[ChooseBaselines | Screen | Remeasure | RunRace] | Facts:
        match cause.fact:
            case BaselineDue(task=task, champion=champion):
                return Do(ChooseBaselines(task, champion))
            case CandidateVerified(build=build, task=task):
                return Do(Screen(build, task))
            case MeasurementRequested(build=build, task=task, round=round_):
                return Do(Remeasure(build, task, round_))
            case RaceDue(contestants=contestants, incumbent=incumbent, task=task):
                return Do(RunRace(contestants, incumbent, task))
            case other:
                raise Bug(f"{other.TYPE} is no work for the benchmarker")

    def conclude(self, cause: Envelope[Any], work: Work, outcome: Outcome) -> Facts:
        match outcome:
            case Chosen(race):
                return (answer(cause, BASELINE, _chosen(cause.fact, race)),)
            case NoneFound():
                return (answer(cause, BASELINE, _not_found(cause.fact, outcome)),)
            case Screened():
                return (answer(cause, MEASURE, _measured(cause.fact, outcome)),)
            case Remeasured(comparison):
                return (answer(cause, REMEASURE, _remeasured(cause.fact, comparison)),)
            case Refused():
                return (_refused(cause, outcome),)
            case Raced(race):
                return (answer(cause, RACE, _finished(cause.fact, race)),)
            case NotRun(message):
                return self.abandon(cause, AbandonReason.TOOL_FAILURE, message)
            case Recalibrated(inner, profile):
                observed = answer(cause, OBSERVE, MachineObserved(profile=profile))
                return (observed, *self.conclude(cause, work, inner))
            case Observed() | Calibrated():
                raise Bug(f"{type(work).__name__} was answered with a profile")
            case _:
                assert_never(outcome)

    def abandon(self, cause: Envelope[Any], reason: AbandonReason, message: str) -> Facts:
        match cause.fact:
            case BaselineDue() as due:
                return (answer(cause, BASELINE, _baseline_abandoned(due, reason, message)),)
            case CandidateVerified() as verified:
                return (answer(cause, MEASURE, _candidate_abandoned(verified, reason, message)),)
            case MeasurementRequested() as requested:
                return (answer(cause, REMEASURE, _measurement_not_run(requested, reason, message)),)
            case RaceDue() as due:
                return (answer(cause, RACE, _race_not_run(due, reason, message)),)
            case other:
                raise Bug(f"{other.TYPE} is no work for the benchmarker")

    def announce(self) -> tuple[Observe | Calibrate, ...]:
        return Observe(), Calibrate()

    def announced(self, work: Observe | Calibrate, outcome: Outcome) -> tuple[Fact, ...]:
        match outcome:
            case Observed(profiles) | Calibrated(profiles):
                return tuple(MachineObserved(profile=profile) for profile in profiles)
            case other:
                raise Bug(f"{type(work).__name__} was answered with {type(other).__name__}")


def quiet_for(task: Task) -> Quiet:
    """A measurement has its device to itself; the null target has none."""
    return Quiet.NONE if task.target is Target.NULL else Quiet.EXCLUSIVE


def _chosen(due: BaselineDue, race: BaselineRace) -> BaselineChosen:
    return BaselineChosen(goal_id=due.goal_id, attempt=due.attempt, race=race)


def _not_found(due: BaselineDue, none: NoneFound) -> BaselineNotFound:
    return BaselineNotFound(goal_id=due.goal_id, attempt=due.attempt, message=none.message, contenders=none.contenders)


def _measured(verified: CandidateVerified, screened: Screened) -> CandidateMeasured:
    return CandidateMeasured(
        goal_id=verified.goal_id,
        candidate_id=verified.candidate_id,
        generation=verified.generation,
        comparison=screened.comparison,
        worth_more=screened.worth_more,
    )


def _refused(cause: Envelope[Any], refused: Refused) -> Draft[Any]:
    if isinstance(cause.fact, MeasurementRequested):
        return answer(cause, REMEASURE, _measurement_refused(cause.fact, refused))
    return answer(cause, MEASURE, _rejected(cause.fact, refused))


def _remeasured(requested: MeasurementRequested, comparison: Comparison) -> CandidateRemeasured:
    return CandidateRemeasured(
        goal_id=requested.goal_id,
        candidate_id=requested.candidate_id,
        generation=requested.generation,
        round=requested.round,
        comparison=comparison,
    )


def _measurement_refused(requested: MeasurementRequested, refused: Refused) -> MeasurementRefused:
    found = refused.counterexample
    return MeasurementRefused(
        goal_id=requested.goal_id,
        candidate_id=requested.candidate_id,
        generation=requested.generation,
        round=requested.round,
        reason=refused.reason,
        message=refused.message,
        counterexample=found and found.model_copy(update={"found_by": requested.candidate_id}),
    )


def _measurement_not_run(requested: MeasurementRequested, reason: AbandonReason, message: str) -> MeasurementNotRun:
    return MeasurementNotRun(
        goal_id=requested.goal_id,
        candidate_id=requested.candidate_id,
        generation=requested.generation,
        round=requested.round,
        reason=reason,
        message=message,
    )


def _rejected(verified: CandidateVerified, refused: Refused) -> CandidateRejected:
    found = refused.counterexample
    return CandidateRejected(
        goal_id=verified.goal_id,
        candidate_id=verified.candidate_id,
        generation=verified.generation,
        stage=Stage.MEASURE,
        reason=refused.reason,
        message=refused.message,
        counterexample=found and found.model_copy(update={"found_by": verified.candidate_id}),
    )


def _finished(due: RaceDue, race: Race) -> RaceFinished:
    return RaceFinished(goal_id=due.goal_id, attempt=due.attempt, race=race)


def _baseline_abandoned(due: BaselineDue, reason: AbandonReason, message: str) -> BaselineAbandoned:
    return BaselineAbandoned(goal_id=due.goal_id, attempt=due.attempt, reason=reason, message=message)


def _candidate_abandoned(verified: CandidateVerified, reason: AbandonReason, message: str) -> CandidateAbandoned:
    return CandidateAbandoned(
        goal_id=verified.goal_id,
        candidate_id=verified.candidate_id,
        generation=verified.generation,
        stage=Stage.MEASURE,
        reason=reason,
        message=message,
    )


def _race_not_run(due: RaceDue, reason: AbandonReason, message: str) -> RaceNotRun:
    return RaceNotRun(goal_id=due.goal_id, attempt=due.attempt, reason=reason, message=message)
