"""Every fact, one frozen class each, in the order of a goal's path. A type string is written once, here.

Rules: a fact is a past participle; it is published once, recorded once, never changed. A new version of a fact is a
new class with a new type string, and an upcaster in `schemas/upcasters.py`.
"""

from typing import get_args

from schemas.events.baselines import BaselineAbandoned, BaselineChosen, BaselineDue, BaselineNotFound
from schemas.events.candidates import (
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    MeasurementNotRun,
    MeasurementRefused,
    MeasurementRequested,
)
from schemas.events.desk import (
    CandidateRefused,
    CounterexampleWithdrawn,
    GoalAccepted,
    GoalRefused,
    GoalSteered,
    SteerRefused,
    WithdrawalRefused,
)
from schemas.events.fact import Fact
from schemas.events.finals import (
    FinalistAbandoned,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    FinalsAbandoned,
    FinalsDue,
    FinalsOpened,
)
from schemas.events.generations import (
    CounterexampleKept,
    GenerationAbandoned,
    GenerationClosed,
    GenerationDue,
    GenerationOpened,
    LessonRecorded,
    SearchExhausted,
)
from schemas.events.race import ChampionCrowned, GoalCompleted, RaceDue, RaceFinished, RaceNotRun
from schemas.events.surroundings import (
    EpochOpened,
    GoalTimedOut,
    KeyCertified,
    MachineObserved,
    RouteAvailable,
    RouteLost,
)

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
