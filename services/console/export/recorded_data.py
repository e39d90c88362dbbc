"""Inputs and what must come out of them in float64, as files that a C program can read."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel_lab.measure.contents import realistic
from kernel_lab.workloads.bounds import F64
from kernel_lab.workloads.workload import Array, Axes, Buffer, Distribution, Workload

POOL_ELEMENTS = 1 << 18
"""Values kept per input: a larger one repeats them. Chosen: a megabyte, far more than a rounding pattern can span."""
CHECKED_ELEMENTS = 4096
"""Of each output at a timed size. Chosen: an error in one of a thousand elements escapes with a chance of 1 in 60."""
EDGE_ELEMENTS = 16
"""At both ends of an output, checked always: tails are where kernels go wrong."""


@dataclass(frozen=True)
class Case:
    """One size with its data."""

    name: str
    axes: dict[str, int]
    scalars: tuple[float, ...]
    elements: tuple[int, ...]
    """Of every buffer, in argument order."""
    content: bytes
    """The file: for each input its values, then for each output the checked places, results and bounds."""


def buffers_of(workload: Workload) -> tuple[Buffer, ...]:
    """Every pointer argument, in order."""
    return (*workload.inputs, *workload.outputs)


def is_read(workload: Workload, buffer: Buffer) -> bool:
    """The kernel finds values in it."""
    return buffer in workload.drawn


def read_by(workload: Workload) -> tuple[Buffer, ...]:
    """Every buffer with values in it, in argument order."""
    return tuple(buffer for buffer in buffers_of(workload) if is_read(workload, buffer))


def is_written(workload: Workload, buffer: Buffer) -> bool:
    """The kernel leaves results in it."""
    return buffer in workload.outputs


def small_cases(workload: Workload, tolerance: float, rng: np.random.Generator) -> Iterator[Case]:
    """Every result of every distribution at one odd size, and of the timed distribution at the small shapes."""
    odd = workload.smoke_axes[-1]
    exact = (workload.exact,) if workload.exact else ()
    for distribution in (*workload.distributions, *exact):
        yield _case(workload, distribution, odd, tolerance, rng, whole=True)
    for shape in workload.shapes["small"]:
        yield _case(workload, realistic(workload), shape.axes, tolerance, rng, whole=True)


def timed_case(workload: Workload, axes: Axes, tolerance: float, rng: np.random.Generator) -> Case:
    """A timed size: realistic values, and some thousand results of each output, the edges among them."""
    return _case(workload, realistic(workload), axes, tolerance, rng, whole=False)


def _case(
    workload: Workload,
    distribution: Distribution,
    axes: Axes,
    tolerance: float,
    rng: np.random.Generator,
    *,
    whole: bool,
) -> Case:
    pools = {name: _pool(array, whole=whole) for name, array in distribution.draw(axes, rng).items()}
    inputs = {b.name: np.resize(pools[b.name], b.extent(axes)).astype(np.float32) for b in read_by(workload)}
    scalars = workload.scalars_of(distribution.name)
    exact = workload.reference(inputs, axes, scalars)
    bound = workload.bound(inputs, axes, scalars, exact)
    content = [_counted(pools[b.name].astype("<f4")) for b in read_by(workload)]
    for buffer in workload.outputs:
        want, most = np.ravel(exact[buffer.name]), np.ravel(bound[buffer.name]) * tolerance
        content.append(_checks(want, most, rng, whole=whole))
    size = "×".join(f"{name}{axes[name]}" for name in workload.axes)
    return Case(
        name=f"{size} {distribution.name}",
        axes={name: axes[name] for name in workload.axes},
        scalars=tuple(scalars[name] for name in workload.scalars),
        elements=tuple(int(np.prod(b.extent(axes), dtype=np.int64)) for b in buffers_of(workload)),
        content=b"".join(content),
    )


def _pool(array: Array, *, whole: bool) -> Array:
    """All values, or whole last rows of them up to the limit: what holds for each row still holds when it repeats."""
    flat = array.reshape(-1)
    if whole or flat.size <= POOL_ELEMENTS:
        return flat
    row = array.shape[-1]
    return flat[: POOL_ELEMENTS // row * row if row <= POOL_ELEMENTS else POOL_ELEMENTS].copy()


def _checks(want: F64, most: F64, rng: np.random.Generator, *, whole: bool) -> bytes:
    index = np.arange(want.size) if whole else _sampled(want.size, rng)
    parts: Sequence[NDArray[np.generic]] = (
        index.astype("<u8"),
        want[index].astype("<f8"),
        most[index].astype("<f8"),
    )
    return b"".join(map(_counted, parts))


def _sampled(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Places in an output of `size` elements: its edges and random ones, ascending, each once."""
    edges = [*range(min(EDGE_ELEMENTS, size)), *range(max(0, size - EDGE_ELEMENTS), size)]
    drawn = rng.integers(0, max(size, 1), min(CHECKED_ELEMENTS, size))
    return np.unique(np.concatenate([np.array(edges, np.int64), drawn]))


def _counted(values: NDArray[np.generic]) -> bytes:
    return struct.pack("<Q", values.size) + values.tobytes()
