"""What the ladder says of one candidate, with everything needed to say it again."""

from schemas.enums import JudgedAs, Reason, Rung, RungStatus
from schemas.model import Model
from schemas.work import Counterexample


class RungResult(Model):
    rung: Rung
    version: int
    status: RungStatus
    checks: int
    """How many separate comparisons or inspections ran."""
    elapsed_ms: float
    message: str = ""


class Worst(Model):
    """The output element closest to its bound, or farthest past it.

    Where a rule over a window is the closest, the window's worst element, with the RMS error and bound of the window.
    """

    axes: dict[str, int]
    distribution: str
    output: str
    index: tuple[int, ...]
    got: str
    want: str
    """Decimal text with full precision: JSON has no NaN."""
    error: str
    bound: str
    margin: float | None
    """error / bound: at most 1 passes; null when the output was not finite."""


class Judgement(Model):
    """The verdict on one candidate. `rung`, `reason` and `message` are null when it is verified."""

    verdict: JudgedAs
    rung: Rung | None
    reason: Reason | None
    message: str | None
    worst: Worst | None
    rungs: tuple[RungResult, ...]
    seeds: dict[str, int]
    input_digests: dict[str, str]
    isolation: str
    """bwrap, landlock, or none (which must be asked for by name)."""
    ladder: str
    """Version of the whole ladder: rung versions, bounds and input generators."""
    counterexample: Counterexample | None = None
