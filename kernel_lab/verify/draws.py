"""Draws: inputs named by distribution, axes and seed, with the reference and bound that the checker alone holds."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernel_lab.runner.arm import Alignment
from kernel_lab.workloads.workload import Array, Arrays, Axes, Distribution, Scalars, Workload
from schemas.work import Counterexample

GENERATORS_VERSION = 1
"""Raised when a seed would draw other inputs than before."""

SEED_NAMES = ("smoke", "numeric", "placement", "deep")
"""The secret seeds of one judgement. The caller draws them; they are logged after use."""
SEED_BITS = 62


@dataclass(frozen=True)
class Draw:
    """Everything that names one set of inputs."""

    distribution: str
    axes: dict[str, int]
    seed: int
    alignment: Alignment = "natural"

    def kept(self, workload: str) -> Counterexample:
        """This draw as a counterexample: generator and seed, never bulk data."""
        return Counterexample(
            workload=workload,
            axes=dict(self.axes),
            distribution=self.distribution,
            seed=self.seed,
            alignment=self.alignment,
        )

    def __str__(self) -> str:
        size = "×".join(f"{name}{extent}" for name, extent in self.axes.items())
        return f"{self.distribution} at {size}, {self.alignment}-aligned"


@dataclass(frozen=True)
class Prepared:
    """A draw filled in. References are computed when first needed, once."""

    workload: Workload
    draw: Draw
    inputs: Arrays

    @property
    def scalars(self) -> Scalars:
        """What the candidate is called with."""
        return self.workload.scalars_of(self.draw.distribution)

    @cached_property
    def reference(self) -> dict[str, NDArray[np.float64]]:
        with np.errstate(all="ignore"):
            return self.workload.reference(self.inputs, self.draw.axes, self.scalars)

    @cached_property
    def bound(self) -> dict[str, NDArray[np.float64]]:
        with np.errstate(all="ignore"):
            return self.workload.bound(self.inputs, self.draw.axes, self.scalars, self.reference)

    @cached_property
    def index_order(self) -> dict[str, Array]:
        with np.errstate(all="ignore"):
            return self.workload.index_order_f32(self.inputs, self.draw.axes, self.scalars)


def derived_seed(base: int, distribution: str, axes: Axes, n: int) -> int:
    """The seed of the `n`-th draw of a distribution at a size: as secret as `base`, and replayable from it."""
    sizes = ",".join(f"{name}={extent}" for name, extent in sorted(axes.items()))
    digest = hashlib.sha256(f"{base}|{distribution}|{sizes}|{n}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def deep_seed(seeds: Mapping[str, int], rung: str) -> int:
    """The seed of one deep rung."""
    return derived_seed(seeds["deep"], rung, {}, 0)


def distribution_named(workload: Workload, name: str) -> Distribution | None:
    """The workload's distribution of that name, its exact tier included."""
    known = (*workload.distributions, *((workload.exact,) if workload.exact else ()))
    return next((distribution for distribution in known if distribution.name == name), None)


def prepare(workload: Workload, distribution: Distribution, draw: Draw) -> Prepared:
    """The inputs of `draw`. Deterministic: the same draw gives the same bytes on every machine with this numpy."""
    inputs = distribution.draw(draw.axes, np.random.Generator(np.random.PCG64(draw.seed)))
    return Prepared(workload, draw, inputs)


def elements(workload: Workload, axes: Axes) -> int:
    """Elements of all arguments together."""
    return sum(int(np.prod(buffer.extent(axes), dtype=np.int64)) for buffer in workload.inputs + workload.outputs)


def outputs_of(workload: Workload, axes: Axes) -> int:
    """Elements of the outputs together."""
    return sum(int(np.prod(buffer.extent(axes), dtype=np.int64)) for buffer in workload.outputs)


def trials_of(workload: Workload, axes: Axes) -> int:
    """How many of them err independently of each other: those along `shared_axes` count once."""
    apart = {axis: 1 if axis in workload.shared_axes else size for axis, size in axes.items()}
    return outputs_of(workload, apart) if outputs_of(workload, axes) else 0


def digest_of(digests: Iterable[str]) -> str:
    """One digest over the input digests of a group of draws, in order."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()
