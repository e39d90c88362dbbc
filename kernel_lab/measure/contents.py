"""The data that arms are timed on: shared buffer sets whose contents and pointers are renewed between quads.

Buffer sets come in pairs that share their outputs and hold different contents, and a rotation calls the first of every
pair, then the second of every pair. So each timed call finds the answer to other inputs where its own is due: a
candidate that returns early where its output looks right gains nothing, however little it remembers. An output that is
read too is restored before each call, so it is not shared.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from kernel_lab.measure.schedule import Refresh, rotation
from kernel_lab.runner.arm import Arena, BufferSet
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Distribution, Workload
from schemas.enums import Regime

SPARE_UP_TO_BYTES = 256 << 20
"""Larger pairs have no spare: chosen so that one shape never maps more than 1 GiB beyond its working set."""
SIDES_OF_A_PAIR = 2
RENEWED_PAIRS = 32
RENEWED_BYTES = 64 << 20
"""Most pairs, and about as many bytes, refilled between two quads. Chosen: a fill costs some microseconds for small
shapes, some hundredths of a second for large ones, and which pairs of a rotation is random."""
LARGE_BYTES = 8 << 20
"""Pairs from here on are drawn and filled by two threads. Chosen: some milliseconds, beside which starting them is
nothing."""
SEED_BITS = 62
ELEMENT_BYTES = 4


Made = TypeVar("Made")


@dataclass(frozen=True)
class Watched:
    """One buffer set whose outputs are verified after a sample. Its contents can be drawn again from the seed."""

    buffers: BufferSet
    inputs: Arrays
    distribution: str
    seed: int
    held: Arrays
    """What its outputs would hold if its calls left them alone: answers to inputs that are gone, or what they are
    restored from."""

    def outputs(self) -> Arrays:
        """A copy of its outputs as they are now."""
        return {name: self.buffers.output(name) for name in self.held}


@dataclass(frozen=True)
class WatchedPair:
    """A pair of which both contents are watched. Its outputs belong to whichever was called last. It looks like any
    other pair: a poison could be told from an answer, and a candidate be honest only there."""

    contents: tuple[Watched, Watched]
    places: tuple[int, int]
    """Where the two are called in the rotation."""
    length: int
    """Of the rotation."""

    def last_called(self, turn: int) -> Watched:
        """Whose answer must be there, once both were called and the next call is at `turn`."""
        first, second = ((turn - 1 - place) % self.length for place in self.places)
        return self.contents[0 if first < second else 1]


def set_bytes(workload: Workload, axes: Axes) -> int:
    """Working set of one call in bytes."""
    return _bytes_of(workload.inputs + workload.outputs, axes)


def pair_bytes(workload: Workload, axes: Axes) -> int:
    """What a pair of sets takes: its inputs twice, its outputs once. One that is read too is not shared, and restored
    from as much again."""
    read_too = [buffer for buffer in workload.outputs if buffer.in_out]
    once = [buffer for buffer in workload.outputs if not buffer.in_out]
    twice = [*workload.inputs, *read_too, *read_too]
    return SIDES_OF_A_PAIR * _bytes_of(twice, axes) + _bytes_of(once, axes)


def rotation_of(workload: Workload, axes: Axes, llc_bytes: int, regime: Regime) -> int:
    """How many pairs a sample of `workload` rotates over."""
    restored = any(buffer.in_out for buffer in workload.outputs)
    return rotation(set_bytes(workload, axes), pair_bytes(workload, axes), llc_bytes, regime, restored=restored)


def _bytes_of(buffers: Sequence[Buffer], axes: Axes) -> int:
    return ELEMENT_BYTES * sum(int(np.prod(b.extent(axes), dtype=np.int64)) for b in buffers)


def realistic(workload: Workload) -> Distribution:
    """The distribution that is timed: standard normal where the domain has it; never zeros, never subnormals."""
    by_name = {d.name: d for d in workload.distributions}
    return by_name.get("normal", workload.distributions[0])


class Rotation:
    """The buffer sets of one shape in one pair of processes: `pairs` pairs, and one to spare, in an arena that holds
    nothing else. The two contents of every pair are drawn independently, once, and turned at each renewal."""

    def __init__(self, arena: Arena, workload: Workload, axes: Axes, pairs: int, rng: np.random.Generator) -> None:
        spare = 1 if pair_bytes(workload, axes) <= SPARE_UP_TO_BYTES else 0
        self._arena, self._workload, self._axes, self._rng, self._length = arena, workload, axes, rng, pairs
        self._distribution = realistic(workload)
        self._is_large = pair_bytes(workload, axes) >= LARGE_BYTES
        generators = rng.spawn(SIDES_OF_A_PAIR)
        self._drawn = self._of_both(lambda side: _twice(self._distribution.draw(axes, generators[side])))
        self._pairs = [_paired(arena, workload, axes) for _ in range(pairs + spare)]
        self._order = list(range(pairs))
        for pair in self._pairs:
            self._fill(pair)

    @property
    def sets(self) -> Sequence[BufferSet]:
        """What a sample rotates over, in this order: no set follows the other one of its own pair but in a rotation of
        one pair, and none follows itself."""
        return [self._pairs[index][side] for side in range(SIDES_OF_A_PAIR) for index in self._order]

    def renew(self, refresh: Refresh) -> None:
        """The next quad finds other contents, under the same pointers or under other ones."""
        if refresh == "new_pointers":
            self._order = [int(i) for i in self._rng.permutation(len(self._pairs))[: self._length]]
        renewed = min(RENEWED_PAIRS, max(1, RENEWED_BYTES // pair_bytes(self._workload, self._axes)))
        for index in self._rng.permutation(self._order)[:renewed]:
            self._fill(self._pairs[int(index)])

    def watch(self) -> WatchedPair:
        """A random pair of the rotation holds contents drawn afresh from seeds of their own. Its outputs are left as
        they are: answers to what was there before."""
        place = int(self._rng.integers(self._length))
        pair = self._pairs[self._order[place]]
        seeds = [int(self._rng.integers(1 << SEED_BITS)) for _ in range(SIDES_OF_A_PAIR)]
        first, second = self._of_both(lambda side: self._watched(pair[side], seeds[side]))
        return WatchedPair(
            (first, second),
            (place, self._length + place),
            SIDES_OF_A_PAIR * self._length,
        )

    def close(self) -> None:
        """Its memory is the arena's again."""
        self._arena.recycle()

    def _watched(self, buffers: BufferSet, seed: int) -> Watched:
        inputs = self._distribution.draw(self._axes, np.random.Generator(np.random.PCG64(seed)))
        buffers.fill_inputs(inputs)
        held = {b.name: inputs[b.name] if b.in_out else buffers.output(b.name) for b in self._workload.outputs}
        return Watched(buffers, inputs, self._distribution.name, seed, held)

    def _fill(self, pair: tuple[BufferSet, BufferSet]) -> None:
        turned = [{name: self._turned(twice) for name, twice in drawn.items()} for drawn in self._drawn]
        self._of_both(lambda side: pair[side].fill_inputs(turned[side]))

    def _of_both(self, make: Callable[[int], Made]) -> list[Made]:
        """What is made of each side of a pair; where that is long work, at the same time. numpy draws and copies
        without the interpreter's lock."""
        sides = range(SIDES_OF_A_PAIR)
        if not self._is_large:
            return [make(side) for side in sides]
        with ThreadPoolExecutor(SIDES_OF_A_PAIR) as threads:
            return list(threads.map(make, sides))

    def _turned(self, twice: Array) -> Array:
        """Rows, or the elements of a single row, turned by a random amount: what holds for each row still holds."""
        axis = _turned_axis(twice)
        length = twice.shape[axis] // 2
        start = int(self._rng.integers(length)) if length else 0
        return twice[start : start + length] if axis == 0 else twice[..., start : start + length]


def _twice(drawn: Arrays) -> dict[str, Array]:
    """Each array end to end with itself along the axis that is turned: any turn of it is a view, and filling a set
    costs one copy."""
    return {name: np.concatenate((array, array), axis=_turned_axis(array)) for name, array in drawn.items()}


def _turned_axis(array: Array) -> int:
    return 0 if array.shape[0] != 1 else array.ndim - 1


def _paired(arena: Arena, workload: Workload, axes: Axes) -> tuple[BufferSet, BufferSet]:
    first = arena.buffers(workload, axes, "natural")
    return first, arena.buffers(workload, axes, "natural", outputs_of=first)
