"""What was measured: raw samples, intervals and what they were measured against (measurement.md)."""

from typing import Literal
from uuid import UUID

from schemas.enums import RatioKind, Regime, Verdict
from schemas.model import Model
from schemas.work import Artifact, Baseline, MachineClass


class Quad(Model):
    """One ABBA quad of one shape: nanoseconds per call, in the order taken."""

    shape: int
    """Index into the comparison's shapes."""
    first: Literal["candidate", "baseline"]
    candidate_ns: tuple[float, float]
    baseline_ns: tuple[float, float]
    dropped: str | None = None
    """The recorded outside cause, when the quad does not count."""


class Pair(Model):
    """One pair of fresh processes and its quads."""

    quads: tuple[Quad, ...]
    candidate_clock_ratio: float = 1.0
    baseline_clock_ratio: float = 1.0
    """Runner's total over the parent's, per process (point 12)."""


class Interval(Model):
    """A ratio of times, baseline over candidate: above 1 the candidate is faster."""

    estimate: float
    low: float
    high: float
    level: float
    """Confidence level of [low, high], e.g. 0.99."""


class ShapeResult(Model):
    axes: dict[str, int]
    weight: float
    baseline: str
    baseline_ns: float
    candidate_ns: float
    ratio: float
    roof_ns: float | None = None
    """Time of moving the same bytes, in the same schedule; absent when compute-bound or not timed."""


class Comparison(Model):
    """One candidate against one baseline per shape: the only form in which a ratio exists."""

    kind: RatioKind
    verdict: Verdict
    ratio: Interval | None
    """Absent when INVALID or UNFIT: a failed measurement is never a number."""
    regime: Regime
    machine: str
    """The route, and the host's own id after a slash."""
    epoch: int = 0
    """Of the machine: it moves on when the baselines' times jump. 0 where nobody counted."""
    noise_floor: float
    delta: float
    looks: int
    dropped_fraction: float
    shapes: tuple[ShapeResult, ...]
    note: str = ""
    pairs: tuple[Pair, ...] = ()
    """Inline when they fit a fact, else `samples`."""
    samples: Artifact | None = None


class Contender(Model):
    """One baseline that was raced, or refused, for the report."""

    name: str
    description: str
    status: Literal["raced", "screened", "refused", "absent"]
    message: str = ""
    median_ns: tuple[float, ...] = ()
    """Per shape of the task; empty unless timed."""


class RoofPoint(Model):
    """The best time of moving the same bytes at the same working-set size."""

    axes: dict[str, int]
    bytes_moved: int
    best_ns: float
    how: str
    """Which store and how many threads won, e.g. `streaming/2`."""


class BaselineRace(Model):
    """Every contender of baseline.due, and the strongest per shape."""

    contenders: tuple[Contender, ...]
    strongest: tuple[Baseline, ...]
    roofs: tuple[RoofPoint, ...]
    noise_floor: float
    machine: str


class Entrant(Model):
    """One proven finalist in a race."""

    candidate_id: UUID
    comparison: Comparison
    search_ratio: float | None
    """What the search believed, to publish the shrinkage."""
    against_incumbent: Comparison | None = None


class Race(Model):
    """The hold-out race: fresh processes, fresh secret seeds, after a gap."""

    entrants: tuple[Entrant, ...]
    a_a: Comparison
    """The strongest baseline against its byte-identical rebuild, in the same schedule."""
    seeds: dict[str, int]
    hold_out_gap_s: float
    machine: str
    noise_floor: float
    fit: bool


class CacheLevel(Model):
    level: int
    kind: str
    size_bytes: int


class MachineProfile(Model):
    """The preflight fact of measurement.md, point 0. `unknown` where the host does not tell."""

    host: str
    """A random id kept in the data folder: names a machine without naming its owner."""
    machine: MachineClass
    compiler: str
    isolation: str
    governor: str
    smt: str
    transparent_huge_pages: str
    steal: str
    timer_resolution_ns: float
    caches: tuple[CacheLevel, ...]
    memory_bytes: int
    fma_gflops: dict[str, float]
    """Measured peak per dtype, all threads."""
    copy_gbps: dict[str, float]
    """Measured: read, ordinary copy, streaming copy."""
    epoch: int = 0
    """See Comparison."""
    noise_floor: float | None
    fit: bool | None
    """null until calibrated."""
