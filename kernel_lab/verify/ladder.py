"""The ladder: one line per rung, cheapest first. Adding a rung is a file in `rungs/` and a line here."""

from collections.abc import Callable
from dataclasses import dataclass

from kernel_lab.verify.draws import GENERATORS_VERSION
from kernel_lab.verify.finding import RungOutcome
from kernel_lab.verify.rungs import fuzz, load, metamorphic, numeric, repeat, sanitizers, smoke, static
from kernel_lab.verify.subject import Climb, Depth
from schemas.enums import Rung

BOUNDS_VERSION = 2
"""Raised when a workload's bound or reference changes."""


@dataclass(frozen=True)
class Step:
    """One rung. `version` is raised when it would say something else of some candidate."""

    rung: Rung
    version: int
    depth: Depth
    """The least depth at which it is climbed."""
    climb: Callable[[Climb], RungOutcome]


LADDER: tuple[Step, ...] = (
    Step(Rung.STATIC, 2, Depth.CHEAP, static.climb),
    Step(Rung.LOAD, 2, Depth.CHEAP, load.climb),
    Step(Rung.SMOKE, 3, Depth.CHEAP, smoke.climb),
    Step(Rung.NUMERIC, 4, Depth.CHEAP, numeric.climb),
    Step(Rung.METAMORPHIC, 1, Depth.DEEP, metamorphic.climb),
    Step(Rung.FUZZ, 1, Depth.DEEP, fuzz.climb),
    Step(Rung.REPEAT, 1, Depth.DEEP, repeat.climb),
    Step(Rung.SANITIZERS, 2, Depth.DEEP, sanitizers.climb),
)


def steps(depth: Depth) -> tuple[Step, ...]:
    """The rungs to climb at `depth`, in order."""
    return tuple(step for step in LADDER if depth is Depth.DEEP or step.depth is Depth.CHEAP)


def ladder_version() -> str:
    """Names what a judgement was made with: each rung's version, the bounds and the input generators."""
    rungs = " ".join(f"{step.rung}.{step.version}" for step in LADDER)
    return f"{rungs} bounds.{BOUNDS_VERSION} generators.{GENERATORS_VERSION}"
