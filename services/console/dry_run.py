"""What a goal would be and cost, without submitting it: the desk's own checks, with no factory running."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kernel_lab.machine import machine_class
from kernel_lab.measure.contents import pair_bytes, rotation_of, set_bytes
from kernel_lab.measure.schedule import SIDES
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.enums import Regime, Target
from schemas.faults import Misconfigured
from schemas.goal import Goal, Shape
from schemas.requests import Problem
from services.console.output import Format, emit_record, say, stdout
from services.console.refusals import end_refused
from services.console.units import size_text, span_text
from services.runtime.settings import Settings

CANDIDATE_S = 3.0
"""measurement.md, Budget: cheap rungs and one screen of a candidate on two cores."""


@dataclass(frozen=True)
class Cost:
    """What a goal takes at most, and what it may be expected to take."""

    candidates: int
    generations: int
    """Least number of them."""
    search_s: float
    """Expected: the budget in candidates, or the wall when that comes first."""
    search_at_most_s: float
    finals_at_most_s: float
    call_bytes: tuple[int, ...]
    """Inputs and outputs of one call, by shape."""
    timed_bytes: int | None
    """Most that one comparison maps, in both processes; None where this machine's caches are unknown."""


def dry_run(path: Path, body: bytes, settings: Settings, output: Format) -> None:
    """The goal with every default and its cost are on stdout, as a goal file; a goal that the desk would refuse ends
    the command with its problems."""
    goal, problems = _checked(body, settings)
    if goal is None or problems:
        end_refused(f"{path} would be refused", problems, output)
    shapes = shapes_of(goal)
    cost = cost_of(goal, shapes, _llc_bytes(goal))
    record: dict[str, Any] = {
        "goal": plain_goal(goal),
        "shapes": [_flat(shape) for shape in shapes],
        "cost": vars(cost),
    }
    emit_record(record, output, lambda: _print_text(record["goal"], cost))


def _checked(body: bytes, settings: Settings) -> tuple[Goal | None, list[Problem]]:
    from services.librarian.catalogue import compose_catalogue
    from services.librarian.curator import CuratorState
    from services.librarian.desk import read_goal

    return read_goal(body, CuratorState(), compose_catalogue(settings.extra_spaces, settings.strategies))


def shapes_of(goal: Goal) -> tuple[Shape, ...]:
    """The goal's shapes; a named set spelled out."""
    return WORKLOADS[goal.workload].shapes[goal.shapes] if isinstance(goal.shapes, str) else goal.shapes


def cost_of(goal: Goal, shapes: tuple[Shape, ...], llc_bytes: int | None) -> Cost:
    """What `goal` takes on a machine with a last-level cache of `llc_bytes`."""
    workload, budget, regime = WORKLOADS[goal.workload], goal.budget, goal.objective.regime
    call_bytes = tuple(set_bytes(workload, shape.axes) for shape in shapes)
    timed = None if llc_bytes is None else max(_mapped(workload, shape, llc_bytes, regime) for shape in shapes)
    return Cost(
        candidates=budget.candidates,
        generations=-(-budget.candidates // goal.search.generation_size),
        search_s=min(budget.wall, budget.candidates * (0.0 if goal.target is Target.NULL else CANDIDATE_S)),
        search_at_most_s=budget.wall,
        finals_at_most_s=goal.finals.wall,
        call_bytes=call_bytes,
        timed_bytes=timed,
    )


def _mapped(workload: Workload, shape: Shape, llc_bytes: int, regime: Regime) -> int:
    """What both processes of a comparison map for one shape: its rotation, and a pair of sets to spare."""
    pairs = rotation_of(workload, shape.axes, llc_bytes, regime) + 1
    return len(SIDES) * pairs * pair_bytes(workload, shape.axes)


def plain_goal(goal: Goal) -> dict[str, Any]:
    """`goal` as a goal file writes it, every default spelled out."""
    plain = goal.model_dump(mode="json")
    if not isinstance(goal.shapes, str):
        plain["shapes"] = [_flat(shape) for shape in goal.shapes]
    return plain


def _flat(shape: Shape) -> dict[str, Any]:
    return {**shape.axes, "weight": shape.weight}


def _llc_bytes(goal: Goal) -> int | None:
    if goal.target is not Target.CPU:
        return None
    try:
        return machine_class().llc_bytes
    except Misconfigured:
        return None


def _print_text(goal: dict[str, Any], cost: Cost) -> None:
    """A goal file whose last lines, comments, say what it costs."""
    out = stdout()
    out.print(yaml.safe_dump(goal, sort_keys=False, allow_unicode=True), markup=False, end="", soft_wrap=True)
    for line in cost_lines(cost):
        out.print(f"# {line}", markup=False, soft_wrap=True)
    say("nothing was submitted")


def cost_lines(cost: Cost) -> tuple[str, ...]:
    """What a goal costs, in words."""
    most = max(cost.call_bytes)
    memory = f"memory: one call moves up to {size_text(most)}, all shapes together {size_text(sum(cost.call_bytes))}"
    if cost.timed_bytes is not None:
        memory += f"; timed on this machine, up to {size_text(cost.timed_bytes)} at once"
    return (
        f"candidates: at most {cost.candidates}, in {cost.generations} generations or more",
        f"search: about {span_text(cost.search_s)} on two cores, at most {span_text(cost.search_at_most_s)}",
        f"finals: at most {span_text(cost.finals_at_most_s)} more",
        memory,
    )
