"""Metamorphic relations in common use, as a workload declares them. Each is found by the names of axes and buffers.

A relation that honest float32 code keeps exactly (scaling by a power of two, a sign) states a claim. Most hold only
within the bound, because a kernel may add in another order: those state no claim, and it is their calls, on inputs that
belong together, that are held against the float64 reference.
"""

from collections.abc import Sequence

import numpy as np

from kernel_lab.workloads.workload import Arrays, Axes, Buffer, Call, Claim, Relation, Steps

MAX_EXPONENT = 20
"""Chosen: 2^±20 times a normal draw stays far from both ends of float32 in every intermediate."""


def scaled(inputs: Sequence[str], outputs: Sequence[str], statement: str) -> Relation:
    """Each input of `inputs` times one power of two gives `outputs` times the same, exactly: a large one, and a small
    one. For outputs that are linear in `inputs` together."""

    def steps(given: Arrays, axes: Axes, rng: np.random.Generator) -> Steps:
        plain = yield Call(given, axes)
        claims: list[Claim] = []
        for exponent in (int(rng.integers(8, MAX_EXPONENT + 1)), -int(rng.integers(1, MAX_EXPONENT + 1))):
            factor = np.float32(2.0**exponent)
            scaled = yield Call({n: np.multiply(a, factor) if n in inputs else a for n, a in given.items()}, axes)
            claims += [Claim(name, scaled[name], np.multiply(plain[name], factor)) for name in outputs]
        return tuple(claims)

    return Relation("power_of_two_scaling", statement, steps, exact=True)


def negated(inputs: Sequence[str], outputs: Sequence[str], statement: str) -> Relation:
    """Negating `inputs` negates `outputs`, exactly: rounding to nearest is symmetric."""

    def steps(given: Arrays, axes: Axes, _rng: np.random.Generator) -> Steps:
        plain = yield Call(given, axes)
        mirrored = yield Call({n: np.negative(a) if n in inputs else a for n, a in given.items()}, axes)
        return tuple(Claim(name, mirrored[name], np.negative(plain[name])) for name in outputs)

    return Relation("negation", statement, steps, exact=True)


def permuted(name: str, axis: str, inputs: Sequence[Buffer], statement: str) -> Relation:
    """Whatever has `axis` is permuted along it: outputs follow, within the bound."""

    def steps(given: Arrays, axes: Axes, rng: np.random.Generator) -> Steps:
        order = rng.permutation(axes[axis])
        yield Call(_taken(given, inputs, axis, order), axes)
        return ()

    return Relation(name, statement, steps)


def alone(axis: str, inputs: Sequence[Buffer], statement: str) -> Relation:
    """One index of `axis`, and then a few, give by themselves what they give among all: kernels switch code by size."""

    def steps(given: Arrays, axes: Axes, rng: np.random.Generator) -> Steps:
        for count in {1, int(rng.integers(1, max(axes[axis], 2)))}:
            if 0 < count <= axes[axis]:
                kept = np.sort(rng.choice(axes[axis], count, replace=False))
                yield Call(_taken(given, inputs, axis, kept), {**axes, axis: count})
        return ()

    return Relation("batch_invariance", statement, steps)


def padded(axis: str, inputs: Sequence[Buffer], statement: str) -> Relation:
    """Zeros at random places along `axis` change nothing, within the bound."""

    def steps(given: Arrays, axes: Axes, rng: np.random.Generator) -> Steps:
        longer = axes[axis] + int(rng.integers(1, 65))
        kept = np.sort(rng.choice(longer, axes[axis], replace=False))
        yield Call(_spread(given, inputs, axis, kept, longer), {**axes, axis: longer})
        return ()

    return Relation("padding_invariance", statement, steps)


def _taken(given: Arrays, buffers: Sequence[Buffer], axis: str, order: np.ndarray) -> Arrays:
    return {b.name: _along(given[b.name], b, axis, order) for b in buffers}


def _along(array: np.ndarray, buffer: Buffer, axis: str, order: np.ndarray) -> np.ndarray:
    for at, part in enumerate(buffer.shape):
        if part == axis:
            array = np.take(array, order, axis=at)
    return array


def _spread(given: Arrays, buffers: Sequence[Buffer], axis: str, kept: np.ndarray, longer: int) -> Arrays:
    spread: dict[str, np.ndarray] = {}
    for buffer in buffers:
        array = given[buffer.name]
        for at, part in enumerate(buffer.shape):
            if part == axis:
                wider = np.zeros((*array.shape[:at], longer, *array.shape[at + 1 :]), array.dtype)
                wider[(slice(None),) * at + (kept,)] = array
                array = wider
        spread[buffer.name] = array
    return spread
