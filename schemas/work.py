"""What a work message carries so that a worker needs nothing else (architecture.md, Facts)."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from schemas.enums import Dtype, Language, Regime, Target
from schemas.goal import Constraints, Shape
from schemas.ids import GoalId, Route
from schemas.model import Model

Gene = int | str | bool
Genome = dict[str, Gene]


def gene_text(value: Gene) -> str:
    """A gene's value as people write it: `true`, `8`, `online`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


MAX_COUNTEREXAMPLES = 64
MAX_SOURCE_BYTES = 256 * 1024


class MachineClass(Model):
    """What code generation must know of a route: enough to compile for it on any host."""

    route: Route
    architecture: str
    """`x86_64` or `aarch64`."""
    model: str
    march: str
    """gcc's `-march=` value: x86-64-v2, v3, v4, or armv8-a. Never `native`."""
    features: tuple[str, ...]
    """Explicit `-m…` flags beyond `march` that the compiler accepted."""
    vector_bits: int
    threads: int
    """floor(cgroup quota), never the core count."""
    llc_bytes: int


class Counterexample(Model):
    """A failing input, kept for ever as generator plus seed, never as bulk data."""

    workload: str
    axes: dict[str, int]
    distribution: str
    seed: int
    alignment: Literal["start", "end", "natural"] = "natural"
    found_by: UUID | None = None
    """The candidate that it first caught."""


class Kernel(Model):
    """Source plus launch data: no host code, no state (workloads.md, the candidate contract)."""

    language: Language
    source: str = Field(max_length=MAX_SOURCE_BYTES)
    flags: tuple[str, ...] = ()
    threads: int | None = None
    variant: str = ""
    genome: Genome = {}
    fingerprint: str
    """sha256 of normalised source, flags and target."""


class Artifact(Model):
    """Bytes by digest in the artifact store."""

    sha256: str
    uri: str
    size: int


class Build(Model):
    """A kernel and the object that its compilation gave, rebuildable from source to the same digest."""

    kernel: Kernel
    object: Artifact
    command: tuple[str, ...]
    """The compile line, with file names replaced by `k.c` and `k.so`."""
    toolchain: str
    """Digest and version of the compiler."""


class Baseline(Model):
    """The strongest contender for one shape, as raced when the goal began."""

    name: str
    """For example `c_blocked_omp_o3_512`, `numpy`, `torch`, `champion`."""
    axes: dict[str, int]
    median_ns: float
    artifact: Build | None = None
    """The compiled C baseline; absent for library baselines, which the library runner serves by name."""


class Task(Model):
    """A goal as a worker needs it, pinned to one route."""

    goal_id: GoalId
    workload: str
    dtype: Dtype
    target: Target
    route: Route
    machine: MachineClass
    languages: tuple[Language, ...]
    shapes: tuple[Shape, ...]
    regime: Regime
    min_gain: float
    tolerance_scale: float
    constraints: Constraints
    hold_out_gap_s: float
    baselines: tuple[Baseline, ...] = ()
    """One per shape, in the order of `shapes`; empty until baseline.chosen."""
    counterexamples: tuple[Counterexample, ...] = Field(default=(), max_length=MAX_COUNTEREXAMPLES)


class Contestant(Model):
    """A proven finalist, or an earlier champion, as a race needs it."""

    candidate_id: UUID
    build: Build
    search_ratio: float | None
