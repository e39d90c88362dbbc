"""Every fact, one frozen class each, in the order of a goal's path. A type string is written once, here.

Rules: a fact is a past participle; it is published once, recorded once, never changed. A new version of a fact is a
new class with a new type string, and an upcaster in `schemas/upcasters.py`.
"""

from datetime import datetime
from typing import ClassVar, Literal, get_args
from uuid import UUID

from pydantic import Field

from schemas.certificate import Certificate
from schemas.enums import (
    AbandonReason,
    EndedBy,
    Outcome,
    Phase,
    Reason,
    Rung,
    Stage,
    SteerAction,
)
from schemas.goal import Goal
from schemas.ids import ANY_ROUTE, GoalId, Route
from schemas.measurement import BaselineRace, Comparison, Contender, Interval, MachineProfile, Race
from schemas.model import Model
from schemas.steering import Ban, Extension, Hint
from schemas.verdict import Judgement
from schemas.work import Build, Counterexample, Kernel, MachineClass, Task


class Fact(Model):
    """Base of every fact. `TYPE` is `<noun>.<participle>.v<version>`."""

    TYPE: ClassVar[str]

    @property
    def routed_to(self) -> Route:
        """The route token of the subject."""
        task: Task | None = getattr(self, "task", None)
        return task.route if task else ANY_ROUTE

    @property
    def about_goal(self) -> GoalId | None:
        """The goal token of the subject."""
        goal_id: GoalId | None = getattr(self, "goal_id", None)
        return goal_id


class Problem(Model):
    """One thing wrong with a request."""

    path: str
    """JSON path, e.g. `$.budget.wall`."""
    message: str
    hint: str = ""


class RawRequest(Model):
    """A request exactly as it came, inside the fact that answers it."""

    subject: str
    sha256: str
    size: int
    body: str
    """UTF-8 when it is, else base64; cut at 64 KiB, which `encoding` says."""
    encoding: Literal["utf-8", "base64", "utf-8-cut", "base64-cut"]
    author: str = "unsigned"


# ---- the desk ------------------------------------------------------------------------------------------------------


class GoalAccepted(Fact):
    TYPE = "goal.accepted.v1"
    goal_id: GoalId
    goal: Goal
    request: RawRequest


class GoalRefused(Fact):
    TYPE = "goal.refused.v1"
    goal_id: GoalId | None
    problems: tuple[Problem, ...]
    request: RawRequest

    @property
    def about_goal(self) -> GoalId | None:
        return None  # a refusal must not shadow a goal of the same id


class GoalSteered(Fact):
    TYPE = "goal.steered.v1"
    goal_id: GoalId
    action: SteerAction
    reason: str
    request: RawRequest
    extend: Extension | None = None
    hint: Hint | None = None
    pin: UUID | None = None
    """A candidate that shall be a finalist."""
    ban: Ban | None = None
    confirm: UUID | None = None
    """A raced candidate whose quarantined result a person vouches for."""


class SteerRefused(Fact):
    TYPE = "steer.refused.v1"
    goal_id: GoalId | None
    problems: tuple[Problem, ...]
    request: RawRequest

    @property
    def about_goal(self) -> GoalId | None:
        return None


class CandidateRefused(Fact):
    """A kernel from outside that the desk did not admit. No candidate exists."""

    TYPE = "candidate.refused.v1"
    goal_id: GoalId | None
    problems: tuple[Problem, ...]
    request: RawRequest

    @property
    def about_goal(self) -> GoalId | None:
        return None


# ---- baselines -----------------------------------------------------------------------------------------------------


class Contestant(Model):
    """A proven finalist, or an earlier champion, as a race needs it."""

    candidate_id: UUID
    build: Build
    search_ratio: float | None


class BaselineDue(Fact):
    TYPE = "baseline.due.v1"
    goal_id: GoalId
    position: int
    attempt: int
    champion: Contestant | None
    """The latest champion of the same workload, shapes and route: a baseline like any other."""
    task: Task


class BaselineChosen(Fact):
    TYPE = "baseline.chosen.v1"
    goal_id: GoalId
    attempt: int
    race: BaselineRace


class BaselineNotFound(Fact):
    """No contender passed verification: there is nothing honest to compare with. Ends the goal."""

    TYPE = "baseline.not_found.v1"
    goal_id: GoalId
    attempt: int
    message: str
    contenders: tuple[Contender, ...] = ()


class BaselineAbandoned(Fact):
    TYPE = "baseline.abandoned.v1"
    goal_id: GoalId
    attempt: int
    reason: AbandonReason
    message: str


# ---- generations ---------------------------------------------------------------------------------------------------


class GenerationDue(Fact):
    TYPE = "generation.due.v1"
    goal_id: GoalId
    generation: int
    attempt: int
    position: int
    """The proposer's brief is the log up to exactly here."""
    seed: int
    size: int
    task: Task


class CandidateProposed(Fact):
    """The candidate's id is this fact's event id. Stated by a proposer, or by the desk about what was submitted."""

    TYPE = "candidate.proposed.v1"
    goal_id: GoalId
    generation: int
    """Of a submission: the one that was open, or the next."""
    island: int
    strategy: str
    author: str
    """`assay/proposer/<strategy>`, or `unsigned/<name>` as the submitter calls himself."""
    parents: tuple[UUID, ...]
    kernel: Kernel
    task: Task
    note: str = ""
    """What the submitter says of it."""
    request: RawRequest | None = None
    """Of a submission."""

    @property
    def submitted(self) -> bool:
        """It came from outside, through the desk."""
        return self.request is not None


class GenerationOpened(Fact):
    TYPE = "generation.opened.v1"
    goal_id: GoalId
    generation: int
    candidate_ids: tuple[UUID, ...]


class SearchExhausted(Fact):
    TYPE = "search.exhausted.v1"
    goal_id: GoalId
    generation: int
    message: str


class GenerationAbandoned(Fact):
    TYPE = "generation.abandoned.v1"
    goal_id: GoalId
    generation: int
    attempt: int
    reason: AbandonReason
    message: str


class CandidateCompiled(Fact):
    TYPE = "candidate.compiled.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    build: Build
    compile_ms: float
    warnings: str
    task: Task


class CandidateVerified(Fact):
    TYPE = "candidate.verified.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    build: Build
    judgement: Judgement
    task: Task


class CandidateMeasured(Fact):
    """A search measurement: it guides the search and is never a result."""

    TYPE = "candidate.measured.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    comparison: Comparison
    worth_more: bool
    """False when the screen was clearly below 0.9."""


class MeasurementRequested(Fact):
    """A measured candidate is among the best of its generation and is measured again, longer (successive halving)."""

    TYPE = "measurement.requested.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int = Field(ge=1)
    position: int
    build: Build
    task: Task


class CandidateRemeasured(Fact):
    """A longer search measurement, which replaces the one before it. Still never a result."""

    TYPE = "candidate.remeasured.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int
    comparison: Comparison


class MeasurementRefused(Fact):
    """The candidate did something while it was measured again for which it is out: its numbers count no more."""

    TYPE = "measurement.refused.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int
    reason: Reason
    message: str
    counterexample: Counterexample | None = None

    @property
    def stage(self) -> Stage:
        return Stage.MEASURE


class MeasurementNotRun(Fact):
    """Nobody's fault: the candidate keeps the number that it had."""

    TYPE = "measurement.not_run.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    round: int
    reason: AbandonReason
    message: str


class CandidateRejected(Fact):
    TYPE = "candidate.rejected.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    stage: Stage
    reason: Reason
    message: str
    diagnostics: str = ""
    judgement: Judgement | None = None
    counterexample: Counterexample | None = None


class CandidateAbandoned(Fact):
    TYPE = "candidate.abandoned.v1"
    goal_id: GoalId
    candidate_id: UUID
    generation: int
    stage: Stage
    reason: AbandonReason
    message: str


class CounterexampleKept(Fact):
    TYPE = "counterexample.kept.v1"
    goal_id: GoalId
    counterexample: Counterexample


class CounterexampleWithdrawn(Fact):
    """A person said why a kept input is no evidence against anybody. It is tried no more, and not kept again."""

    TYPE = "counterexample.withdrawn.v1"
    kept_id: UUID
    """The id of the `counterexample.kept` that is withdrawn."""
    counterexample: Counterexample
    reason: str
    request: RawRequest


class WithdrawalRefused(Fact):
    TYPE = "withdrawal.refused.v1"
    problems: tuple[Problem, ...]
    request: RawRequest


class Lesson(Model):
    """A statement with its evidence, computed from the log, superseded by newer ones, never written by hand."""

    workload: str
    condition: dict[str, str]
    """For example {"machine": "cpu_1a2b3c4d", "gene": "streaming", "value": "true"}."""
    statement: str
    effect: Interval | None
    """Search ratio of candidates with the gene value over those without; absent for lessons about failures."""
    count: int
    failures: dict[str, int]
    """Rejections under this condition, by reason."""


class LessonRecorded(Fact):
    TYPE = "lesson.recorded.v1"
    goal_id: GoalId
    generation: int
    lesson: Lesson
    evidence: tuple[UUID, ...]
    """Candidates counted, at most 64 named."""


class GenerationClosed(Fact):
    TYPE = "generation.closed.v1"
    goal_id: GoalId
    generation: int
    proposed: int
    compiled: int
    verified: int
    measured: int
    rejected: dict[str, int]
    """By reason."""
    abandoned: int
    best_candidate: UUID | None
    best_search_ratio: float | None


# ---- finals --------------------------------------------------------------------------------------------------------


class FinalsDue(Fact):
    TYPE = "finals.due.v1"
    goal_id: GoalId
    attempt: int
    position: int
    ended_by: EndedBy
    finalists: int
    task: Task


class FinalistNominated(Fact):
    """The finalist's id is its candidate's id."""

    TYPE = "finalist.nominated.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    rank: int
    search_ratio: float
    build: Build
    task: Task


class FinalsOpened(Fact):
    TYPE = "finals.opened.v1"
    goal_id: GoalId
    attempt: int
    candidate_ids: tuple[UUID, ...]


class FinalsAbandoned(Fact):
    TYPE = "finals.abandoned.v1"
    goal_id: GoalId
    attempt: int
    reason: AbandonReason
    message: str


class FinalistProven(Fact):
    TYPE = "finalist.proven.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    build: Build
    judgement: Judgement


class FinalistRejected(Fact):
    TYPE = "finalist.rejected.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    reason: Reason
    rung: Rung | None
    message: str
    judgement: Judgement | None = None
    counterexample: Counterexample | None = None


class FinalistAbandoned(Fact):
    TYPE = "finalist.abandoned.v1"
    goal_id: GoalId
    candidate_id: UUID
    attempt: int
    reason: AbandonReason
    message: str


class RaceDue(Fact):
    TYPE = "race.due.v1"
    goal_id: GoalId
    attempt: int
    position: int
    contestants: tuple[Contestant, ...] = Field(min_length=1, max_length=5)
    incumbent: Contestant | None
    """The best earlier champion of the same workload, shapes and route."""
    task: Task


class RaceFinished(Fact):
    TYPE = "race.finished.v1"
    goal_id: GoalId
    attempt: int
    race: Race


class RaceNotRun(Fact):
    TYPE = "race.not_run.v1"
    goal_id: GoalId
    attempt: int
    reason: AbandonReason
    message: str


class ChampionCrowned(Fact):
    TYPE = "champion.crowned.v1"
    goal_id: GoalId
    candidate_id: UUID
    workload: str
    route: Route
    build: Build
    comparison: Comparison
    """The hold-out race. Search numbers never reach here."""
    search_ratio: float | None
    lessons: tuple[str, ...]
    """Statements of the lessons whose condition the champion's genome meets."""


class GoalCompleted(Fact):
    TYPE = "goal.completed.v1"
    goal_id: GoalId
    ended_by: EndedBy
    outcome: Outcome
    champion_id: UUID | None
    message: str


# ---- time and machines ---------------------------------------------------------------------------------------------


class GoalTimedOut(Fact):
    """The deadline passed. In the search phase this settles all open search work."""

    TYPE = "goal.timed_out.v1"
    goal_id: GoalId
    phase: Phase
    deadline: datetime


class MachineObserved(Fact):
    """A benchmarker said what machine it stands on, at start and at each calibration."""

    TYPE = "machine.observed.v1"
    profile: MachineProfile

    @property
    def routed_to(self) -> Route:
        return self.profile.machine.route


class RouteAvailable(Fact):
    """Work for this route can be done now; its consumers exist."""

    TYPE = "route.available.v1"
    machine: MachineClass

    @property
    def routed_to(self) -> Route:
        return self.machine.route


class RouteLost(Fact):
    TYPE = "route.lost.v1"
    route: Route
    last_seen: datetime

    @property
    def routed_to(self) -> Route:
        return self.route


# ---- who states ----------------------------------------------------------------------------------------------------


class KeyCertified(Fact):
    """A service's key and the bootstrap's word for it. Stated by the service itself before anything that it signs:
    the certificate proves itself to whoever knows the bootstrap key's fingerprint."""

    TYPE = "key.certified.v1"
    certificate: Certificate


class EpochOpened(Fact):
    """The fact stream was lost or recreated, and an operator let the log go on with it as it is now."""

    TYPE = "epoch.opened.v1"
    epoch: str
    first_seq: int
    """The new stream is recorded from here on."""
    position: int
    """Where the log ended then."""
    previous_epoch: str
    previous_seq: int
    """The old stream was recorded up to here."""
    reason: str


AnyFact = (
    GoalAccepted
    | GoalRefused
    | GoalSteered
    | SteerRefused
    | CandidateRefused
    | BaselineDue
    | BaselineChosen
    | BaselineNotFound
    | BaselineAbandoned
    | GenerationDue
    | CandidateProposed
    | GenerationOpened
    | SearchExhausted
    | GenerationAbandoned
    | CandidateCompiled
    | CandidateVerified
    | CandidateMeasured
    | MeasurementRequested
    | CandidateRemeasured
    | MeasurementRefused
    | MeasurementNotRun
    | CandidateRejected
    | CandidateAbandoned
    | CounterexampleKept
    | CounterexampleWithdrawn
    | WithdrawalRefused
    | LessonRecorded
    | GenerationClosed
    | FinalsDue
    | FinalistNominated
    | FinalsOpened
    | FinalsAbandoned
    | FinalistProven
    | FinalistRejected
    | FinalistAbandoned
    | RaceDue
    | RaceFinished
    | RaceNotRun
    | ChampionCrowned
    | GoalCompleted
    | GoalTimedOut
    | MachineObserved
    | RouteAvailable
    | RouteLost
    | EpochOpened
    | KeyCertified
)

FACTS: dict[str, type[Fact]] = {fact.TYPE: fact for fact in get_args(AnyFact)}
"""Type string to class: the one registry."""


def noun_and_participle(fact: type[Fact]) -> tuple[str, str]:
    """`("candidate", "compiled")` for `candidate.compiled.v1`."""
    noun, participle, _version = fact.TYPE.split(".")
    return noun, participle
