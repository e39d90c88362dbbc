"""Root mean squares over the windows of an array: the arithmetic of `Windows`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def window_rms(values: F64, extents: Sequence[int]) -> F64:
    """The RMS of each window of `values`, windows of `extents` indices laid side by side; the last may be shorter.

    Scaled by the largest magnitude first, so that squares neither overflow nor vanish. `values` is not empty.
    """
    top = float(np.max(np.abs(values), initial=0.0))
    if top == 0.0 or not np.isfinite(top):
        top = 1.0
    means = (values / top) ** 2
    for axis, extent in enumerate(extents):
        size = means.shape[axis]
        starts = np.arange(0, size, extent)
        lengths = np.minimum(extent, size - starts).reshape([-1 if n == axis else 1 for n in range(values.ndim)])
        means = np.add.reduceat(means, starts, axis=axis) / lengths
    return np.asarray(np.sqrt(means) * top)


def over_windows(of_windows: F64, extents: Sequence[int], shape: Sequence[int]) -> F64:
    """Each window's value at all of its elements: the inverse shape of `window_rms`."""
    spread = of_windows
    for axis, (extent, size) in enumerate(zip(extents, shape, strict=True)):
        spread = np.repeat(spread, extent, axis=axis).take(np.arange(size), axis=axis)
    return spread


def window_of(at: Sequence[np.intp], extents: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """The elements of the window numbered `at`."""
    starts = (int(n) * extent for n, extent in zip(at, extents, strict=True))
    return tuple(slice(s, min(s + e, size)) for s, e, size in zip(starts, extents, shape, strict=True))
