"""V3: every distribution of the domain against the float64 reference, at one thread and at the candidate's own count.

Three rules (verification.md, The bound): the finite pattern, the bound, and the error class, which catches arithmetic
silently done in a smaller format. Known counterexamples of the workload come first. Outputs hold what the draw before
left in them: an answer, but to other inputs.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from kernel_lab.runner.arm import Alignment
from kernel_lab.verify.compare import against_bound, closer
from kernel_lab.verify.draws import (
    Draw,
    Prepared,
    derived_seed,
    digest_of,
    distribution_named,
    elements,
    outputs_of,
    prepare,
)
from kernel_lab.verify.error_class import Pool, draws_needed
from kernel_lab.verify.exercise import AS_LEFT, POISONS, Exerciser, Outputs, exercising
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.relating import holds, relation_named
from kernel_lab.verify.subject import Climb, Depth
from kernel_lab.workloads.workload import Axes, Distribution
from schemas.enums import Reason, RungStatus
from schemas.verdict import Worst
from schemas.work import Counterexample

MAX_ELEMENTS = 1 << 18
"""Largest cheap draw, all arguments together (chosen: drawing it, its float64 reference and its bound take about 5 ms,
so ten distributions of a few shapes stay inside the 0.7 s of the cheap rungs)."""
MAX_DEEP_ELEMENTS = 1 << 26
"""Largest draw of a finalist (chosen: 256 MiB of f32, whose float64 reference and bound take about 2 GiB and a few
seconds); what is larger is proven by the outputs of its race."""
PLACEMENTS: tuple[Alignment, ...] = ("natural", "end", "start")
"""Taken in turn, draw by draw."""

Size: TypeAlias = tuple[tuple[str, int], ...]


@dataclass
class Tally:
    """What has been compared so far."""

    checks: int = 0
    worst: Worst | None = None
    pools: dict[tuple[str, int, Size], Pool] = field(default_factory=dict)
    """By distribution, thread count and size: a long sum errs so much more than a short one that it would hide it."""


def climb(climb: Climb) -> RungOutcome:
    """No finding: known counterexamples, then every draw, are right at every thread count."""
    with ExitStack() as stack:
        exercisers = []
        for threads in thread_counts(climb):
            exerciser = stack.enter_context(
                exercising(climb, threads, inputs_writable=not climb.checks.read_only_inputs)
            )
            if isinstance(exerciser, Finding | CouldNot):
                return exerciser
            exercisers.append(exerciser)
        outcome = _old_wounds(climb, exercisers) or _every_draw(climb, exercisers)
        digests = exercisers[0].digests
        climb.digests.update({f"numeric.{name}": digest_of(seen) for name, seen in digests.items()})
    return outcome


def large_axes(climb: Climb) -> tuple[Axes, ...]:
    """For finalists, the goal's own shapes that are too large for the cheap rungs: kernels switch code by size."""
    if climb.plan.depth is not Depth.DEEP:
        return ()
    wanted = {size_of(shape.axes): shape.axes for shape in climb.plan.shapes}
    return tuple(a for a in wanted.values() if MAX_ELEMENTS < elements(climb.workload, a) <= MAX_DEEP_ELEMENTS)


def thread_counts(climb: Climb) -> tuple[int, ...]:
    """One thread, and the candidate's own count when it is another: one process each."""
    own = climb.subject.threads if climb.checks.thread_counts else 1
    return (1,) if own == 1 else (1, own)


def numeric_axes(climb: Climb) -> tuple[Axes, ...]:
    """The workload's small shapes and the goal's smallest, as far as they are at most MAX_ELEMENTS."""
    small = [shape.axes for shape in climb.workload.shapes["small"]]
    goal = sorted((shape.axes for shape in climb.plan.shapes), key=lambda axes: elements(climb.workload, axes))
    wanted = [*small, *goal[:1]]
    fitting = [axes for axes in wanted if elements(climb.workload, axes) <= MAX_ELEMENTS]
    chosen = fitting or [min(wanted, key=lambda axes: elements(climb.workload, axes))]
    return tuple({size_of(axes): axes for axes in chosen}.values())


def draws(climb: Climb) -> Iterator[tuple[Distribution, Draw]]:
    """Every draw of a judgement, in order: distributions within sizes, then what the error-class rule still lacks."""
    turn = 0
    lacking: dict[tuple[str, Size], int] = {}
    for axes in numeric_axes(climb):
        for distribution in climb.workload.distributions[: None if climb.checks.distributions else 1]:
            for n in range(climb.plan.draws):
                yield distribution, _draw(climb, distribution, axes, n, PLACEMENTS[turn % len(PLACEMENTS)])
                turn += 1
            if distribution.zero_mean and outputs_of(climb.workload, axes):
                lacking[distribution.name, size_of(axes)] = draws_needed(climb.workload, axes) - climb.plan.draws
    for axes in large_axes(climb):
        yield climb.workload.distributions[0], _draw(climb, climb.workload.distributions[0], axes, 0, "natural")
    yield from _pool_fillers(climb, lacking)


def _pool_fillers(climb: Climb, lacking: dict[tuple[str, Size], int]) -> Iterator[tuple[Distribution, Draw]]:
    """Where no zero-mean pool is large enough yet (a reduction to one), more draws of the cheapest of the first."""
    if min(lacking.values(), default=0) <= 0:
        return
    name = next(iter(lacking))[0]
    fitting = [axes for axes in numeric_axes(climb) if (name, size_of(axes)) in lacking]
    axes = min(fitting, key=lambda axes: elements(climb.workload, axes) * lacking[name, size_of(axes)])
    distribution = next(d for d in climb.workload.distributions if d.name == name)
    for n in range(lacking[name, size_of(axes)]):
        yield distribution, _draw(climb, distribution, axes, climb.plan.draws + n, "natural")


def size_of(axes: Axes) -> Size:
    """`axes` as something to file under."""
    return tuple(sorted(axes.items()))


def _draw(climb: Climb, distribution: Distribution, axes: Axes, n: int, alignment: Alignment) -> Draw:
    return Draw(
        distribution.name, dict(axes), derived_seed(climb.seeds["numeric"], distribution.name, axes, n), alignment
    )


def known_here(climb: Climb) -> tuple[Counterexample, ...]:
    """The known counterexamples of this workload that are affordable at this depth."""
    most = MAX_DEEP_ELEMENTS if climb.plan.depth is Depth.DEEP else MAX_ELEMENTS
    mine = (known for known in climb.plan.counterexamples if known.workload == climb.workload.name)
    return tuple(known for known in mine if elements(climb.workload, known.axes) <= most)


def _left_over(climb: Climb) -> str:
    mine = [known for known in climb.plan.counterexamples if known.workload == climb.workload.name]
    left = len(mine) - len(known_here(climb))
    return f"{left} known counterexamples are too large for this depth" if left else ""


def _old_wounds(climb: Climb, exercisers: list[Exerciser]) -> Finding | CouldNot | None:
    """The inputs that caught earlier candidates of this workload."""
    for known in known_here(climb) if climb.checks.counterexamples else ():
        for exerciser in exercisers:
            found = _again(climb, exerciser, known)
            if isinstance(found, CouldNot):
                return found
            if isinstance(found, Finding):
                message = f"a known counterexample ({found.reason}): {found.message}"
                return replace(found, reason=Reason.COUNTEREXAMPLE, message=message, counterexample=known)
    return None


def _again(climb: Climb, exerciser: Exerciser, known: Counterexample) -> Finding | CouldNot | None:
    """What comes of a known input: one draw, or the calls that a relation derives from one. None also for an input
    that this version cannot draw any more."""
    draw = Draw(known.distribution, dict(known.axes), known.seed, known.alignment)
    if named := relation_named(climb.workload, known.distribution):
        outcome = holds(climb, exerciser, *named, draw)
        return None if isinstance(outcome, int) else outcome
    distribution = distribution_named(climb.workload, known.distribution)
    if distribution is None:
        return None
    tally = Tally()
    judged = _judge(climb, exerciser, prepare(climb.workload, distribution, draw), tally)
    return _beyond_class(climb, tally) if isinstance(judged, dict) else judged


def _every_draw(climb: Climb, exercisers: list[Exerciser]) -> RungOutcome:
    tally = Tally()
    for distribution, draw in draws(climb):
        outcome = _at_every_thread_count(climb, exercisers, prepare(climb.workload, distribution, draw), tally)
        if outcome is not None:
            return outcome
    if tally.worst is None:
        return CouldNot(RungStatus.UNSUPPORTED, "no draw has an output: there is nothing to compare")
    return _beyond_class(climb, tally) or Climbed(tally.checks + len(tally.pools), tally.worst, _left_over(climb))


def _beyond_class(climb: Climb, tally: Tally) -> Finding | None:
    if not climb.checks.error_class:
        return None
    for (name, threads, _size), pool in tally.pools.items():
        if finding := pool.verdict(name, threads, climb.plan.tolerance_scale):
            return finding
    return None


def _at_every_thread_count(
    climb: Climb, exercisers: list[Exerciser], prepared: Prepared, tally: Tally
) -> Finding | CouldNot | None:
    first: Outputs | None = None
    for exerciser in exercisers:
        outcome = _judge(climb, exerciser, prepared, tally)
        if not isinstance(outcome, dict):
            return outcome
        first = first or outcome
        if climb.plan.deterministic and climb.checks.same_bits and (finding := _differ(prepared, first, outcome)):
            return replace(finding, counterexample=prepared.draw.kept(climb.workload.name))
    return None


def _judge(climb: Climb, exerciser: Exerciser, prepared: Prepared, tally: Tally) -> Outputs | Finding | CouldNot:
    """The outputs, when they are within bounds; their errors are pooled."""
    got = exerciser.run(prepared, AS_LEFT if climb.checks.answer_to_others else POISONS[0])
    if not isinstance(got, dict):
        return got
    judged = against_bound(prepared, got, climb.plan.tolerance_scale, climb.checks)
    if isinstance(judged, Finding):
        message = f"{judged.message} ({exerciser.threads} threads)" if exerciser.threads > 1 else judged.message
        return replace(judged, message=message, counterexample=prepared.draw.kept(climb.workload.name))
    tally.checks += 1
    tally.worst = closer(tally.worst, judged.worst)
    distribution = distribution_named(climb.workload, prepared.draw.distribution)
    if distribution is not None and distribution.zero_mean:
        pool = tally.pools.setdefault((distribution.name, exerciser.threads, size_of(prepared.draw.axes)), Pool())
        pool.add(prepared, got)
    return got


def _differ(prepared: Prepared, first: Outputs, other: Outputs) -> Finding | None:
    for name, one in first.items():
        if not np.array_equal(one.view(np.uint32), other[name].view(np.uint32)):
            message = f"{prepared.draw}: {name} has other bits at another thread count; the goal asks for determinism"
            return Finding(Reason.NOT_DETERMINISTIC, message)
    return None
