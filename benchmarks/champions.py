"""What the factory finds at serving shapes: goals of at most 200 candidates and 10 minutes, judged by hold-out race."""

import math
from functools import partial
from typing import Any

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least
from benchmarks.factory import running_factory
from schemas.enums import Verdict
from schemas.envelope import Recorded
from schemas.events import BaselineChosen, CandidateProposed, ChampionCrowned, GoalCompleted, RaceFinished
from schemas.measurement import BaselineRace, Comparison
from services.console import goal_file

WALL_S = 300.0
"""Of search. Chosen: half of the ten minutes that the figure allows; finals come on top."""
FASTER_THAN_BASELINE = at_least(1.0)
"""Of the interval's lower end, with the verdict FASTER beside it."""
AT_THE_ROOF = at_least(0.95)
"""Chosen: reading the same bytes was timed within 5 % of what the kernel takes."""


def run(template: str, size: float, say: Say) -> Result:
    """One goal in a factory of its own, so that nothing but the goal itself uses the machine."""
    with running_factory(null_route=False) as factory:
        facts = factory.run_goal(template.replace("_", "-"), _goal(template, size), 3600.0, say)
    figures, raw = _findings(facts)
    return Result(tuple(figures), raw)


def _goal(name: str, size: float) -> dict[str, Any]:
    """A goal that comes with Assay, its budget cut to `size`."""
    goal = goal_file.load(goal_file.template(name))
    candidates = max(4, round(goal["budget"]["candidates"] * size))
    goal["budget"] |= {"candidates": candidates, "wall": WALL_S * size}
    return goal


def _findings(facts: tuple[Recorded[Any], ...]) -> tuple[list[Figure], dict[str, Any]]:
    completed = _last(facts, GoalCompleted)
    chosen, crowned, raced = (_last(facts, kind) for kind in (BaselineChosen, ChampionCrowned, RaceFinished))
    best = crowned.comparison if crowned else _best(raced)
    workload = facts[0].fact.goal.workload
    figures = _figures(workload, best, chosen.race) if chosen else []
    raw = {
        "outcome": completed.outcome,
        "ended_by": completed.ended_by,
        "message": completed.message,
        "candidates": sum(isinstance(one.fact, CandidateProposed) for one in facts),
        "seconds": (facts[-1].recorded_at - facts[0].recorded_at).total_seconds(),
        "contenders": [one.model_dump(mode="json") for one in chosen.race.contenders] if chosen else [],
        "roofs": [one.model_dump(mode="json") for one in chosen.race.roofs] if chosen else [],
        "crowned": crowned is not None,
        "champion": crowned and crowned.build.kernel.genome,
        "search_ratio": crowned and crowned.search_ratio,
        "hold_out": best and best.model_dump(mode="json"),
    }
    return figures, raw


def _last(facts: tuple[Recorded[Any], ...], kind: type) -> Any:
    return next((one.fact for one in reversed(facts) if isinstance(one.fact, kind)), None)


def _best(raced: RaceFinished | None) -> Comparison | None:
    """The entrant with the highest lower bound, when nobody was crowned."""
    comparisons = [entrant.comparison for entrant in raced.race.entrants if entrant.comparison.ratio] if raced else []
    return max(comparisons, key=lambda one: one.ratio.low if one.ratio else 0.0, default=None)


def _figures(workload: str, best: Comparison | None, baselines: BaselineRace) -> list[Figure]:
    is_read_bound = workload == "reduce_sum"
    ratio = best.ratio if best else None
    said = f"{best.verdict} {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]" if best and ratio else "no race"
    wanted = None if is_read_bound else FASTER_THAN_BASELINE
    return [
        Figure(f"{workload}: hold-out ratio, lower end", _if_faster(best, is_read_bound), "×", wanted, said),
        Figure(f"{workload}: fraction of the roof", _roof(best), "", AT_THE_ROOF if is_read_bound else None),
        Figure(f"{workload}: strongest baseline's fraction of the roof", _baseline_roof(baselines), ""),
    ]


def _if_faster(best: Comparison | None, any_verdict: bool) -> float | None:
    """The interval's lower end; 0 stands for a verdict that is not FASTER where FASTER is asked for."""
    if best is None or best.ratio is None:
        return None if any_verdict else 0.0
    return round(best.ratio.low, 4) if any_verdict or best.verdict is Verdict.FASTER else 0.0


def _roof(best: Comparison | None) -> float | None:
    """Geometric mean over the memory-bound shapes of the roof's time over the kernel's."""
    rows = [(row.roof_ns / row.candidate_ns, row.weight) for row in best.shapes if row.roof_ns] if best else []
    return _geometric_mean(rows)


def _baseline_roof(baselines: BaselineRace) -> float | None:
    pairs = zip(baselines.roofs, baselines.strongest, strict=True)
    return _geometric_mean([(roof.best_ns / strongest.median_ns, 1.0) for roof, strongest in pairs])


def _geometric_mean(rows: list[tuple[float, float]]) -> float | None:
    if not rows:
        return None
    return round(math.exp(sum(w * math.log(x) for x, w in rows) / sum(w for _, w in rows)), 4)


def _benchmark(template: str) -> Benchmark:
    what = f"Hold-out ratio of a champion: the goal {template} as it comes with Assay, five minutes of search"
    return Benchmark(f"champion_{template.removesuffix('_cpu')}", what, 9, partial(run, template), is_long=True)


BENCHMARKS = tuple(map(_benchmark, ("rms_norm_serving_cpu", "softmax_cpu", "reduce_sum_cpu")))
