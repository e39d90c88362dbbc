"""Which facts are work for which service, and which facts each service may state."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from schemas.envelope import subject_filter
from schemas.events import (
    BaselineAbandoned,
    BaselineChosen,
    BaselineDue,
    BaselineNotFound,
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRefused,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    ChampionCrowned,
    CounterexampleKept,
    CounterexampleWithdrawn,
    EpochOpened,
    Fact,
    FinalistAbandoned,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    FinalsAbandoned,
    FinalsDue,
    FinalsOpened,
    GenerationAbandoned,
    GenerationClosed,
    GenerationDue,
    GenerationOpened,
    GoalAccepted,
    GoalCompleted,
    GoalRefused,
    GoalSteered,
    GoalTimedOut,
    KeyCertified,
    LessonRecorded,
    MachineObserved,
    MeasurementNotRun,
    MeasurementRefused,
    MeasurementRequested,
    RaceDue,
    RaceFinished,
    RaceNotRun,
    RouteAvailable,
    RouteLost,
    SearchExhausted,
    SteerRefused,
    WithdrawalRefused,
)
from schemas.faults import Misconfigured
from schemas.ids import NULL_ROUTE, Route
from services.runtime.bus import FACTS_STREAM, INTAKE_STREAM, Bus, queue_name
from services.runtime.settings import Settings

PROPOSER = "proposer"
COMPILER = "compiler"
VERIFIER = "verifier"
BENCHMARKER = "benchmarker"
LIBRARIAN = "librarian"

DESK_QUEUE = "desk"
"""The librarian's durable on the intake stream."""
INTAKE_FILTER = "assay.intake.>"

INPUTS: Mapping[str, tuple[type[Fact], ...]] = MappingProxyType(
    {
        PROPOSER: (GenerationDue, FinalsDue),
        COMPILER: (CandidateProposed,),
        VERIFIER: (CandidateCompiled, FinalistNominated),
        BENCHMARKER: (BaselineDue, CandidateVerified, MeasurementRequested, RaceDue),
    }
)
"""Equal to each core's `inputs`, which a test compares: the librarian creates queues without importing a core."""

ROUTED = (COMPILER, VERIFIER, BENCHMARKER)
"""Services with one queue per route. The proposer has one for all."""

OUTPUTS: Mapping[str, tuple[type[Fact], ...]] = MappingProxyType(
    {
        PROPOSER: (
            KeyCertified,
            CandidateProposed,
            GenerationOpened,
            SearchExhausted,
            GenerationAbandoned,
            FinalistNominated,
            FinalsOpened,
            FinalsAbandoned,
        ),
        COMPILER: (KeyCertified, CandidateCompiled, CandidateRejected, CandidateAbandoned),
        VERIFIER: (
            KeyCertified,
            CandidateVerified,
            CandidateRejected,
            CandidateAbandoned,
            FinalistProven,
            FinalistRejected,
            FinalistAbandoned,
        ),
        BENCHMARKER: (
            KeyCertified,
            BaselineChosen,
            BaselineNotFound,
            BaselineAbandoned,
            CandidateMeasured,
            CandidateRejected,
            CandidateAbandoned,
            CandidateRemeasured,
            MeasurementRefused,
            MeasurementNotRun,
            RaceFinished,
            RaceNotRun,
            MachineObserved,
        ),
        LIBRARIAN: (
            KeyCertified,
            GoalAccepted,
            GoalRefused,
            GoalSteered,
            SteerRefused,
            CandidateRefused,
            BaselineDue,
            GenerationDue,
            MeasurementRequested,
            FinalsDue,
            RaceDue,
            CandidateProposed,
            CounterexampleKept,
            CounterexampleWithdrawn,
            WithdrawalRefused,
            LessonRecorded,
            GenerationClosed,
            ChampionCrowned,
            GoalCompleted,
            GoalTimedOut,
            RouteAvailable,
            RouteLost,
            EpochOpened,
        ),
    }
)
"""What each service may state: its publish permissions are these subjects and no others."""


def served_routes(settings: Settings, machine_route: Callable[[], Route]) -> tuple[Route, ...]:
    """What a routed copy serves: its machine's class and the null route, as the settings ask for. Raises Misconfigured
    when they ask for neither."""
    cpu = (machine_route(),) if settings.cpu_route else ()
    null = (NULL_ROUTE,) if settings.null_route else ()
    if not cpu + null:
        raise Misconfigured("there is nothing to serve: set ASSAY_CPU_ROUTE or ASSAY_NULL_ROUTE to true")
    return cpu + null


async def create_route_queues(bus: Bus, route: Route, ack_wait_s: float) -> None:
    """Every routed service has its durable for `route`. Idempotent; done before `route.available` is stated."""
    for service in ROUTED:
        filters = tuple(subject_filter(fact, route) for fact in INPUTS[service])
        await bus.create_queue(FACTS_STREAM, queue_name(service, route), filters, ack_wait_s)


async def create_common_queues(bus: Bus, ack_wait_s: float) -> None:
    """The queues that depend on no route: the proposer's and the desk's. Idempotent."""
    filters = tuple(subject_filter(fact) for fact in INPUTS[PROPOSER])
    await bus.create_queue(FACTS_STREAM, queue_name(PROPOSER, None), filters, ack_wait_s)
    await bus.create_queue(INTAKE_STREAM, DESK_QUEUE, (INTAKE_FILTER,), ack_wait_s)
