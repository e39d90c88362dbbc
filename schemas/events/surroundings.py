"""What goals stand in: time, machines, keys, the stream itself."""

from datetime import datetime

from schemas.certificate import Certificate
from schemas.enums import Phase
from schemas.events.fact import Fact
from schemas.ids import GoalId, Route
from schemas.measurement import MachineProfile
from schemas.work import MachineClass


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
