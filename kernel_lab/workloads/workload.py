"""What a workload is: an operation with its reference, domain, bound and ABI. One instance per file in this folder."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from schemas.goal import Shape

Array = NDArray[np.generic]
Arrays = Mapping[str, Array]
Axes = Mapping[str, int]
Scalars = Mapping[str, float]


@dataclass(frozen=True)
class Buffer:
    """One pointer argument. `shape` names axes, row-major and contiguous; a literal int is allowed (`1`)."""

    name: str
    shape: tuple[str | int, ...]
    in_out: bool = False
    """An output that a call also reads: a draw fills it, and each call finds what was drawn, restored while no clock
    runs (ADR 0013)."""

    def extent(self, axes: Axes) -> tuple[int, ...]:
        """Concrete shape."""
        return tuple(axes[part] if isinstance(part, str) else part for part in self.shape)


@dataclass(frozen=True)
class Distribution:
    """A named way to fill the inputs, inside the workload's declared domain.

    `draw(axes, rng)` returns float32 inputs by name, deterministic in `rng`.
    """

    name: str
    draw: Callable[[Axes, np.random.Generator], dict[str, Array]]
    zero_mean: bool
    """Whether the error-class rule applies to draws from it."""
    scalars: Scalars = field(default_factory=dict, hash=False)
    """Scalar parameters that its draws are called with in place of the workload's own."""


@dataclass(frozen=True)
class Windows:
    """A rule over parts of an output: in each window the RMS of the error is at most that of the bound / `peak`.

    It stands beside the bound of single elements, which is then `peak` times as wide as the RMS may be: errors that are
    each small enough must not all be large.
    """

    spans: Mapping[str, int]
    """How many indices a window has along an axis; an axis that is not named is whole."""
    peak: float

    def extents(self, buffer: Buffer, axes: Axes) -> tuple[int, ...]:
        """Indices of a window along each dimension of `buffer`, at least 1."""
        sizes = zip(buffer.shape, buffer.extent(axes), strict=True)
        return tuple(max(1, min(self.spans.get(str(part), size), size)) for part, size in sizes)


@dataclass(frozen=True)
class Call:
    """A call that a relation asks for. Its outputs come back; unless `judged` is off they are within the bound."""

    inputs: Arrays
    axes: Axes
    judged: bool = True
    """Off where a float64 reference would cost too much, as for a full-size product."""


@dataclass(frozen=True)
class Claim:
    """What a relation says of the outputs of its calls: every element of `got` is at most `allowed` from `want`."""

    what: str
    got: Array
    want: Array
    allowed: float | NDArray[np.float64] = 0.0


Steps = Generator[Call, dict[str, Array], tuple[Claim, ...]]
"""Yields calls, is sent the outputs of each, and returns what must hold between them."""


@dataclass(frozen=True)
class Relation:
    """A metamorphic relation, run by rung V4. `workloads/relations.py` has those in common use."""

    name: str
    statement: str
    steps: Callable[[Arrays, Axes, np.random.Generator], Steps] | None = None
    """Given one draw: deterministic in the generator. None while a relation is only stated."""
    exact: bool = False
    """Holds to the last bit while nothing underflows: asked of draws of the first distribution only."""


@dataclass(frozen=True)
class Workload:
    """An operation as Assay knows it. All functions are pure; references compute in float64.

    The C signature is: inputs, outputs, axes as int64_t in `axes` order, then float scalars (workloads.md, contract).
    """

    name: str
    summary: str
    formula: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    axes: tuple[str, ...]
    scalars: Mapping[str, float]
    """Scalar parameters with the value that the harness passes, in argument order."""
    axis_minimum: Mapping[str, int]
    """Smallest legal size per axis: nothing below is drawn."""
    reference: Callable[[Arrays, Axes, Scalars], dict[str, NDArray[np.float64]]]
    bound: Callable[[Arrays, Axes, Scalars, Mapping[str, NDArray[np.float64]]], dict[str, NDArray[np.float64]]]
    """Largest allowed |y - y64| per output element (verification.md, The bound), before the goal's tolerance scale."""
    index_order_f32: Callable[[Arrays, Axes, Scalars], dict[str, Array]]
    """What plain C in float32 gives in index order: the yardstick of the error-class rule."""
    distributions: tuple[Distribution, ...]
    exact: Distribution | None
    """Integer draws whose result is exact in f32; None when the workload has no exact tier."""
    smoke_axes: tuple[Axes, ...]
    """V2 sizes: 0, 1, 2, primes, tile ± 1, and each axis at 0 beside long others: kernels switch code by bytes."""
    shapes: Mapping[Literal["small", "serving", "large"], tuple[Shape, ...]]
    flops: Callable[[Axes], int]
    bytes_read: Callable[[Axes], int]
    bytes_written: Callable[[Axes], int]
    """Compulsory traffic, e bytes per element; read + written is the roof's traffic."""
    relations: tuple[Relation, ...]
    bound_source: str
    """Where the tolerance model comes from."""
    tags: tuple[str, ...] = field(default=())
    windows: Mapping[str, Windows] = field(default_factory=dict)
    """By output: the rule over windows that its bound goes with."""
    shared_axes: tuple[str, ...] = ()
    """Axes along which outputs share the error of one reduction, as a row of softmax shares its denominator: they are
    one trial of how a kernel errs, not many."""

    def scalars_of(self, distribution: str) -> Scalars:
        """What a call on a draw from `distribution` is given."""
        known = (*self.distributions, *((self.exact,) if self.exact else ()))
        own = [one.scalars for one in known if one.name == distribution]
        return {**self.scalars, **own[0]} if own else self.scalars

    @property
    def drawn(self) -> tuple[Buffer, ...]:
        """What a draw fills: the inputs, and the outputs that are read too."""
        return (*self.inputs, *(buffer for buffer in self.outputs if buffer.in_out))

    def signature(self) -> str:
        """The C prototype of a candidate."""
        pointers = [f"const float *{b.name}" for b in self.inputs] + [f"float *{b.name}" for b in self.outputs]
        rest = [f"int64_t {axis}" for axis in self.axes] + [f"float {name}" for name in self.scalars]
        return f"void {self.name}({', '.join(pointers + rest)})"

    def bytes_moved(self, axes: Axes) -> int:
        """Compulsory traffic in bytes."""
        return self.bytes_read(axes) + self.bytes_written(axes)


def shapes_over(axes: tuple[str, ...], *sizes: tuple[int, ...]) -> tuple[Shape, ...]:
    """One shape for each of `sizes`, whose extents stand in the order of `axes`."""
    return tuple(Shape(axes=dict(zip(axes, size, strict=True))) for size in sizes)
