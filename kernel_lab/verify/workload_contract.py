"""What every workload must keep, in the table or in a file of your own: each clause names what breaks it, and where."""

import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kernel_lab.runner import protocol
from kernel_lab.verify.compare import against_bound, exactly
from kernel_lab.verify.draws import Draw, Prepared, elements, prepare
from kernel_lab.verify.error_class import Pool, draws_needed
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads.workload import Array, Axes, Claim, Distribution, Relation, Workload

SEED = 7
ERROR_CLASS_DRAWS = 16
"""Fewest draws whose errors are pooled. Chosen: one draw may be lucky."""
SERVING_BYTES = 1 << 30
"""measurement.md, Budget."""
DECODE_VECTOR = 65536
"""Chosen: a one-axis workload's decode size fits a second-level cache."""
EXACT_MAGNITUDE = 8
EXACT_SUM = 2.0**24
"""verification.md, V2: float32 holds every integer below."""
EMPTY_BYTES = 1 << 20
"""Chosen: where kernels have switched to threads, by the size of the call (1 MiB in the spaces)."""
LONG_VECTOR = 2**22 + 1
"""Chosen: half a million more than terms of magnitude 8 can be summed exactly."""
PRIMES = frozenset({3, 5, 7, 31, 127, 257})
SETS = ("small", "serving", "large")

Problems = Iterator[str]


@dataclass(frozen=True)
class Clause:
    """One thing that must hold. `broken(workload)` yields each way in which it does not."""

    statement: str
    broken: Callable[[Workload], Problems]


@dataclass(frozen=True)
class Kept:
    """What became of one clause."""

    clause: str
    problems: tuple[str, ...]


def examine(workload: Workload) -> Iterator[Kept]:
    """Every clause of the contract, one after the other. What the workload raises is a problem like any other."""
    for clause in CONTRACT:
        yield Kept(clause.statement, problems_of(clause, workload))


def problems_of(clause: Clause, workload: Workload) -> tuple[str, ...]:
    """Every way in which `workload` breaks `clause`."""
    return tuple(_problems(clause, workload))


def _problems(clause: Clause, workload: Workload) -> Problems:
    try:
        with np.errstate(all="ignore"):
            yield from clause.broken(workload)
    except Exception as error:  # noqa: BLE001  a stranger's functions may raise anything
        yield f"raises {type(error).__name__}: {error}"


# ---- the declaration -------------------------------------------------------------------------------------------------


def _names(workload: Workload) -> Problems:
    buffers = [buffer.name for buffer in workload.inputs + workload.outputs]
    names = [*dict.fromkeys(buffers), *workload.axes, *workload.scalars]
    for name in (workload.name, *names):
        if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
            yield f"{name!r} is no name that C and Python both take"
    if len(names) != len(set(names)):
        yield f"a name is used twice among {', '.join(names)}"
    distributions = [one.name for one in (*workload.distributions, *((workload.exact,) if workload.exact else ()))]
    if len(distributions) != len(set(distributions)):
        yield f"two distributions have one name: {', '.join(distributions)}"


def _arguments(workload: Workload) -> Problems:
    if not workload.inputs or not workload.outputs:
        yield "it needs an input and an output"
    known = set(workload.axes)
    for buffer in workload.inputs + workload.outputs:
        for part in buffer.shape:
            if isinstance(part, str) and part not in known:
                yield f"{buffer.name} has an axis {part} that is not among {', '.join(workload.axes)}"
    if set(workload.axis_minimum) != known:
        yield f"axis_minimum names {', '.join(workload.axis_minimum)}; the axes are {', '.join(workload.axes)}"
    pointers = len(workload.inputs) + len(workload.outputs)
    too_many = pointers > protocol.MAX_BUFFERS or pointers + len(workload.axes) > protocol.MAX_INTEGERS
    if too_many or len(workload.scalars) > protocol.MAX_FLOATS:
        yield "it has more arguments than the runner passes"
    order = [*(b.name for b in workload.inputs + workload.outputs), *workload.axes, *workload.scalars]
    stated = [part.split()[-1].lstrip("*").rstrip(")") for part in workload.signature().split("(")[1].split(",")]
    if list(dict.fromkeys(order)) != stated:
        yield f"the signature has {', '.join(stated)}, in place of inputs, outputs, axes, scalars: {', '.join(order)}"


def _words(workload: Workload) -> Problems:
    for name in ("summary", "formula", "bound_source"):
        if not getattr(workload, name).strip():
            yield f"{name} is empty"
    if not workload.relations:
        yield "no metamorphic relation is declared"
    if not any(distribution.zero_mean for distribution in workload.distributions):
        yield "no distribution is zero_mean, so the error-class rule would never apply"


# ---- draws, reference and bound --------------------------------------------------------------------------------------


def _draws(workload: Workload) -> Problems:
    for distribution, axes in _small(workload):
        first, again = (distribution.draw(axes, np.random.default_rng(SEED)) for _ in range(2))
        for buffer in workload.drawn:
            array, where = first[buffer.name], f"{distribution.name} at {_size(axes)}: {buffer.name}"
            if array.dtype != np.float32:
                yield f"{where} is {array.dtype}, not float32"
            if array.shape != buffer.extent(axes):
                yield f"{where} is {array.shape}, not {buffer.extent(axes)}"
            if not np.isfinite(array).all():
                yield f"{where} is not finite"
            if array.tobytes() != again[buffer.name].tobytes():
                yield f"{where} does not repeat from its seed"


def _results(workload: Workload) -> Problems:
    for distribution, axes in _small(workload):
        one, again = (_prepared(workload, distribution, axes) for _ in range(2))
        for output in workload.outputs:
            name, where = output.name, f"{distribution.name} at {_size(axes)}: {output.name}"
            if one.reference[name].dtype != np.float64:
                yield f"{where} of the reference is {one.reference[name].dtype}, not float64"
            for what, array in (
                ("reference", one.reference),
                ("bound", one.bound),
                ("index_order_f32", one.index_order),
            ):
                if array[name].shape != output.extent(axes):
                    yield f"{where} of {what} is {array[name].shape}, not {output.extent(axes)}"
            if one.reference[name].tobytes() != again.reference[name].tobytes():
                yield f"{where} of the reference is another one the second time"
            if not (one.bound[name] >= 0).all():
                yield f"{where} has a negative bound, or one that is no number"


def _honest(workload: Workload) -> Problems:
    for distribution, axes in _small(workload):
        yield from _refused_honest(workload, distribution, axes)


def _smoke(workload: Workload) -> Problems:
    for axes in workload.smoke_axes:
        below = [axis for axis, least in workload.axis_minimum.items() if axes[axis] < least]
        if below:
            yield f"smoke size {_size(axes)} is below the minimum of {', '.join(below)}"
            continue
        for distribution in workload.distributions:
            yield from _refused_honest(workload, distribution, axes)


def _refused_honest(workload: Workload, distribution: Distribution, axes: Axes) -> Problems:
    prepared = _prepared(workload, distribution, axes)
    if isinstance(said := against_bound(prepared, prepared.index_order, 1.0), Finding):
        yield f"honest float32 is refused: {said.message}"


def _wrong(workload: Workload) -> Problems:
    """What must not pass: a bound that lets it through checks nothing."""
    for distribution, axes in _small(workload):
        prepared = _prepared(workload, distribution, axes)
        for output in workload.outputs:
            perturbed = _changed(prepared, output.name, _beyond(prepared, output.name))
            if prepared.reference[output.name].size and not isinstance(
                against_bound(prepared, perturbed, 1.0), Finding
            ):
                yield f"{distribution.name} at {_size(axes)}: {output.name} passes with its last element past the bound"


def _blank(workload: Workload) -> Problems:
    axes = dict(workload.shapes["small"][0].axes)
    prepared = _prepared(workload, workload.distributions[0], axes)
    for output in workload.outputs:
        exact = prepared.index_order[output.name]
        with_nan = exact.copy()
        with_nan.flat[0] = np.nan
        for what, array in (("zeros", np.zeros_like(exact)), ("one NaN", with_nan)):
            if not isinstance(against_bound(prepared, _changed(prepared, output.name, array), 1.0), Finding):
                yield f"{workload.distributions[0].name} at {_size(axes)}: {output.name} passes with {what}"


def _half_precision(workload: Workload) -> Problems:
    axes = dict(min(workload.shapes["small"], key=lambda shape: elements(workload, shape.axes)).axes)
    distribution = next((one for one in workload.distributions if one.zero_mean), workload.distributions[0])
    pool = Pool()
    for seed in range(max(ERROR_CLASS_DRAWS, draws_needed(workload, axes))):
        prepared = _prepared(workload, distribution, axes, seed)
        rounded = {name: want.astype(np.float16).astype(np.float32) for name, want in prepared.reference.items()}
        pool.add(prepared, rounded)
    if pool.verdict(distribution.name, 1, 1.0) is None:
        yield f"{distribution.name} at {_size(axes)}: results rounded to half precision pass the error-class rule"


def _exact_tier(workload: Workload) -> Problems:
    if workload.exact is None:
        return
    small = (dict(shape.axes) for shape in workload.shapes["small"])
    long = ({workload.axes[0]: LONG_VECTOR},) if len(workload.axes) == 1 else ()
    for axes in (*workload.smoke_axes, *small, *long):
        prepared = _prepared(workload, workload.exact, axes)
        for name, array in prepared.inputs.items():
            if not np.array_equal(array, np.round(array)) or np.abs(array).max(initial=0) > EXACT_MAGNITUDE:
                yield f"exact tier at {_size(axes)}: {name} is not all integers of magnitude {EXACT_MAGNITUDE} at most"
        magnitudes = replace(prepared, inputs={name: np.abs(array) for name, array in prepared.inputs.items()})
        if any(total.max(initial=0.0) >= EXACT_SUM for total in magnitudes.reference.values()):
            yield f"exact tier at {_size(axes)}: some order of summing reaches 2^24, where float32 rounds integers"
        if (said := exactly(prepared, prepared.index_order)) is not None:
            yield f"exact tier: {said.message}"


# ---- relations -------------------------------------------------------------------------------------------------------


Kernel = Callable[[Prepared], Mapping[str, Array]]


def _relations(workload: Workload) -> Problems:
    for relation, axes in _related(workload):
        claims, refused = _claims(workload, relation, axes, _honest_kernel)
        again, _ = _claims(workload, relation, axes, _honest_kernel)
        where = f"{relation.name} at {_size(axes)}"
        yield from (f"{where}: honest float32 is refused: {message}" for message in refused)
        yield from (f"{where} does not hold for honest float32: {one.what}" for one in claims if not _holds(one))
        if any(not np.array_equal(one.got, same.got) for one, same in zip(claims, again, strict=True)):
            yield f"{where} does not repeat from its seed"


def _relations_bite(workload: Workload) -> Problems:
    """A relation that a wrong kernel keeps checks nothing."""
    for relation, axes in _related(workload):
        claims, refused = _claims(workload, relation, axes, _adding_kernel)
        if not refused and all(map(_holds, claims)):
            yield f"{relation.name} at {_size(axes)} is kept by a kernel that adds to every output"


def _related(workload: Workload) -> Iterator[tuple[Relation, dict[str, int]]]:
    for relation in workload.relations:
        for shape in workload.shapes["small"] if relation.steps is not None else ():
            yield relation, dict(shape.axes)


def _claims(
    workload: Workload, relation: Relation, axes: Axes, kernel: Kernel
) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    """What the relation says of `kernel`, and what the checker says of its calls."""
    assert relation.steps is not None
    first = _prepared(workload, workload.distributions[0], axes)
    steps, refused = relation.steps(first.inputs, axes, np.random.default_rng(SEED)), []
    try:
        call = next(steps)
        while True:
            asked = replace(first, inputs=call.inputs, draw=replace(first.draw, axes=dict(call.axes)))
            got = dict(kernel(asked))
            if call.judged and isinstance(said := against_bound(asked, got, 1.0), Finding):
                refused.append(said.message)
            call = steps.send(got)
    except StopIteration as ended:
        return ended.value, tuple(refused)


def _honest_kernel(asked: Prepared) -> Mapping[str, Array]:
    return asked.index_order


def _adding_kernel(asked: Prepared) -> Mapping[str, Array]:
    return {
        name: (array + np.abs(array).max(initial=1e-6)).astype(np.float32) for name, array in asked.index_order.items()
    }


def _holds(claim: Claim) -> bool:
    error = np.abs(claim.got.astype(np.float64) - claim.want.astype(np.float64))
    return bool(np.all(error <= claim.allowed))


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _smoke_sizes(workload: Workload) -> Problems:
    for axis, least in workload.axis_minimum.items():
        sizes = {axes[axis] for axes in workload.smoke_axes}
        if missing := {least, 1, 2} - sizes:
            yield f"no smoke size has {axis} = {', '.join(map(str, sorted(missing)))}"
        if not sizes & PRIMES:
            yield f"no smoke size has a prime {axis}, such as {', '.join(map(str, sorted(PRIMES)))}"


def _empty_sizes(workload: Workload) -> Problems:
    """A kernel of Assay's own divided by zero at no rows of many columns, and few columns had hidden it."""
    for axis in (axis for axis, least in workload.axis_minimum.items() if least == 0):
        short, long = (workload.bytes_moved(dict.fromkeys(workload.axes, n) | {axis: 0}) for n in (1, 64))
        empty = (workload.bytes_moved(axes) for axes in workload.smoke_axes if axes[axis] == 0)
        if long > short and max(empty, default=0) < EMPTY_BYTES:
            yield f"no smoke size has {axis} = 0 and moves {EMPTY_BYTES:,} bytes for the sake of other axes"


def _shape_sets(workload: Workload) -> Problems:
    for name in SETS:
        shapes = [dict(shape.axes) for key, set_ in workload.shapes.items() if key == name for shape in set_]
        if not shapes:
            yield f"there is no shape set {name}"
            continue
        for axes in shapes:
            if set(axes) != set(workload.axes):
                yield f"{name}: {_size(axes)} does not give {', '.join(workload.axes)}"
                return
        if not any(axes[workload.axes[-1]] % 2 for axes in shapes):
            yield f"{name}: no shape has an odd {workload.axes[-1]}"
        if not any(_is_decode(workload, axes) for axes in shapes):
            yield f"{name}: no shape is of a decode size, {workload.axes[0]} = 1"


def _is_decode(workload: Workload, axes: Axes) -> bool:
    first = axes[workload.axes[0]]
    return first == 1 or (len(workload.axes) == 1 and first <= DECODE_VECTOR)


def _work(workload: Workload) -> Problems:
    for shapes in workload.shapes.values():
        for shape in shapes:
            for what in ("bytes_read", "bytes_written", "flops"):
                count = getattr(workload, what)(shape.axes)
                if count < (0 if what == "flops" else 1) or not isinstance(count, int):
                    yield f"{what} at {shape} is {count!r}"
    serving = sum(workload.bytes_moved(shape.axes) for shape in workload.shapes["serving"])
    if serving > SERVING_BYTES:
        yield f"the serving shapes move {serving / 2**30:.2f} GiB; one goal may have 1"


CONTRACT: tuple[Clause, ...] = (
    Clause("names are unique, and names in C and Python", _names),
    Clause("arguments are inputs, outputs, axes and scalars, and the runner can pass them", _arguments),
    Clause("it says what it computes, where its bound comes from, and a relation", _words),
    Clause("draws are finite float32 of the right shape and repeat from their seed", _draws),
    Clause(
        "reference, bound and index_order_f32 have the outputs' shapes; the reference is float64 and repeats", _results
    ),
    Clause("honest float32 is within the bound at every small shape", _honest),
    Clause("honest float32 is within the bound at every smoke size", _smoke),
    Clause("an element past its bound is refused", _wrong),
    Clause("zeros and NaN are refused", _blank),
    Clause("half precision is of another error class", _half_precision),
    Clause("the exact tier is exact", _exact_tier),
    Clause("relations hold for honest float32 and repeat from their seed", _relations),
    Clause("relations are broken by a kernel that adds to every output", _relations_bite),
    Clause("smoke sizes reach the minimum, 1, 2 and a prime on every axis", _smoke_sizes),
    Clause("each axis is 0 at a smoke size that moves a mebibyte for others, if any can", _empty_sizes),
    Clause("every shape set has an odd and a decode size", _shape_sets),
    Clause("flops and bytes are counted, and the serving shapes fit one goal", _work),
)


def _small(workload: Workload) -> Iterator[tuple[Distribution, dict[str, int]]]:
    for distribution in workload.distributions:
        for shape in workload.shapes["small"]:
            yield distribution, dict(shape.axes)


def _prepared(workload: Workload, distribution: Distribution, axes: Axes, seed: int = SEED) -> Prepared:
    return prepare(workload, distribution, Draw(distribution.name, dict(axes), seed))


def _beyond(prepared: Prepared, name: str) -> Array:
    """Plain float32 with its last element moved past the bound."""
    moved = prepared.index_order[name].astype(np.float64)
    if moved.size:
        limit = float(prepared.bound[name].flat[-1])
        moved.flat[-1] = float(prepared.reference[name].flat[-1]) + (1.01 * limit if limit else math.inf)
    return moved


def _changed(prepared: Prepared, name: str, array: Array) -> dict[str, Array]:
    return {**prepared.index_order, name: array}


def _size(axes: Axes) -> str:
    return "×".join(f"{name}{size}" for name, size in axes.items())
