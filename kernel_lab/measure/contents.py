"""The data that arms are timed on: shared buffer sets whose contents and pointers are renewed between quads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_lab.measure.schedule import Refresh
from kernel_lab.runner.arm import Arena, Arm, BufferSet
from kernel_lab.workloads.workload import Array, Arrays, Axes, Distribution, Workload

POISON = 0x7FA5A5A5
"""A signalling NaN: an output that a timed call left alone cannot pass for a result."""
SPARE_UP_TO_BYTES = 256 << 20
"""Larger sets have no spare: chosen so that one shape never maps more than 1 GiB beyond its working set."""
RENEWED_SETS = 64
"""Most sets refilled between two quads. Chosen: a fill costs some microseconds for small shapes, and which 64 of a
rotation of thousands is random."""
SEED_BITS = 62
ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Watched:
    """One buffer set whose outputs are verified after a sample. Its contents can be drawn again from the seed."""

    buffers: BufferSet
    inputs: Arrays
    distribution: str
    seed: int

    def poison(self) -> None:
        """Its outputs hold no result."""
        self.buffers.poison_outputs(POISON)


def set_bytes(workload: Workload, axes: Axes) -> int:
    """Working set of one call in bytes."""
    buffers = workload.inputs + workload.outputs
    return ELEMENT_BYTES * sum(int(np.prod(b.extent(axes), dtype=np.int64)) for b in buffers)


def realistic(workload: Workload) -> Distribution:
    """The distribution that is timed: standard normal where the domain has it; never zeros, never subnormals."""
    by_name = {d.name: d for d in workload.distributions}
    return by_name.get("normal", workload.distributions[0])


class Rotation:
    """The buffer sets of one shape in one pair. Inputs are drawn once and permuted at each renewal."""

    def __init__(self, arena: Arena, workload: Workload, axes: Axes, sets: int, rng: np.random.Generator) -> None:
        spare = 1 if set_bytes(workload, axes) <= SPARE_UP_TO_BYTES else 0
        self._distribution, self._axes, self._rng, self._length = realistic(workload), axes, rng, sets
        self._drawn = self._distribution.draw(axes, rng)
        self._sets = [arena.buffers(workload, axes, "natural") for _ in range(sets + spare)]
        self._order = list(range(sets))
        for buffers in self._sets:
            self._fill(buffers)

    @property
    def sets(self) -> Sequence[BufferSet]:
        """What a sample rotates over, in this order."""
        return [self._sets[index] for index in self._order]

    def renew(self, refresh: Refresh) -> None:
        """The next quad finds other contents, under the same pointers or under other ones."""
        if refresh == "new_pointers":
            self._order = [int(i) for i in self._rng.permutation(len(self._sets))[: self._length]]
        for index in self._rng.permutation(self._order)[:RENEWED_SETS]:
            self._fill(self._sets[int(index)])

    def watch(self) -> Watched:
        """A random set of the rotation holds contents drawn afresh from a seed of its own."""
        seed = int(self._rng.integers(1 << SEED_BITS))
        buffers = self._sets[int(self._rng.choice(self._order))]
        inputs = self._distribution.draw(self._axes, np.random.Generator(np.random.PCG64(seed)))
        buffers.fill_inputs(inputs)
        return Watched(buffers, inputs, self._distribution.name, seed)

    def release_from(self, arm: Arm) -> None:
        """`arm` maps none of the sets any longer."""
        for buffers in self._sets:
            arm.release(buffers)

    def close(self) -> None:
        for buffers in self._sets:
            buffers.close()

    def _fill(self, buffers: BufferSet) -> None:
        buffers.fill_inputs({name: self._turned(array) for name, array in self._drawn.items()})

    def _turned(self, array: Array) -> Array:
        """Rows, or the elements of a single row, turned by a random amount: what holds for each row still holds."""
        if not array.size:
            return array
        axis = 0 if array.shape[0] > 1 else array.ndim - 1
        return np.roll(array, int(self._rng.integers(array.shape[axis])), axis=axis)
