"""Which routes there are, and which can work now: a fold over what benchmarkers announce and the timekeeper states."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from schemas.enums import Language, Target
from schemas.envelope import Recorded
from schemas.events import Fact, MachineObserved, RouteAvailable, RouteLost
from schemas.ids import CPU_PREFIX, NULL_ROUTE, Route
from schemas.measurement import MachineProfile
from schemas.work import MachineClass

ROUTE_FACTS: tuple[type[Fact], ...] = (MachineObserved, RouteAvailable, RouteLost)

LANGUAGES: Mapping[Target, tuple[Language, ...]] = {Target.CPU: (Language.C,), Target.NULL: (Language.NULL,)}
"""What each target can run, in order of preference."""

NULL_MACHINE = MachineClass(
    route=NULL_ROUTE,
    architecture="null",
    model="null",
    march="null",
    features=(),
    vector_bits=256,
    threads=1,
    llc_bytes=0,
)
"""The machine of the null route: nothing real depends on it, so it needs no observation."""


@dataclass(frozen=True, slots=True)
class ObservedRoute:
    """What the last benchmarker on a route said of it."""

    machine: MachineClass
    observed_id: UUID | None
    profile: MachineProfile | None
    changes: int = 0
    """How often it was stated available or lost."""
    available: bool = False

    @property
    def calibrating(self) -> bool:
        """A benchmarker has said what machine it stands on, and not yet how noisy that is."""
        return not self.available and self.profile is not None and self.profile.fit is None


@dataclass(frozen=True, slots=True)
class RoutesState:
    """Every route ever seen."""

    routes: Mapping[Route, ObservedRoute] = field(
        default_factory=lambda: {NULL_ROUTE: ObservedRoute(NULL_MACHINE, None, None)}
    )

    def best_for(self, target: Target) -> MachineClass | None:
        """The strongest available machine class for `target`: most threads, then widest vectors, then largest cache."""
        usable = [seen.machine for route, seen in self.routes.items() if seen.available and serves(route, target)]
        return max(usable, key=lambda m: (m.threads, m.vector_bits, m.llc_bytes, m.route), default=None)

    def memory_bytes(self, target: Target) -> int | None:
        """Memory of the largest observed machine for `target`; None when none was observed."""
        profiles = [seen.profile for route, seen in self.routes.items() if serves(route, target)]
        return max((profile.memory_bytes for profile in profiles if profile), default=None)


def serves(route: Route, target: Target) -> bool:
    """Work for `target` may be pinned to `route`."""
    match target:
        case Target.CPU:
            return route.startswith(CPU_PREFIX)
        case Target.NULL:
            return route == NULL_ROUTE


def evolve(state: RoutesState, recorded: Recorded[Any]) -> RoutesState:
    """The state after `recorded`, one of ROUTE_FACTS; unchanged by any other."""
    match recorded.fact:
        case MachineObserved(profile=profile):
            return _observed(state, recorded.id, profile)
        case RouteAvailable(machine=machine):
            seen = state.routes.get(machine.route, ObservedRoute(machine, None, None))
            return _with(state, machine.route, replace(seen, machine=machine, available=True, changes=seen.changes + 1))
        case RouteLost(route=route) if route in state.routes:
            seen = state.routes[route]
            return _with(state, route, replace(seen, available=False, changes=seen.changes + 1))
        case _:
            return state


def _observed(state: RoutesState, id_: UUID, profile: MachineProfile) -> RoutesState:
    route = profile.machine.route
    seen = state.routes.get(route, ObservedRoute(profile.machine, id_, profile))
    return _with(state, route, replace(seen, machine=profile.machine, observed_id=id_, profile=profile))


def _with(state: RoutesState, route: Route, seen: ObservedRoute) -> RoutesState:
    return RoutesState({**state.routes, route: seen})
