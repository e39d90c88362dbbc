"""How many candidates a second the factory carries when the physics costs nothing."""

from itertools import pairwise
from typing import Any

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least
from benchmarks.costs import cpu_by_label, processes_of, spent_between
from benchmarks.factory import running_factory
from schemas.envelope import Recorded
from schemas.events import CandidateMeasured, CandidateProposed, GenerationClosed

CANDIDATES = 2000
GENERATION_SIZE = 250


def null_goal(candidates: int) -> dict[str, Any]:
    """Instant and deterministic, through all five services."""
    return {
        "name": "load",
        "workload": "rms_norm",
        "target": "null",
        "shapes": [{"T": 16, "H": 1024}],
        "budget": {"candidates": candidates, "wall": "1h", "stagnation": 1000},
        "search": {"generation_size": GENERATION_SIZE, "islands": 2, "seed": 11},
        "finals": {"finalists": 2, "hold_out_gap": "0s"},
    }


def run(size: float, say: Say) -> Result:
    """One goal; the rate is from the first recorded proposal to the last recorded measurement."""
    candidates = max(GENERATION_SIZE, round(CANDIDATES * size))
    with running_factory(null_route=True) as factory:
        say(f"{candidates} null candidates, {GENERATION_SIZE} a generation")
        before = cpu_by_label(processes_of(factory.pid))
        facts = factory.run_goal("load", null_goal(candidates), 900.0, say)
        after = cpu_by_label(processes_of(factory.pid))
    return _result(facts, spent_between(before, after))


def _result(facts: tuple[Recorded[Any], ...], cpu_s: dict[str, float]) -> Result:
    proposed = [one for one in facts if isinstance(one.fact, CandidateProposed)]
    measured = [one for one in facts if isinstance(one.fact, CandidateMeasured)]
    seconds = (measured[-1].recorded_at - proposed[0].recorded_at).total_seconds()
    closed = [one.recorded_at for one in facts if isinstance(one.fact, GenerationClosed)]
    begun = (proposed[0].recorded_at, *closed)
    generations = [round((end - start).total_seconds(), 3) for start, end in pairwise(begun)]
    figures = (
        Figure("candidates from proposal to measurement", round(len(measured) / seconds, 1), "1/s", at_least(100)),
        Figure("facts recorded in that time", round(len(facts) / seconds, 1), "1/s"),
        *(Figure(f"processor time: {label}", value, "s") for label, value in cpu_s.items()),
    )
    raw = {
        "candidates": len(measured),
        "seconds": seconds,
        "facts": len(facts),
        "generation_s": generations,
        "cpu_s": cpu_s,
        "cpu_ms_per_candidate": {label: round(1e3 * value / len(measured), 3) for label, value in cpu_s.items()},
    }
    return Result(figures, raw)


BENCHMARK = Benchmark("null_throughput", "Null candidates a second through all five services, sync always", 1.5, run)
