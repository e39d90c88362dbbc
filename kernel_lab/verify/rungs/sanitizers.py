"""V7: built with AddressSanitizer and UndefinedBehaviorSanitizer, and called on buffers of exactly its data's size.

The guard pages of V2 see what leaves a page; this sees one element too far on any side, in scratch and on the stack,
scratch that is read before it is written, and arithmetic that C leaves undefined.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernel_lab.verify.compare import against_bound
from kernel_lab.verify.draws import Draw, Prepared, deep_seed, derived_seed, digest_of, prepare
from kernel_lab.verify.exercise import Exerciser, exercising
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.rungs.numeric import numeric_axes, thread_counts
from kernel_lab.verify.subject import Climb


def climb(climb: Climb) -> RungOutcome:
    """No finding: at every smoke size and size of V3 neither sanitizer says anything."""
    start_arm, built = climb.bench.start_sanitized(), climb.subject.sanitized()
    if isinstance(start_arm, CouldNot):
        return start_arm
    if isinstance(built, Finding | CouldNot):
        return built
    subject = replace(climb.subject, object_path=built)
    under = replace(climb, subject=subject, bench=replace(climb.bench, start_arm=start_arm))
    checks = 0
    for threads in thread_counts(climb):
        with exercising(under, threads, inputs_writable=True) as exerciser:
            if isinstance(exerciser, Finding | CouldNot):
                return exerciser
            outcome = _every_draw(under, exerciser)
            if not isinstance(outcome, int):
                return outcome
            checks += outcome
            climb.digests.update({f"sanitizers.{name}": digest_of(seen) for name, seen in exerciser.digests.items()})
    return Climbed(checks)


def _every_draw(climb: Climb, exerciser: Exerciser) -> int | Finding | CouldNot:
    checks = 0
    for prepared in _draws(climb):
        got = exerciser.run(prepared)
        if not isinstance(got, dict):
            return got
        judged = against_bound(prepared, got, climb.plan.tolerance_scale, climb.checks)
        if isinstance(judged, Finding):
            message = f"built with sanitizers, {exerciser.threads} threads: {judged.message}"
            return replace(judged, message=message, counterexample=prepared.draw.kept(climb.workload.name))
        checks += 1
    return checks


def _draws(climb: Climb) -> Iterator[Prepared]:
    """Placed at the end of their pages: there the runner knows where the data ends."""
    distribution, seed = climb.workload.distributions[0], deep_seed(climb.seeds, "sanitizers")
    if climb.checks.sanitizers:
        for axes in (*climb.workload.smoke_axes, *numeric_axes(climb)):
            at = derived_seed(seed, distribution.name, axes, 0)
            yield prepare(climb.workload, distribution, Draw(distribution.name, dict(axes), at, "end"))
