"""What can be wrong with a goal beyond its types: each check names every problem it finds, with path and hint."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from kernel_lab.workloads.workload import Workload
from schemas.goal import Goal, Shape
from schemas.requests import Problem
from schemas.work import Gene, gene_text
from services.evidence.routes_state import LANGUAGES
from services.librarian.assignment import shapes_of
from services.librarian.request_text import json_path

MAX_GOAL_BYTES = 64 * 1024
"""Chosen: the goal travels in its accepted fact beside the raw request, and its shapes in every work message."""
MAX_SHAPES = 64
"""Chosen: a screen uses one, a race all; 64 already take minutes a pass."""
WORKING_SET_BYTES = 1 << 30
"""measurement.md, Budget: the shapes measured in one goal hold at most 1 GiB."""
UNSEEN_MEMORY_BYTES = 8 << 30
"""Chosen: what to believe of a machine that has not announced itself."""
FLOAT32_BYTES = 4
MANY_NAMES = 24
"""More than these are not listed in a hint. Chosen: two lines of a terminal."""

Tunables = Mapping[str, tuple[Gene, ...]]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What this installation offers. `tunables` is by workload and language: every tunable with all its values."""

    workloads: Mapping[str, Workload]
    strategies: frozenset[str]
    tunables: Mapping[tuple[str, str], Tunables]


def check_goal(goal: Goal, catalogue: Catalogue, memory_bytes: int | None) -> tuple[Problem, ...]:
    """Everything that keeps `goal` from being run here."""
    problems = [*_size(goal), *_languages(goal), *_strategies(goal, catalogue), *_finals(goal)]
    workload = catalogue.workloads.get(goal.workload)
    if workload is None:
        return (*problems, unknown(("workload",), "workload", goal.workload, catalogue.workloads))
    problems += [*_shapes(goal, workload), *_space(goal, catalogue)]
    if not any(problem.path.startswith("$.shapes") for problem in problems):
        problems += _memory(goal, workload, memory_bytes)
    return tuple(problems)


def unknown(path: tuple[object, ...], what: str, given: str, known: Iterable[str]) -> Problem:
    """`given` is no `what`; the hint names the nearest, or all there are."""
    names = sorted(known)
    near = get_close_matches(given, names, n=1)
    hints = [f"did you mean {near[0]}?"] if near else []
    if names and len(names) <= MANY_NAMES:
        hints.append(f"known: {', '.join(names)}")
    hint = " ".join(hints)
    return Problem(path=json_path(*path), message=f"unknown {what} {given[:80]!r}", hint=hint)


def _size(goal: Goal) -> Iterator[Problem]:
    size = len(goal.model_dump_json().encode())
    if size > MAX_GOAL_BYTES:
        yield Problem(path="$", message=f"the goal takes {size} bytes; at most {MAX_GOAL_BYTES}")


def _languages(goal: Goal) -> Iterator[Problem]:
    possible = LANGUAGES[goal.target]
    for index, language in enumerate(goal.languages):
        if language not in possible:
            yield Problem(
                path=json_path("languages", index),
                message=f"target {goal.target} does not run {language}",
                hint=f"it runs: {', '.join(possible)}",
            )
        if language in goal.languages[:index]:
            yield Problem(path=json_path("languages", index), message=f"{language} is given twice")


def _strategies(goal: Goal, catalogue: Catalogue) -> Iterator[Problem]:
    for index, name in enumerate(goal.search.strategies):
        if name not in catalogue.strategies:
            yield unknown(("search", "strategies", index), "strategy", name, catalogue.strategies)


def _finals(goal: Goal) -> Iterator[Problem]:
    if goal.finals.hold_out_gap >= goal.finals.wall:
        yield Problem(
            path="$.finals.hold_out_gap",
            message=f"the gap before the race ({goal.finals.hold_out_gap:g} s) uses up finals.wall "
            f"({goal.finals.wall:g} s)",
        )


def _shapes(goal: Goal, workload: Workload) -> Iterator[Problem]:
    if isinstance(goal.shapes, str):
        return
    if not 1 <= len(goal.shapes) <= MAX_SHAPES:
        yield Problem(path="$.shapes", message=f"{len(goal.shapes)} shapes; give 1 to {MAX_SHAPES}")
    seen: dict[tuple[tuple[str, int], ...], int] = {}
    for index, shape in enumerate(goal.shapes):
        yield from _axes(index, shape, workload)
        first = seen.setdefault(tuple(sorted(shape.axes.items())), index)
        if first != index:
            yield Problem(path=json_path("shapes", index), message=f"the same as shapes[{first}]", hint="give weights")


def _axes(index: int, shape: Shape, workload: Workload) -> Iterator[Problem]:
    for axis in shape.axes:
        if axis not in workload.axes:
            yield unknown(("shapes", index, axis), f"axis of {workload.name}", axis, workload.axes)
    for axis in workload.axes:
        least = workload.axis_minimum.get(axis, 0)
        if axis not in shape.axes:
            yield Problem(path=json_path("shapes", index), message=f"axis {axis} of {workload.name} is missing")
        elif shape.axes[axis] < max(1, least):
            message = f"{shape.axes[axis]} is too small: at least {max(1, least)}"
            yield Problem(path=json_path("shapes", index, axis), message=message)


def _memory(goal: Goal, workload: Workload, memory_bytes: int | None) -> Iterator[Problem]:
    needed = sum(bytes_of(shape, workload) for shape in shapes_of(goal, workload))
    memory = memory_bytes or UNSEEN_MEMORY_BYTES
    if needed > memory:
        yield Problem(
            path="$.shapes",
            message=f"inputs and outputs take {_gib(needed)}; the machine has {_gib(memory)}",
            hint="use smaller shapes",
        )
    elif needed > WORKING_SET_BYTES:
        yield Problem(
            path="$.shapes",
            message=f"inputs and outputs of all shapes take {_gib(needed)}; one goal measures at most "
            f"{_gib(WORKING_SET_BYTES)}",
            hint="use smaller or fewer shapes, or several goals",
        )


def bytes_of(shape: Shape, workload: Workload) -> int:
    """Inputs and outputs of one call, in float32."""
    buffers = (*workload.inputs, *workload.outputs)
    return sum(FLOAT32_BYTES * math.prod(buffer.extent(shape.axes)) for buffer in buffers)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB"


def _space(goal: Goal, catalogue: Catalogue) -> Iterator[Problem]:
    known = tunables_of(goal, catalogue)
    yield from check_values(("search", "space", "include"), goal.search.space.include, goal, known)
    yield from check_values(("search", "space", "exclude"), goal.search.space.exclude, goal, known)


def tunables_of(goal: Goal, catalogue: Catalogue) -> Tunables:
    """Every tunable of the goal's spaces, with all its values in order; empty where nobody wrote a space."""
    tunables: dict[str, dict[Gene, None]] = {}
    for language in goal.languages or LANGUAGES[goal.target]:
        for name, values in catalogue.tunables.get((goal.workload, language), {}).items():
            tunables.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: tuple(values) for name, values in tunables.items()}


def check_values(path: tuple[object, ...], limits: Tunables, goal: Goal, known: Tunables) -> Iterator[Problem]:
    """Tunables and values in `limits` that no space of the goal has. Nothing is known where there is no space."""
    if not known:
        return
    for name, values in limits.items():
        if name not in known:
            yield unknown((*path, name), f"tunable of {goal.workload}", name, known)
            continue
        for index, value in enumerate(values):
            if not among(value, known[name]):
                yield unknown((*path, name, index), f"value of {name}", gene_text(value), map(gene_text, known[name]))


def among(value: Gene, values: Iterable[Gene]) -> bool:
    """Membership that tells `true` from 1."""
    return any(value == other and type(value) is type(other) for other in values)
