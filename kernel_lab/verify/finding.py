"""What a rung can say: climbed, a finding against the candidate, or that the rung could not run."""

from dataclasses import dataclass

from schemas.enums import Reason, RungStatus
from schemas.verdict import Worst
from schemas.work import Counterexample


@dataclass(frozen=True)
class Climbed:
    """Every check of the rung passed."""

    checks: int
    worst: Worst | None = None
    """The output closest to its bound."""
    note: str = ""
    """What the rung left to a deeper one, for the record."""


@dataclass(frozen=True)
class Finding:
    """Why the candidate is rejected, and the input that showed it when an input did."""

    reason: Reason
    message: str
    worst: Worst | None = None
    counterexample: Counterexample | None = None


@dataclass(frozen=True)
class CouldNot:
    """The rung did not run to its end through no fault of the candidate: no verdict, never a pass."""

    status: RungStatus
    message: str


RungOutcome = Climbed | Finding | CouldNot
