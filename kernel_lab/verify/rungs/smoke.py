"""V2: tiny sizes, two poisons, an old answer, guard pages, odd pointers, untouched inputs, exact values. One thread."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernel_lab.runner.arm import Alignment
from kernel_lab.verify.compare import against_bound, closer, exactly
from kernel_lab.verify.draws import Draw, Prepared, derived_seed, digest_of, prepare
from kernel_lab.verify.exercise import POISONS, Exerciser, Outputs, exercising
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.subject import Climb
from kernel_lab.workloads.workload import Array, Axes, Distribution
from schemas.enums import Reason
from schemas.verdict import Worst


@dataclass(frozen=True)
class Clean:
    """One placement of one size passed."""

    worst: Worst | None


def climb(climb: Climb) -> RungOutcome:
    """No finding: at every smoke size and placement the answer is right, complete, and its own."""
    with exercising(climb, threads=1, inputs_writable=True) as exerciser:
        if isinstance(exerciser, Finding | CouldNot):
            return exerciser
        outcome = _every_size(climb, exerciser)
        climb.digests.update({f"smoke.{name}": digest_of(seen) for name, seen in exerciser.digests.items()})
    return outcome


def _every_size(climb: Climb, exerciser: Exerciser) -> RungOutcome:
    distribution = climb.workload.exact or climb.workload.distributions[0]
    checks, worst = 0, None
    for prepared in _placed_draws(climb, distribution):
        outcome = _once(climb, exerciser, prepared)
        if not isinstance(outcome, Clean):
            return outcome
        checks, worst = checks + 1, closer(worst, outcome.worst)
    return Climbed(checks, worst)


def _placed_draws(climb: Climb, distribution: Distribution) -> Iterator[Prepared]:
    for n, axes in enumerate(_sizes(climb)):
        for alignment in _placements(climb):
            seed = derived_seed(climb.seeds["smoke"], distribution.name, axes, n)
            yield prepare(climb.workload, distribution, Draw(distribution.name, dict(axes), seed, alignment))


def _sizes(climb: Climb) -> tuple[Axes, ...]:
    """Every smoke size; with the check off only the largest, as a checker that trusts one size would."""
    sizes = climb.workload.smoke_axes
    return sizes if climb.checks.smoke_sizes else sizes[-1:]


def _placements(climb: Climb) -> Iterator[Alignment]:
    if climb.checks.guard_after:
        yield "end"
    if climb.checks.guard_before:
        yield "start"
    yield "natural"


def _once(climb: Climb, exerciser: Exerciser, prepared: Prepared) -> Clean | Finding | CouldNot:
    """The first poison's answer is judged; the second poison must give the same bits, and an old answer no excuse."""
    first = exerciser.run(prepared, POISONS[0])
    if not isinstance(first, dict):
        return first
    second = exerciser.run(prepared, POISONS[1])
    if not isinstance(second, dict):
        return second
    wrong = _poison_shows(climb, prepared.draw, first, second) or _value_wrong(climb, prepared, first)
    if isinstance(wrong, Finding):
        return wrong
    return _over_an_old_answer(climb, exerciser, prepared, first) or Clean(wrong)


def _over_an_old_answer(
    climb: Climb, exerciser: Exerciser, prepared: Prepared, answer: Outputs
) -> Finding | CouldNot | None:
    """A buffer that holds the right answer but for one element is written again: a candidate that looks at part of its
    output to see whether there is anything left to do leaves that element as it is."""
    if not climb.checks.old_answer:
        return None
    rng = np.random.Generator(np.random.PCG64(prepared.draw.seed))
    held = {name: _one_poisoned(array, rng) for name, array in answer.items()}
    again = exerciser.run(prepared, {name: spoiled for name, (spoiled, _) in held.items()})
    if not isinstance(again, dict):
        return again
    for name, (_, at) in held.items():
        if at is not None and again[name].view(np.uint32)[at] == POISONS[0]:
            message = f"{prepared.draw}: {name}{list(at)} was left alone where the rest of {name} held the right answer"
            return Finding(Reason.INCOMPLETE_OUTPUT, message, None, prepared.draw.kept(climb.workload.name))
    return None


def _one_poisoned(answer: Array, rng: np.random.Generator) -> tuple[Array, tuple[int, ...] | None]:
    spoiled = answer.copy()
    if not spoiled.size:
        return spoiled, None
    at = tuple(int(i) for i in np.unravel_index(int(rng.integers(spoiled.size)), spoiled.shape))
    spoiled.view(np.uint32)[at] = POISONS[0]
    return spoiled, at


def _poison_shows(climb: Climb, draw: Draw, first: Outputs, second: Outputs) -> Finding | None:
    kept = draw.kept(climb.workload.name)
    for name, one in first.items():
        left = (_bits(one) == POISONS[0]) & (_bits(second[name]) == POISONS[1])
        if climb.checks.written_everywhere and left.any():
            at = [int(i) for i in np.argwhere(left)[0]]
            message = f"{draw}: {int(left.sum())} of {left.size} elements of {name} were never written, first {at}"
            return Finding(Reason.INCOMPLETE_OUTPUT, message, None, kept)
        differs = (_bits(one) != _bits(second[name])) & ~left
        if climb.checks.two_poisons and differs.any():
            at = [int(i) for i in np.argwhere(differs)[0]]
            message = f"{draw}: {name}{at} depends on what the output buffer held before the call"
            return Finding(Reason.DEPENDS_ON_OUTPUT, message, None, kept)
    return None


def _value_wrong(climb: Climb, prepared: Prepared, got: Outputs) -> Finding | Worst | None:
    if climb.workload.exact:
        finding = exactly(prepared, got) if climb.checks.exact else None
        return finding and _blame(climb, prepared, finding)
    judged = against_bound(prepared, got, climb.plan.tolerance_scale, climb.checks)
    return _blame(climb, prepared, judged) if isinstance(judged, Finding) else judged.worst


def _blame(climb: Climb, prepared: Prepared, finding: Finding) -> Finding:
    kept = prepared.draw.kept(climb.workload.name)
    return Finding(finding.reason, finding.message, finding.worst, kept)


def _bits(values: Array) -> Array:
    return np.atleast_1d(np.ascontiguousarray(values).view(np.uint32))
