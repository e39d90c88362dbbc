"""What a service is: a pure decision over facts. The host loop (`host.py`) gives it everything else."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from schemas.enums import AbandonReason
from schemas.envelope import Draft, Envelope
from schemas.events import Fact

Facts = tuple[Draft[Any], ...]
"""What a core wants stated, in publishing order."""


class Quiet(StrEnum):
    """How work shares its device with a measurement (architecture.md, The runner and quiet)."""

    NONE = "none"
    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class Work(Protocol):
    """A frozen, picklable description of one effect."""

    @property
    def quiet(self) -> Quiet: ...


W = TypeVar("W", bound=Work)
W_co = TypeVar("W_co", bound=Work, covariant=True)
W_contra = TypeVar("W_contra", bound=Work, contravariant=True)
O_contra = TypeVar("O_contra", contravariant=True)


@dataclass(frozen=True)
class Do(Generic[W_co]):
    """Perform this, then conclude."""

    work: W_co


class Service(Protocol[W, O_contra]):
    """A core. `decide` and `conclude` are pure; the host runs `perform(work)` from `<service>/work.py` between them."""

    name: ClassVar[str]
    inputs: ClassVar[tuple[type[Fact], ...]]
    """Facts that are work for this service."""

    def decide(self, cause: Envelope[Any]) -> Do[W] | Facts:
        """The work that `cause` asks for, or the facts that need no work."""
        ...

    def conclude(self, cause: Envelope[Any], work: W, outcome: O_contra) -> Facts:
        """What is now true. Matches every outcome exhaustively."""
        ...

    def abandon(self, cause: Envelope[Any], reason: AbandonReason, message: str) -> Facts:
        """The fact that settles work nobody could do, under that work's own slot id."""
        ...


class Announcer(Protocol[W, O_contra]):
    """A core that states something when it starts, with no cause (the benchmarker: machine.observed)."""

    def announce(self) -> tuple[W, ...]:
        """The work whose outcomes are announced, each before the next is begun."""
        ...

    def announced(self, work: W, outcome: O_contra) -> tuple[Fact, ...]:
        """Facts with no cause: the host gives each a fresh id, made once before its first attempt."""
        ...
