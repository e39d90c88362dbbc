"""Assay's own kernels, which obey the candidate contract: two movers of bytes and the arithmetic peak."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernel_lab.backends.backend import Backend, NotBuilt
from kernel_lab.measure.bench import Racer
from kernel_lab.workloads import draws
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Distribution, Scalars, Workload
from schemas.enums import Language
from schemas.faults import Misconfigured
from schemas.work import Kernel, MachineClass

STORES = ("ordinary", "streaming", "prefetching")
"""How bytes are moved; `prefetching` is streaming stores behind loads announced a kilobyte ahead."""
PREFETCHING = "#define PREFETCH_BYTES 1024\n"
"""Chosen: half a microsecond of one core's traffic, several times the latency of memory."""
FMA_LINE = 16
"""Floats between the threads' lines of fma_peak: 64 bytes, so that no two threads share a cache line."""
FMA_CHAINS = 10
"""As in fma_peak.c: enough independent chains to cover four cycles of latency on two ports."""
DRAWN = 1 << 20
"""Chosen: 4 MiB, drawn in ten milliseconds."""
SOURCES = files("kernel_lab.measure") / "kernels"
ELEMENT_BYTES = 4

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class OwnKernel:
    """One of Assay's own kernels, compiled for this machine."""

    workload: Workload
    object_path: Path
    sha256: str
    toolchain: str

    def racer(self, name: str, threads: int) -> Racer:
        return Racer(name, threads, self.object_path, self.sha256)


@dataclass(frozen=True)
class OwnKernels:
    ordinary: OwnKernel
    streaming: OwnKernel
    prefetching: OwnKernel
    fma: OwnKernel

    @property
    def toolchain(self) -> str:
        """What they, and the baselines, were compiled with."""
        return self.fma.toolchain

    def mover(self, store: str) -> OwnKernel:
        """The kernel that moves bytes with `store` stores."""
        movers = (self.ordinary, self.streaming, self.prefetching)
        return dict(zip(STORES, movers, strict=True))[store]


def build_own_kernels(backend: Backend, machine: MachineClass, folder: Path) -> OwnKernels:
    """Assay's own kernels lie compiled in `folder`. Raises Misconfigured when the compiler refuses them."""
    ordinary, streaming, fma = (
        _build(backend, machine, folder, workload) for workload in (ROOF_ORDINARY, ROOF_STREAMING, FMA_PEAK)
    )
    prefetching = _build(backend, machine, folder, ROOF_STREAMING, PREFETCHING)
    return OwnKernels(ordinary, streaming, prefetching, fma)


def _build(backend: Backend, machine: MachineClass, folder: Path, workload: Workload, defining: str = "") -> OwnKernel:
    source = defining + (SOURCES / f"{workload.name}.c").read_text()
    fingerprint = hashlib.sha256(source.encode()).hexdigest()
    kernel = Kernel(language=Language.C, source=source, flags=("-O3",), fingerprint=fingerprint)
    built = backend.compile(kernel, workload.name, machine)
    if isinstance(built, NotBuilt):
        raise Misconfigured(f"the compiler refuses {workload.name}.c: {built.message}\n{built.diagnostics}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{workload.name}-{built.sha256[:16]}.so"
    path.write_bytes(built.object)
    return OwnKernel(workload, path, built.sha256, built.toolchain)


def _own(
    name: str,
    inputs: tuple[Buffer, ...],
    outputs: tuple[Buffer, ...],
    axes: tuple[str, ...],
    reference: Callable[[Arrays, Axes, Scalars], dict[str, F64]],
) -> Workload:
    """A workload that is timed and tested, never searched: no shapes, no relations, bitwise."""

    def draw(sizes: Axes, rng: np.random.Generator) -> dict[str, Array]:
        return {buffer.name: _repeated(buffer.extent(sizes), rng) for buffer in inputs}

    def bitwise(_i: Arrays, _a: Axes, _s: Scalars, exact: Mapping[str, F64]) -> dict[str, F64]:
        return {output: np.zeros_like(y) for output, y in exact.items()}

    def in_f32(given: Arrays, sizes: Axes, scalars: Scalars) -> dict[str, Array]:
        return {output: y.astype(np.float32) for output, y in reference(given, sizes, scalars).items()}

    return Workload(
        name=name,
        summary="One of Assay's own yardsticks",
        formula="",
        inputs=inputs,
        outputs=outputs,
        axes=axes,
        scalars={},
        axis_minimum={},
        reference=reference,
        bound=bitwise,
        index_order_f32=in_f32,
        distributions=(Distribution("normal", draw, zero_mean=True),),
        exact=None,
        smoke_axes=(),
        shapes={},
        flops=lambda _axes: 0,
        bytes_read=lambda sizes: _bytes(inputs, sizes),
        bytes_written=lambda sizes: _bytes(outputs, sizes),
        relations=(),
        bound_source="bitwise",
    )


def _repeated(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Some standard normal values, over and over: what a mover moves does not matter, and drawing a gigabyte took half
    of a calibration."""
    return np.resize(draws.normal((min(int(np.prod(shape)), DRAWN),), rng), shape)


def _bytes(buffers: tuple[Buffer, ...], axes: Axes) -> int:
    return ELEMENT_BYTES * sum(int(np.prod(buffer.extent(axes), dtype=np.int64)) for buffer in buffers)


def _moved(inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    y = np.zeros(axes["W"])
    both = min(axes["R"], axes["W"])
    y[:both] = inputs["x"][:both]
    return {"y": y}


def _chained(_inputs: Arrays, axes: Axes, _scalars: Scalars) -> dict[str, F64]:
    """Only the shape is meant: the sum depends on the vector width, and nobody is judged by it."""
    return {"y": np.zeros((axes["T"], axes["L"]))}


def _mover(name: str) -> Workload:
    return _own(name, (Buffer("x", ("R",)),), (Buffer("y", ("W",)),), ("R", "W"), _moved)


ROOF_ORDINARY = _mover("roof_ordinary")
ROOF_STREAMING = _mover("roof_streaming")
FMA_PEAK = _own("fma_peak", (Buffer("x", ("T", "L")),), (Buffer("y", ("T", "L")),), ("T", "R", "L"), _chained)
