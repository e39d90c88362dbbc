"""V8 at the price of a screen: a random part of the rows of a timed call, the whole where rows are not independent."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kernel_lab.measure.contents import Watched
from kernel_lab.verify.finding import Finding
from kernel_lab.verify.rungs.timed_outputs import verify_timed_outputs
from kernel_lab.workloads.workload import Array, Arrays, Axes, Workload

INDEPENDENT_ROWS = "batch_invariance"
"""The relation by which a workload declares that a row gives the same result alone as within a batch."""
CHECKED_ELEMENTS = 1 << 20
"""Output elements compared in float64. Chosen: about a tenth of a second; rows that look left alone come first."""


def verify_watched(
    workload: Workload,
    axes: Axes,
    watched: Watched,
    outputs: Mapping[str, Array],
    rng: np.random.Generator,
    tolerance_scale: float,
) -> Finding | None:
    """What is wrong with the outputs of a timed call. A finding is always about the whole, so that it can be drawn
    again from its seed."""
    wanted = _wanted_rows(workload, axes) if tolerance_scale >= 1 else None
    if wanted is not None:
        rows = _some_rows(wanted, watched.held, outputs, rng)
        if not _wrong_rows(workload, axes, watched, outputs, rows):
            return None
    found = verify_timed_outputs(
        workload,
        axes,
        watched.inputs,
        outputs,
        distribution=watched.distribution,
        seed=watched.seed,
        tolerance_scale=tolerance_scale,
    )
    return found if isinstance(found, Finding) else None


def row_axis(workload: Workload) -> str | None:
    """The leading axis of every output, when its rows are declared independent and inputs have it in front or not at
    all."""
    leading = {buffer.shape[0] for buffer in workload.outputs}
    axis = leading.pop() if len(leading) == 1 else None
    declared = any(relation.name == INDEPENDENT_ROWS for relation in workload.relations)
    buffers = (*workload.inputs, *workload.outputs)
    if not declared or not isinstance(axis, str) or any(axis in buffer.shape[1:] for buffer in buffers):
        return None
    return axis


def _wanted_rows(workload: Workload, axes: Axes) -> int | None:
    """How many rows are enough; None when all are to be compared."""
    axis = row_axis(workload)
    if axis is None:
        return None
    elements = sum(int(np.prod(b.extent(axes), dtype=np.int64)) for b in workload.outputs)
    wanted = axes[axis] * CHECKED_ELEMENTS // max(elements, 1)
    return None if wanted >= axes[axis] else max(wanted, 1)


def _some_rows(wanted: int, held: Arrays, outputs: Mapping[str, Array], rng: np.random.Generator) -> np.ndarray:
    """Random rows, and as many of those in which some element still has the bits that it had before the calls."""
    unchanged = np.any([_unchanged_rows(held[name], output) for name, output in outputs.items()], axis=0)
    suspected = rng.permutation(np.flatnonzero(unchanged))[:wanted]
    return np.union1d(suspected, rng.choice(len(unchanged), wanted, replace=False))


def _unchanged_rows(before: Array, now: Array) -> NDArray[np.bool_]:
    same = np.equal(before.view(np.uint32), now.view(np.uint32)).reshape(len(before), -1)
    return np.asarray(same.any(axis=1))


def _wrong_rows(
    workload: Workload, axes: Axes, watched: Watched, outputs: Mapping[str, Array], rows: np.ndarray
) -> bool:
    """Judged by the workload's own bound. A goal with a looser one is asked about the whole when this says wrong."""
    axis = row_axis(workload)
    assert axis is not None
    drawn = (*workload.inputs, *workload.outputs)  # a buffer that is read and written is drawn too
    with_rows = {buffer.name for buffer in drawn if buffer.shape[:1] == (axis,)}
    inputs = {name: array[rows] if name in with_rows else array for name, array in watched.inputs.items()}
    found = verify_timed_outputs(
        workload,
        {**axes, axis: len(rows)},
        inputs,
        {name: output[rows] for name, output in outputs.items()},
        distribution=watched.distribution,
        seed=watched.seed,
    )
    return isinstance(found, Finding)
