"""A kernel's problem: concrete arguments, the launch, and the judgement of what came out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kernel_lab.ptx.kernels.golden import ARCHITECTURES, cuda_source
from kernel_lab.ptx.kernels.launch_data import read_launch_data
from kernel_lab.ptx.kernels.references import Array, Axes, Expected, Scalars
from kernel_lab.ptx.launch import Arg, Buffer, Launch, Role

Draw = Callable[[Axes, np.random.Generator], dict[str, Array]]
Reference = Callable[[Mapping[str, Array], Axes, Scalars], dict[str, Expected]]


@dataclass(frozen=True)
class Pointer:
    """A pointer parameter; `shape` names axes or gives sizes."""

    name: str
    role: Role
    shape: tuple[str | int, ...]
    dtype: type[np.generic] = np.float32

    def extent(self, axes: Axes) -> tuple[int, ...]:
        """Concrete shape."""
        return tuple(axes[part] if isinstance(part, str) else part for part in self.shape)


@dataclass(frozen=True)
class Kernel:
    """One entry of one source: parameters in order (pointers, int64 axes, float scalars), inputs and reference."""

    name: str
    source: str
    entry: str
    pointers: tuple[Pointer, ...]
    axes: tuple[str, ...]
    draw: Draw
    reference: Reference
    sizes: tuple[Axes, ...]
    """What the tests run: at least one size with a tail in every axis."""
    scalars: Scalars = field(default_factory=dict)
    architectures: tuple[str, ...] = ARCHITECTURES

    def problem(self, axes: Axes, seed: int = 0) -> "Problem":
        """Concrete arguments for these axes; the same for the same seed."""
        return Problem(self, dict(axes), self.draw(axes, np.random.default_rng(seed)))


@dataclass(frozen=True)
class Problem:
    """A kernel with concrete inputs."""

    kernel: Kernel
    axes: Axes
    inputs: Mapping[str, Array]

    def launch(self) -> Launch:
        """The launch that the source's first line asks for, at these axes."""
        grid, block, shared_bytes = read_launch_data(cuda_source(self.kernel.source)).at(self.axes)
        pointers = tuple(self._buffer(pointer) for pointer in self.kernel.pointers)
        sizes = tuple(np.int64(self.axes[axis]) for axis in self.kernel.axes)
        scalars = tuple(np.float32(value) for value in self.kernel.scalars.values())
        arguments: tuple[Arg, ...] = (*pointers, *sizes, *scalars)
        return Launch(self.kernel.entry, grid, block, arguments, shared_bytes)

    def expected(self) -> dict[str, Expected]:
        """The exact outputs with their bounds. Scalars are what the kernel is given: float32."""
        scalars = {name: float(np.float32(value)) for name, value in self.kernel.scalars.items()}
        return self.kernel.reference(self.inputs, self.axes, scalars)

    def worst_error(self, outputs: Mapping[str, Array]) -> float:
        """The largest error over all outputs as a fraction of its bound: at most 1 when the kernel is right."""
        return max(expected.worst(outputs[name]) for name, expected in self.expected().items())

    def _buffer(self, pointer: Pointer) -> Buffer:
        extent = pointer.extent(self.axes)
        array = np.zeros(extent, pointer.dtype) if pointer.role == "out" else self.inputs[pointer.name]
        if array.shape != extent or array.dtype != np.dtype(pointer.dtype):
            raise ValueError(f"{pointer.name}: drew {array.dtype}{array.shape}, declared {pointer.dtype}{extent}")
        return Buffer(np.ascontiguousarray(array), pointer.role, pointer.name)
