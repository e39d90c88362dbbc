"""How much of a real goal's time is the factory's own: everything that is no compilation, verification or timing.

The wall runs from the recorded goal.accepted to the recorded goal.completed. Taken off is the time during which at
least one effect of compiler, verifier or benchmarker ran: each worker logs how long each effect took (`performed`), and
where they overlap the time counts once. The benchmarker's effects include the baselines' race, the calibration before
the final race and the hold-out gap. What is left is the factory's: bus, log, decisions, proposals, queues and waiting.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_most
from benchmarks.factory import running_factory
from benchmarks.spans import Span, covered_s
from schemas.envelope import Recorded
from schemas.events import CandidateProposed, GoalAccepted, GoalCompleted

CANDIDATES = 60
PHYSICS = ("compiler", "verifier", "benchmarker")
LIMIT_PERCENT = 10.0


def real_goal(candidates: int) -> dict[str, Any]:
    """The demo's shape, with a budget of `candidates` and the default hold-out gap."""
    return {
        "name": "share",
        "workload": "rms_norm",
        "target": "cpu",
        "shapes": [{"T": 3072, "H": 4096}],
        "budget": {"candidates": candidates, "wall": "20m", "stagnation": 100},
        "search": {"generation_size": 20},
    }


def run(size: float, say: Say) -> Result:
    """One goal through a factory whose workers log how long each effect took."""
    candidates = max(4, round(CANDIDATES * size))
    with running_factory(null_route=False, log_level="debug") as factory:
        say(f"{candidates} candidates of rms_norm at T3072×H4096")
        facts = factory.run_goal("share", real_goal(candidates), 1800.0, say)
        effects = {service: tuple(_effects(factory.settings.data_dir / "logs", service)) for service in PHYSICS}
    return _result(facts, effects)


def _effects(logs: Path, service: str) -> Iterator[Span]:
    for path in sorted(logs.glob(f"{service}-*.log")):
        for line in path.read_text(encoding="utf-8").splitlines():
            said = json.loads(line) if line.startswith("{") else {}
            if said.get("message") == "performed":
                end_s = datetime.fromisoformat(said["timestamp"]).timestamp()
                yield Span(end_s - said["seconds"], end_s)


def _result(facts: tuple[Recorded[Any], ...], effects: dict[str, tuple[Span, ...]]) -> Result:
    wall = Span(_recorded_s(facts, GoalAccepted), _recorded_s(facts, GoalCompleted))
    inside = {service: [span.within(wall) for span in spans] for service, spans in effects.items()}
    physics_s = covered_s(span for spans in inside.values() for span in spans)
    own_s = wall.length_s - physics_s
    candidates = sum(isinstance(one.fact, CandidateProposed) for one in facts)
    figures = (
        Figure("the factory's own share", round(100 * own_s / wall.length_s, 2), "%", at_most(LIMIT_PERCENT)),
        Figure("wall", round(wall.length_s, 2), "s"),
        Figure("the factory's own", round(own_s, 2), "s"),
        *(Figure(f"effects of the {service}", round(covered_s(spans), 2), "s") for service, spans in inside.items()),
        Figure("candidates", candidates, ""),
    )
    raw = {
        "wall": _rounded(wall, wall),
        "effects": {service: [_rounded(span, wall) for span in spans] for service, spans in inside.items()},
    }
    return Result(figures, raw)


def _recorded_s(facts: tuple[Recorded[Any], ...], kind: type) -> float:
    return next(one for one in facts if isinstance(one.fact, kind)).recorded_at.timestamp()


def _rounded(span: Span, wall: Span) -> tuple[float, float]:
    """Seconds since the goal was accepted."""
    return round(span.begin_s - wall.begin_s, 4), round(span.end_s - wall.begin_s, 4)


BENCHMARK = Benchmark("factory_share", "The factory's own share of a real goal of 60 candidates", 5, run)
