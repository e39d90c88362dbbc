"""Rendered sources and baselines, compiled by the real backend and called: right at every size and alignment."""

import ctypes
import os
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernel_lab.backends import BACKENDS
from kernel_lab.backends.backend import Built
from kernel_lab.baselines import LIBRARY, contenders
from kernel_lab.machine import machine_class
from kernel_lab.spaces import SPACES
from kernel_lab.spaces.space import Surroundings
from kernel_lab.verify.compare import Within, against_bound, exactly
from kernel_lab.verify.draws import Draw, Prepared, prepare
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Axes, Distribution, Workload
from schemas.enums import Language
from schemas.goal import SpaceLimits
from schemas.work import Kernel, MachineClass

SPARE_FLOATS = 32
REAL = [(space.workload, variant) for space in SPACES.values() if space.language == "c" for variant in space.variants]


@pytest.fixture(scope="module")
def machine() -> MachineClass:
    return machine_class()


def shifted(shape: tuple[int, ...], offset: int) -> NDArray[np.float32]:
    """Memory aligned to the element only, with poison on both sides."""
    size = int(np.prod(shape))
    whole = np.full(size + 2 * SPARE_FLOATS, np.nan, np.float32)
    first = SPARE_FLOATS - (whole.ctypes.data // 4) % 16 + offset % 16
    return whole[first : first + size].reshape(shape)


@cache
def drawn_once(workload: str, distribution: Distribution, axes: tuple[tuple[str, int], ...]) -> Prepared:
    """One draw for all kernels of a workload: its reference is computed once."""
    return prepare(WORKLOADS[workload], distribution, Draw(distribution.name, dict(axes), seed=11))


def called(workload: Workload, library: ctypes.CDLL, prepared: Prepared, offset: int) -> dict[str, NDArray[np.float32]]:
    inputs, axes = prepared.inputs, prepared.draw.axes
    placed = []
    for buffer in workload.inputs:
        there = shifted(buffer.extent(axes), offset)
        there[...] = inputs[buffer.name]
        placed.append(there)
    outputs = {buffer.name: shifted(buffer.extent(axes), 5 * offset) for buffer in workload.outputs}
    for buffer in set(workload.drawn) - set(workload.inputs):
        outputs[buffer.name][...] = inputs[buffer.name]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*placed, *outputs.values())]
    sizes = [ctypes.c_int64(axes[name]) for name in workload.axes]
    scalars = [ctypes.c_float(value) for value in prepared.scalars.values()]
    getattr(library, workload.name)(*pointers, *sizes, *scalars)
    for buffer, array in zip(workload.inputs, placed, strict=True):
        assert np.array_equal(array, inputs[buffer.name])
    for array in outputs.values():
        around = np.asarray(array.base)
        first = (array.ctypes.data - around.ctypes.data) // 4
        assert np.isnan(around[:first]).all()
        assert np.isnan(around[first + array.size :]).all()
    return outputs


def assert_right(workload: Workload, library: ctypes.CDLL, axes: Axes, drawn: Distribution, offset: int) -> None:
    prepared = drawn_once(workload.name, drawn, tuple(axes.items()))
    outputs = called(workload, library, prepared, offset)
    assert isinstance(said := against_bound(prepared, outputs, 1.0), Within), (said, offset)
    if drawn is workload.exact:
        assert exactly(prepared, outputs) is None


def assert_right_everywhere(workload: Workload, library: ctypes.CDLL) -> None:
    draws = (*workload.distributions, *((workload.exact,) if workload.exact else ()))
    for axes in (*workload.smoke_axes, *(dict(shape.axes) for shape in workload.shapes["small"])):
        for drawn in draws:
            for offset in (0, 3):
                assert_right(workload, library, axes, drawn, offset)


def loaded(kernel: Kernel, workload: Workload, machine: MachineClass, folder: Path) -> ctypes.CDLL:
    built = BACKENDS[kernel.language].compile(kernel, workload.name, machine)
    assert isinstance(built, Built), built
    assert "warning" not in built.warnings
    path = folder / f"{built.sha256}.so"
    if not path.exists():  # another width may give the same object, and a loaded file must not be rewritten
        path.write_bytes(built.object)
    return ctypes.CDLL(str(path))


@pytest.mark.parametrize(("name", "variant"), REAL)
def test_points_of_every_variant_are_right_at_every_size_and_alignment(
    name: str, variant: str, machine: MachineClass, tmp_path: Path
) -> None:
    around = Surroundings(machine.vector_bits, machine.threads, deterministic=False, forbid=())
    space, limits = SPACES[name, "c"], SpaceLimits(include={"variant": (variant,)})
    for seed in range(2):
        genome = space.sample(np.random.default_rng(seed), around, limits)
        assert genome is not None
        rendered = space.render(genome, around)
        kernel = Kernel(
            language=Language.C,
            source=rendered.source,
            flags=rendered.flags,
            threads=rendered.threads,
            fingerprint="0" * 64,
        )
        assert_right_everywhere(WORKLOADS[name], loaded(kernel, WORKLOADS[name], machine, tmp_path))


@pytest.mark.parametrize("power", ["poly5", "poly6", "libmvec"])
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_every_exponential_underflows_gradually(power: str, bits: int, machine: MachineClass, tmp_path: Path) -> None:
    if bits > machine.vector_bits:
        pytest.skip(f"this machine has no {bits}-bit vectors")
    around = Surroundings(bits, 1, deterministic=False, forbid=())
    limits = SpaceLimits(include={"power": (power,), "variant": ("three_pass",), "vector_bits": (bits,)})
    rendered = SPACES["softmax", "c"].render(next(SPACES["softmax", "c"].walk(around, limits)), around)
    kernel = Kernel(language=Language.C, source=rendered.source, threads=1, fingerprint="0" * 64)
    library = loaded(kernel, WORKLOADS["softmax"], machine, tmp_path)
    gaps = np.linspace(0.0, 120.0, 4001, dtype=np.float32)
    falling = Distribution("falling", lambda _axes, _rng: {"x": -gaps.reshape(1, -1)}, zero_mean=False)
    assert_right(WORKLOADS["softmax"], library, {"R": 1, "C": gaps.size}, falling, 1)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_baseline_is_right_or_said_to_be_absent(name: str, machine: MachineClass, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    for contender in contenders(name, machine, machine.threads):
        if contender.kernel:
            library = loaded(contender.kernel, workload, machine, tmp_path)
            for axes in (*workload.smoke_axes[:3], dict(workload.shapes["small"][1].axes)):
                for drawn in workload.distributions:
                    assert_right(workload, library, axes, drawn, 3)
        elif contender.absent:
            assert contender.absent == f"{contender.library} absent"
        else:
            assert_library_right(workload, str(contender.library))


def assert_library_right(workload: Workload, library: str) -> None:
    for axes in (*workload.smoke_axes, *(dict(shape.axes) for shape in workload.shapes["small"])):
        for drawn in workload.distributions:
            prepared = drawn_once(workload.name, drawn, tuple(axes.items()))
            outputs = {b.name: np.full(b.extent(axes), np.nan, np.float32) for b in workload.outputs}
            outputs |= {b.name: prepared.inputs[b.name].astype(np.float32) for b in workload.outputs if b.in_out}
            LIBRARY[workload.name, library](prepared.inputs, outputs, axes, prepared.scalars)
            assert isinstance(said := against_bound(prepared, outputs, 1.0), Within), (library, said)


def test_the_tree_gives_the_same_bits_at_every_thread_count(machine: MachineClass, tmp_path: Path) -> None:
    around = Surroundings(machine.vector_bits, 8, deterministic=True, forbid=())
    limits = SpaceLimits(include={"variant": ("tree",), "threads": ("all",)})
    rendered = SPACES["reduce_sum", "c"].render(next(SPACES["reduce_sum", "c"].walk(around, limits)), around)
    kernel = Kernel(language=Language.C, source=rendered.source, threads=rendered.threads, fingerprint="0" * 64)
    built = BACKENDS[Language.C].compile(kernel, "reduce_sum", machine)
    assert isinstance(built, Built)
    library = tmp_path / "tree.so"
    library.write_bytes(built.object)
    script = textwrap.dedent(f"""
        import ctypes, numpy as np
        x = np.random.default_rng(5).standard_normal(200_003, dtype=np.float32)
        y = np.zeros(1, np.float32)
        ctypes.CDLL({str(library)!r}).reduce_sum(
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(x.size))
        print(y.tobytes().hex())
    """)
    bits = set()
    for threads in ("1", "2", "3", "7"):
        environment = {"OMP_NUM_THREADS": threads, "PATH": os.environ["PATH"]}
        ran = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        bits.add(ran.stdout)
    assert len(bits) == 1
