"""The timekeeper: deadlines and routes become facts, once each."""

from datetime import timedelta

from schemas.enums import Phase, SteerAction, Target
from schemas.envelope import Draft, Envelope, Recorded, due
from schemas.events import GoalTimedOut, MachineObserved, RouteAvailable, RouteLost
from schemas.measurement import MachineProfile
from services.librarian import curator, timekeeper
from services.librarian.curator import CuratorState
from tests.pure.floor import MACHINE, START, Floor

PROFILE = MachineProfile(
    host="h",
    machine=MACHINE,
    compiler="gcc",
    isolation="bwrap",
    governor="unknown",
    smt="unknown",
    transparent_huge_pages="unknown",
    steal="unknown",
    timer_resolution_ns=1.0,
    caches=(),
    memory_bytes=1 << 34,
    fma_gflops={},
    copy_gbps={},
    noise_floor=None,
    fit=None,
)


def observed(floor: Floor) -> Floor:
    floor.record(due("machine", "observed", MachineObserved(profile=PROFILE), len(floor.log)))
    return floor


def tick(state: CuratorState, seconds: float, *present: str) -> list[Draft[GoalTimedOut | RouteAvailable | RouteLost]]:
    return list(timekeeper.tick(state, START + timedelta(seconds=seconds), frozenset(present), 30))


def test_the_search_wall_starts_with_baseline_due() -> None:
    floor = Floor().accept()
    floor.now = START + timedelta(seconds=1000)
    floor.with_route()
    present = MACHINE.route
    assert tick(floor.state, 1099, present) == []
    (draft,) = tick(floor.state, 1100, present)
    assert draft.fact == GoalTimedOut(goal_id="g", phase=Phase.SEARCH, deadline=START + timedelta(seconds=1100))


def test_a_waiting_goal_has_no_deadline() -> None:
    assert tick(Floor().accept().state, 1e9) == []


def test_paused_time_does_not_count() -> None:
    floor = Floor().with_route().accept()
    floor.now = START + timedelta(seconds=40)
    floor.steer(SteerAction.PAUSE)
    assert tick(floor.state, 10_000, MACHINE.route) == []
    floor.now = START + timedelta(seconds=540)
    floor.steer(SteerAction.RESUME)
    assert tick(floor.state, 599, MACHINE.route) == []
    assert len(tick(floor.state, 600, MACHINE.route)) == 1


def test_a_deadline_that_was_stated_is_not_stated_again() -> None:
    floor = Floor().with_route().accept()
    drafts = tick(floor.state, 200, MACHINE.route)
    assert tick(curator.awaiting(floor.state, drafts), 201, MACHINE.route) == []
    floor.now = START + timedelta(seconds=201)
    floor.record(drafts[0])
    assert tick(floor.state, 202, MACHINE.route) == []


def test_a_route_is_available_once_it_is_observed_and_present() -> None:
    floor = Floor()
    assert tick(floor.state, 0, MACHINE.route) == [], "nobody said what machine it is"
    observed(floor)
    assert tick(floor.state, 0) == [], "nobody is there"
    (draft,) = tick(floor.state, 0, MACHINE.route)
    assert draft.fact == RouteAvailable(machine=MACHINE)
    floor.record(draft)
    assert tick(floor.state, 1, MACHINE.route) == []


def test_a_route_that_comes_and_goes_and_comes_back_is_three_facts() -> None:
    floor = observed(Floor())
    stated = []
    for present in ((MACHINE.route,), (), (MACHINE.route,)):
        (draft,) = tick(floor.state, 100, *present)
        stated.append(draft)
        floor.record(draft)
    assert [draft.fact.TYPE for draft in stated] == ["route.available.v1", "route.lost.v1", "route.available.v1"]
    assert len({draft.id for draft in stated}) == 3
    lost = stated[1].fact
    assert isinstance(lost, RouteLost)
    assert lost.last_seen == START + timedelta(seconds=70)


def test_the_null_route_needs_no_observation() -> None:
    (draft,) = tick(CuratorState(), 0, "null")
    assert isinstance(draft.fact, RouteAvailable)
    assert draft.fact.machine.route == "null"


def test_a_second_observation_of_an_available_route_states_nothing_new() -> None:
    floor = observed(Floor())
    floor.record(tick(floor.state, 0, MACHINE.route)[0])
    observed(floor)
    assert tick(floor.state, 0, MACHINE.route) == []


def test_memory_is_known_once_a_machine_was_observed() -> None:
    floor = observed(Floor())
    envelope = Envelope(floor.log[0].id, floor.log[0].fact, "assay/test/1", START)
    assert curator.evolve(CuratorState(), Recorded(1, envelope, START)).routes.memory_bytes(Target.CPU) == 1 << 34
    assert CuratorState().routes.memory_bytes(Target.CPU) is None
