"""V1: it loads in a fresh sandboxed process, and neither loading nor a call changes the FP control register."""

from kernel_lab.runner.arm import Returned
from kernel_lab.verify.draws import Draw, derived_seed, elements, prepare
from kernel_lab.verify.exercise import Exerciser, exercising
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.subject import Climb


def climb(climb: Climb) -> RungOutcome:
    """No finding: it was loaded and called once, and left the process as it was.

    The runner reads the FP control register before it loads the candidate and after each call, so a change made while
    loading shows at the first call.
    """
    with exercising(climb, threads=1, inputs_writable=True) as exerciser:
        if isinstance(exerciser, Finding | CouldNot):
            return exerciser
        outcome = _call_once(climb, exerciser)
        return Climbed(checks=3) if isinstance(outcome, Returned) else outcome


def _call_once(climb: Climb, exerciser: Exerciser) -> Returned | Finding | CouldNot:
    distribution = climb.workload.exact or climb.workload.distributions[0]
    axes = min(
        (axes for axes in climb.workload.smoke_axes if elements(climb.workload, axes) > 1),
        key=lambda axes: elements(climb.workload, axes),
    )
    seed = derived_seed(climb.seeds["smoke"], distribution.name, axes, 0)
    draw = Draw(distribution.name, dict(axes), seed, "natural")
    return exerciser.returned(prepare(climb.workload, distribution, draw))
