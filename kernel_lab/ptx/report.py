"""What a run found: a verdict, its diagnostics, the outputs and, when asked for, what the kernel cost."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

VERSION = "1"
"""Changes whenever the same kernel, launch and inputs may get another verdict."""


class Verdict(StrEnum):
    """`pass` means eligible for a GPU: never fast, never final."""

    PASS = "pass"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"
    TIMEOUT = "timeout"


class Kind(StrEnum):
    """What is wrong, in one word per checker."""

    OUT_OF_BOUNDS = "out_of_bounds"
    WRITE_TO_INPUT = "write_to_input"
    MISALIGNED = "misaligned"
    UNINITIALISED_GLOBAL = "uninitialised_global"
    UNINITIALISED_SHARED = "uninitialised_shared"
    UNINITIALISED_LOCAL = "uninitialised_local"
    UNINITIALISED_REGISTER = "uninitialised_register"
    SHARED_RACE = "shared_race"
    GLOBAL_RACE = "global_race"
    UNPROVEN_HANDOFF = "unproven_handoff"
    DIVERGENT_BARRIER = "divergent_barrier"
    DEADLOCK = "deadlock"
    INACTIVE_LANES = "inactive_lanes"
    ASYNC_BEFORE_WAIT = "async_before_wait"
    BARRIER_MISUSE = "barrier_misuse"
    TRAP = "trap"
    UNCOVERED_OUTPUT = "uncovered_output"
    STEP_BUDGET = "step_budget"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Diagnostic:
    """The first occurrence of one kind at one instruction, and how often it was seen there.

    `line` is the line in the PTX text, `source_line` is `file:line` of the CUDA source where the PTX carries `.loc`.
    `lane` is the linear thread index in its CTA, `cta` the linear CTA index; both are -1 where no thread is to blame.
    `address` is the PTX address, `buffer` the owning or nearest buffer.
    """

    kind: Kind
    line: int
    source_line: str | None
    opcode: str
    lane: int
    cta: int
    address: int | None
    buffer: str | None
    message: str
    count: int = 1


@dataclass(frozen=True)
class Stats:
    """What the kernel cost, as an interpreter can know it: counts, never times."""

    instructions: dict[str, int] = field(default_factory=dict)
    """Warp instructions issued, by opcode."""
    steps: int = 0
    """Instructions that the executor issued, each for many lanes at once: the unit of the step budget."""
    lane_utilisation: float = 0.0
    """Active lanes over 32 × warp instructions."""
    shared_requests: int = 0
    shared_wavefronts: int = 0
    """Passes over the 32 banks: as many as requests where nothing conflicts and no lane asks for more than 4 bytes."""
    bank_conflicts: int = 0
    """Wavefronts beyond those that the width of the accesses needs."""
    global_requests: int = 0
    global_sectors: int = 0
    """Distinct 32-byte sectors, summed over warp requests."""

    @property
    def sectors_per_request(self) -> float:
        """Global sectors that a warp request touches on average: 4 is perfect for 4-byte lanes."""
        return self.global_sectors / self.global_requests if self.global_requests else 0.0


@dataclass(frozen=True)
class Report:
    """The verdict on one launch. `outputs` holds the `out` and `inout` buffers as the kernel left them, by name."""

    verdict: Verdict
    diagnostics: tuple[Diagnostic, ...]
    outputs: dict[str, np.ndarray]
    stats: Stats | None = None
    version: str = VERSION

    def kinds(self) -> frozenset[Kind]:
        """The kinds that occurred."""
        return frozenset(diagnostic.kind for diagnostic in self.diagnostics)
