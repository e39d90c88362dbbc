"""V6: the same call gives the same answer, however often, beside others, and whatever else was asked in between.

One process per thread count (libgomp starts its threads anew after shrinking): 1, 2, 3 and the candidate's own, all at
work at once, so that each runs under the load of the others. Buffers are aligned as they are when a candidate is timed.
Then, alone: a thousand calls, and whether known inputs are answered from memory.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from kernel_lab.runner.arm import Alignment
from kernel_lab.verify.compare import against_bound
from kernel_lab.verify.draws import Draw, Prepared, deep_seed, derived_seed, digest_of, elements, prepare
from kernel_lab.verify.exercise import AS_LEFT, Exerciser, Outputs, exercising
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.novelty import remembers
from kernel_lab.verify.rungs.numeric import numeric_axes
from kernel_lab.verify.subject import Climb
from kernel_lab.workloads.workload import Arrays, Axes
from schemas.enums import Reason

THREAD_COUNTS = (1, 2, 3)
"""One, two and odd, beside the candidate's own."""
REPEATS = 12
"""Calls on the same data under load (chosen: a race that shows once in four calls is missed once in thirty)."""
MANY_CALLS = 1000
"""verification.md, V6."""


@dataclass(frozen=True)
class Story:
    """The draws that every process is asked about, at one size."""

    first: Prepared
    other: Prepared
    """Other contents under the same pointers."""
    nearly: Prepared
    """The first, but for one element of one input: an answer remembered by a part of its inputs does not fit it."""
    moved: Prepared
    """The first, under other pointers."""

    @property
    def all(self) -> tuple[Prepared, ...]:
        return self.first, self.other, self.nearly, self.moved


def climb(climb: Climb) -> RungOutcome:
    """No finding: answers depend on nothing but the inputs."""
    stories = tuple(_stories(climb))
    with ExitStack() as stack:
        exercisers = []
        for threads in thread_counts(climb):
            exerciser = stack.enter_context(
                exercising(climb, threads, inputs_writable=False, as_timed=climb.checks.as_timed)
            )
            if isinstance(exerciser, Finding | CouldNot):
                return exerciser
            exercisers.append(exerciser)
        return _told_to_all(climb, exercisers, stories)


def thread_counts(climb: Climb) -> tuple[int, ...]:
    """Every count that is asked about."""
    counts = THREAD_COUNTS if climb.checks.more_threads else ()
    return tuple(sorted({*counts, climb.subject.threads}))


def _told_to_all(climb: Climb, exercisers: list[Exerciser], stories: tuple[Story, ...]) -> RungOutcome:
    checks = 0
    for story in stories:
        for exerciser in exercisers:  # here, in one thread: an arena is no place for two at once
            for prepared in story.all:
                exerciser.place(prepared.draw)
        for prepared in story.all:
            _ = prepared.bound
        with ThreadPoolExecutor(len(exercisers)) as pool:
            outcomes = list(pool.map(lambda exerciser, told=story: _tell(climb, exerciser, told), exercisers))
        for outcome in outcomes:
            if not isinstance(outcome, int):
                return outcome
            checks += outcome
    for exerciser in exercisers:
        outcome = _alone(climb, exerciser, stories[0])
        if not isinstance(outcome, int):
            return outcome
        checks += outcome
    climb.digests.update({f"repeat.{name}": digest_of(seen) for name, seen in exercisers[0].digests.items()})
    return Climbed(checks)


def _alone(climb: Climb, exerciser: Exerciser, story: Story) -> int | Finding | CouldNot:
    """What is asked of one process while the others rest."""
    checked = 0
    if exerciser.threads in (1, climb.subject.threads) and climb.checks.many_calls:
        outcome = _many_calls(climb, exerciser, story)
        if not isinstance(outcome, int):
            return outcome
        checked += outcome
    if exerciser.threads == 1 and climb.checks.novelty:
        outcome = remembers(climb, exerciser, deep_seed(climb.seeds, "repeat"))
        if not isinstance(outcome, int):
            return outcome
        checked += outcome
    return checked


def _stories(climb: Climb) -> Iterator[Story]:
    """At the smallest and the largest size of V3: honest kernels share out the one and not the other."""
    by_size = sorted(numeric_axes(climb), key=lambda axes: elements(climb.workload, axes))
    seed = deep_seed(climb.seeds, "repeat")
    for axes in {id(axes): axes for axes in (by_size[0], by_size[-1])}.values():
        first = _drawn(climb, axes, derived_seed(seed, "first", axes, 0), "natural")
        other = _drawn(climb, axes, derived_seed(seed, "other", axes, 0), "natural")
        rng = np.random.Generator(np.random.PCG64(derived_seed(seed, "nearly", axes, 0)))
        nearly = Prepared(climb.workload, first.draw, _one_changed(first.inputs, other.inputs, rng))
        yield Story(first, other, nearly, replace(first, draw=replace(first.draw, alignment="end")))


def _drawn(climb: Climb, axes: Axes, seed: int, alignment: Alignment) -> Prepared:
    distribution = climb.workload.distributions[0]
    return prepare(climb.workload, distribution, Draw(distribution.name, dict(axes), seed, alignment))


def _one_changed(inputs: Arrays, others: Arrays, rng: np.random.Generator) -> Arrays:
    """One random element of the largest input is another one's."""
    largest = max(inputs, key=lambda name: inputs[name].size)
    changed = inputs[largest].copy()
    at = int(rng.integers(max(changed.size, 1)))
    changed.reshape(-1)[at : at + 1] = 3 * others[largest].reshape(-1)[at : at + 1]
    return {**inputs, largest: changed}


def _tell(climb: Climb, exerciser: Exerciser, story: Story) -> int | Finding | CouldNot:
    """How many calls were right, or what went wrong."""
    first = _right(climb, exerciser, story.first, "at first")
    if not isinstance(first, dict):
        return first
    for _ in range(REPEATS):
        again = _same(climb, exerciser, story.first, first, "when asked again beside others")
        if again is not None:
            return again
    for prepared, when in (
        (story.other, "with new data under old pointers"),
        (story.first, "with the old data again"),
        (story.nearly, "with one element changed") if climb.checks.one_changed else (story.first, "once more"),
        (story.moved, "with old data under new pointers"),
    ):
        outcome = _right(climb, exerciser, prepared, when)
        if not isinstance(outcome, dict):
            return outcome
    return REPEATS + 5


def _many_calls(climb: Climb, exerciser: Exerciser, story: Story) -> int | Finding | CouldNot:
    first = _right(climb, exerciser, story.first, "before many calls")
    if not isinstance(first, dict):
        return first
    for _ in range(MANY_CALLS):
        outcome = exerciser.again(story.first)
        if outcome is not None:
            return outcome
    again = _same(climb, exerciser, story.first, first, f"after {MANY_CALLS} calls")
    return MANY_CALLS if again is None else again


def _same(
    climb: Climb, exerciser: Exerciser, prepared: Prepared, first: Outputs, when: str
) -> Finding | CouldNot | None:
    """At one thread the very same bits; at more only where the goal asks for them, else within the bound."""
    outcome = _right(climb, exerciser, prepared, when)
    if not isinstance(outcome, dict):
        return outcome
    strict = exerciser.threads == 1 or climb.plan.deterministic
    if not strict or not climb.checks.repeatable or _bits(outcome) == _bits(first):
        return None
    reason = Reason.NOT_REPEATABLE if exerciser.threads == 1 else Reason.NOT_DETERMINISTIC
    message = f"{prepared.draw}, {exerciser.threads} threads: the same call gave other bits {when}"
    return Finding(reason, message, None, prepared.draw.kept(climb.workload.name))


def _right(climb: Climb, exerciser: Exerciser, prepared: Prepared, when: str) -> Outputs | Finding | CouldNot:
    got = exerciser.run(prepared, AS_LEFT)
    if not isinstance(got, dict):
        return got
    judged = against_bound(prepared, got, climb.plan.tolerance_scale, climb.checks)
    if isinstance(judged, Finding):
        message = f"{when}, {exerciser.threads} threads: {judged.message}"
        return replace(judged, message=message, counterexample=prepared.draw.kept(climb.workload.name))
    return got


def _bits(outputs: Outputs) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in outputs.items()}
