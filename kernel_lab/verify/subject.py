"""What is judged, what is asked of it, and what the judge stands on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np

from kernel_lab.runner.arm import Arena, Limits, StartArm
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.finding import CouldNot, Finding
from kernel_lab.workloads.workload import Workload
from schemas.enums import RungStatus
from schemas.goal import Shape
from schemas.work import Counterexample

CALL_TIMEOUT_S = 5.0
"""Chosen: the largest cheap draw takes an honest single-threaded kernel under 5 ms, so a loaded machine has a
thousandfold margin."""
MEMORY_BYTES = 1 << 30
"""Chosen: scratch of a hundred times the largest cheap draw."""


class Depth(StrEnum):
    """How much proof is asked for."""

    CHEAP = "cheap"
    DEEP = "deep"


@dataclass(frozen=True)
class Subject:
    """One compiled candidate."""

    object_path: Path
    threads: int = 1
    """The thread count it asks to be timed at."""
    sanitized: Callable[[], Path | Finding | CouldNot] = lambda: CouldNot(
        RungStatus.UNSUPPORTED, "its source is not at hand"
    )
    """The same source built with sanitizers, when V7 asks for it; a finding when it evades them."""


@dataclass(frozen=True)
class Plan:
    """What the goal asks of a candidate."""

    shapes: tuple[Shape, ...]
    """The goal's own; the smallest of them is climbed too."""
    tolerance_scale: float = 1.0
    deterministic: bool = False
    counterexamples: tuple[Counterexample, ...] = ()
    depth: Depth = Depth.CHEAP

    @property
    def draws(self) -> int:
        """Draws per distribution and shape (chosen: finalists are few, so they get four times as many)."""
        return 4 if self.depth is Depth.DEEP else 1


@dataclass(frozen=True)
class Bench:
    """What the judge stands on: processes, memory, a disassembler and a blank object to compare with."""

    start_arm: StartArm
    open_arena: Callable[[np.random.Generator], Arena]
    """Buffers for one judgement; the generator decides where `natural` ones lie."""
    isolation: str
    disassemble: Callable[[Path], str | CouldNot]
    """`objdump -d --no-show-raw-insn` of an untrusted object, run in the sandbox."""
    blank: bytes
    """What the same toolchain makes of an empty kernel."""
    start_sanitized: Callable[[], StartArm | CouldNot] = lambda: CouldNot(RungStatus.UNSUPPORTED, "no such runner here")
    """How to start objects that were built with sanitizers; built when V7 asks for it."""


@dataclass(frozen=True)
class Climb:
    """One judgement under way, as every rung is given it."""

    subject: Subject
    workload: Workload
    plan: Plan
    seeds: Mapping[str, int]
    bench: Bench
    arena: Arena
    digests: dict[str, str] = field(default_factory=dict)
    """Filled by the rungs: what the inputs of each group of draws hashed to."""
    checks: Checks = ALL_CHECKS

    def limits(self, threads: int) -> Limits:
        """What a runner at `threads` may use."""
        return Limits(call_timeout_s=CALL_TIMEOUT_S, memory_bytes=MEMORY_BYTES, threads=threads)
