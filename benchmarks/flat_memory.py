"""Whether a long goal makes any process of the factory grow."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least, at_most
from benchmarks.costs import memory_of, processes_of
from benchmarks.factory import running_factory
from benchmarks.null_throughput import null_goal
from schemas.events import CandidateMeasured
from services.console.supervisor import SERVICES

NULL_CANDIDATES = 10_000
REAL_CANDIDATES = 2_000
SAMPLE_S = 1.0
LIMIT_PERCENT = 10.0
"""Chosen: what an allocator keeps moves by some percent; a leak of one fact per candidate is far more."""


def real_goal(candidates: int) -> dict[str, Any]:
    """Cheap candidates: one small shape in cache, through real compilers, checks and timing. The design space has to
    hold as many (rms_norm's has 1,890 points on a machine with wide vectors, softmax's 6,534)."""
    return {
        "name": "long",
        "workload": "softmax",
        "target": "cpu",
        "shapes": [{"R": 16, "C": 1024}],
        "objective": {"regime": "hot"},
        "budget": {"candidates": candidates, "wall": "4h", "stagnation": 1000},
        "search": {"generation_size": 50},
        "finals": {"finalists": 1, "hold_out_gap": "0s"},
    }


@dataclass
class Samples:
    """Resident megabytes of each process by its label, over seconds since the first sample."""

    seconds: list[float] = field(default_factory=list)
    held: dict[str, list[float]] = field(default_factory=dict)

    def take(self, supervisor: int, now_s: float) -> None:
        """One more sample. A compiler or a runner below an effect is not counted with it."""
        self.seconds.append(round(now_s, 1))
        seen: set[str] = set()
        for process in processes_of(supervisor):
            if process.label in seen:
                continue
            seen.add(process.label)
            try:
                self.held.setdefault(process.label, []).append(memory_of(process.pid).resident_mb)
            except (OSError, KeyError):
                continue  # it has just ended

    def lasting(self) -> Iterator[tuple[str, list[float]]]:
        """Processes that were there for most of the time."""
        return ((label, held) for label, held in self.held.items() if 2 * len(held) > len(self.seconds))


def growth_percent(held: list[float]) -> float:
    """The median of the last quarter over that of the second: the first quarter fills caches."""
    quarter = max(1, len(held) // 4)
    return round(100 * (median(held[-quarter:]) / median(held[quarter : 2 * quarter]) - 1), 1)


@contextmanager
def sampling(supervisor: int) -> Iterator[Samples]:
    """Samples that are taken meanwhile."""
    samples, done, begun = Samples(), threading.Event(), time.monotonic()

    def take() -> None:
        while not done.wait(SAMPLE_S):
            samples.take(supervisor, time.monotonic() - begun)

    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    try:
        yield samples
    finally:
        done.set()
        taking.join()


def run_null(size: float, say: Say) -> Result:
    """Ten thousand null candidates in one goal."""
    return _run("null", null_goal(round(NULL_CANDIDATES * size)), 3600.0, say)


def run_real(size: float, say: Say) -> Result:
    """Two thousand real candidates in one goal."""
    return _run("cpu", real_goal(round(REAL_CANDIDATES * size)), 4 * 3600.0, say)


def _run(target: str, goal: dict[str, Any], timeout_s: float, say: Say) -> Result:
    with running_factory(null_route=target == "null") as factory:
        say(f"{goal['budget']['candidates']} {target} candidates")
        with sampling(factory.pid) as samples:
            facts = factory.run_goal("long", goal, timeout_s, say)
    measured = sum(isinstance(one.fact, CandidateMeasured) for one in facts)
    figures = (
        *(_figure(label, held) for label, held in samples.lasting() if label.split()[0] in SERVICES),
        Figure("candidates measured", measured, "", at_least(goal["budget"]["candidates"])),
        Figure("seconds", round(samples.seconds[-1]), "s"),
    )
    return Result(figures, {"candidates": measured, "seconds": samples.seconds, "resident_mb": samples.held})


def _figure(label: str, held: list[float]) -> Figure:
    note = f"{held[len(held) // 4]:.0f} → {held[-1]:.0f} MB, at most {max(held):.0f}"
    return Figure(f"growth: {label}", growth_percent(held), "%", at_most(LIMIT_PERCENT), note)


NULL = Benchmark("flat_memory_null", "Memory of each process over 10,000 null candidates", 2.5, run_null, is_long=True)
REAL = Benchmark("flat_memory", "Memory of each process over 2,000 real candidates", 41, run_real, is_long=True)
