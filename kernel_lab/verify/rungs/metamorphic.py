"""V4: the relations that the workload declares hold, at the sizes of V3 and at the candidate's own thread count.

They need no oracle of their own: what a kernel says of one input binds it for others. Each is asked with the first
distribution, and with another one that the secret seed picks.
"""

from collections.abc import Iterator

from kernel_lab.verify.draws import Draw, deep_seed, derived_seed, digest_of
from kernel_lab.verify.exercise import Exerciser, exercising
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.relating import JOINT, holds
from kernel_lab.verify.rungs.numeric import PLACEMENTS, numeric_axes
from kernel_lab.verify.subject import Climb
from kernel_lab.workloads.workload import Distribution, Relation


def climb(climb: Climb) -> RungOutcome:
    """No finding: every relation with content holds."""
    with exercising(climb, climb.subject.threads, inputs_writable=False) as exerciser:
        if isinstance(exerciser, Finding | CouldNot):
            return exerciser
        outcome = _every_relation(climb, exerciser)
        climb.digests.update({f"metamorphic.{name}": digest_of(seen) for name, seen in exerciser.digests.items()})
    return outcome


def _every_relation(climb: Climb, exerciser: Exerciser) -> RungOutcome:
    checks = 0
    for distribution, relation, draw in _asked(climb):
        outcome = holds(climb, exerciser, distribution, relation, draw)
        if not isinstance(outcome, int):
            return outcome
        checks += outcome
    stated = [relation.name for relation in climb.workload.relations if relation.steps is None]
    return Climbed(checks, note=f"only stated, not run: {', '.join(stated)}" if stated else "")


def _asked(climb: Climb) -> Iterator[tuple[Distribution, Relation, Draw]]:
    turn, seed = 0, deep_seed(climb.seeds, "metamorphic")
    first, *others = climb.workload.distributions
    for axes in numeric_axes(climb):
        for relation in climb.workload.relations if climb.checks.relations else ():
            if relation.steps is None:
                continue
            picked = others[derived_seed(seed, relation.name, axes, 0) % len(others)] if others else first
            for distribution in (first,) if relation.exact else dict.fromkeys((first, picked)):
                name = f"{distribution.name}{JOINT}{relation.name}"
                placed = PLACEMENTS[turn % len(PLACEMENTS)]
                yield distribution, relation, Draw(name, dict(axes), derived_seed(seed, name, axes, 1), placed)
                turn += 1
