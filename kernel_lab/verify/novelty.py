"""Whether a candidate is faster on inputs that it was given before: then it remembers answers, wherever it hides them.

Freed memory and the stack keep their contents between calls, and no inspection of the object shows who reads them. An
answer remembered by all of its inputs is right whenever it is given, so only its speed tells. Both kinds of call follow
a write of all inputs by the parent, so caches hold the same in both.
"""

import numpy as np

from kernel_lab.runner.arm import Returned
from kernel_lab.verify.draws import Draw, Prepared, derived_seed, elements, prepare
from kernel_lab.verify.exercise import AS_LEFT, Exerciser
from kernel_lab.verify.finding import CouldNot, Finding
from kernel_lab.verify.subject import Climb
from kernel_lab.workloads.workload import Arrays, Axes
from schemas.enums import Reason

CALLS = 15
"""Calls of either kind (chosen: the fastest of each counts, and one of fifteen is undisturbed on a busy machine)."""
FACTOR = 3.0
"""How much faster a known input may be. Chosen: 27 honest kernels on a machine with eight times more work than cores
had 0.97 to 1.27."""
TRIES = 3
"""A factor must show this often in a row to be believed."""
LEAST_NS = 20_000
"""Chosen: below, what the parent's write left in which cache decides."""
MOST_ELEMENTS = 1 << 21


def remembers(climb: Climb, exerciser: Exerciser, seed: int) -> int | Finding | CouldNot:
    """How many calls were timed, or that known inputs are answered from memory. Meant for one thread: what several
    threads take depends on who else is at work."""
    axes = _size(climb)
    distribution = climb.workload.distributions[0]
    base = prepare(
        climb.workload, distribution, Draw(distribution.name, dict(axes), derived_seed(seed, "novelty", axes, 0))
    )
    rng = np.random.Generator(np.random.PCG64(derived_seed(seed, "novelty", axes, 1)))
    known_ns, new_ns = 0, 0
    for _ in range(TRIES):
        timed = _timed(exerciser, base, rng)
        if not isinstance(timed, tuple):
            return timed
        known_ns, new_ns = timed
        if new_ns < FACTOR * known_ns or new_ns < LEAST_NS:
            return 2 * CALLS
    size = "×".join(f"{name}{extent}" for name, extent in axes.items())
    message = (
        f"at {size} it takes {new_ns / 1e3:.0f} µs on new inputs and {known_ns / 1e3:.0f} µs on inputs that it was "
        "given before: it remembers answers"
    )
    return Finding(Reason.STATEFUL, message, None, base.draw.kept(climb.workload.name))


def _timed(exerciser: Exerciser, base: Prepared, rng: np.random.Generator) -> tuple[int, int] | Finding | CouldNot:
    """Least times of a call on the inputs of the call before, and on inputs that were never seen."""
    known: list[int] = []
    new: list[int] = []
    for _ in range(CALLS):
        fresh = Prepared(base.workload, base.draw, _turned(base.inputs, rng))
        for prepared, times in ((fresh, new), (fresh, known)):
            returned = exerciser.returned(prepared, AS_LEFT)
            if not isinstance(returned, Returned):
                return returned
            times.append(returned.elapsed_ns)
    return min(known), min(new)


def _size(climb: Climb) -> Axes:
    """The largest of the goal's shapes and the workload's small ones that is not too large to be filled so often."""
    sizes = [shape.axes for shape in (*climb.plan.shapes, *climb.workload.shapes["small"])]
    fitting = [axes for axes in sizes if elements(climb.workload, axes) <= MOST_ELEMENTS]
    return max(fitting or sizes[-1:], key=lambda axes: elements(climb.workload, axes))


def _turned(inputs: Arrays, rng: np.random.Generator) -> Arrays:
    """The same values in another order, all over: rows of each input turned by amounts of their own."""
    return {name: np.roll(array, tuple(int(rng.integers(1 << 30)) for _ in array.shape), tuple(range(array.ndim)))
            for name, array in inputs.items()}  # fmt: skip
