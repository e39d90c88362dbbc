"""What the runner's tests share: a small workload, labs in every mode, and a look at what is left running."""

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from kernel_lab.runner import Alignment, Lab, LoadFailed, MemfdArena, MemfdBuffers, ProcessArm, open_lab
from kernel_lab.runner.arm import Limits
from kernel_lab.sandbox.isolation import isolation
from kernel_lab.workloads.workload import Arrays, Axes, Buffer, Scalars, Workload

MARK = "ASSAY_TEST_MARK"


def _reference(
    inputs: Arrays, axes: Axes, scalars: Scalars
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    return {"y": scalars["a"] * inputs["x"].astype(np.float64) + inputs["z"].astype(np.float64)}


AXPY = Workload(
    name="axpy",
    summary="y = a x + z",
    formula="y = a x + z",
    inputs=(Buffer("x", ("n",)), Buffer("z", ("n",))),
    outputs=(Buffer("y", ("n",)),),
    axes=("n",),
    scalars={"a": 2.0},
    axis_minimum={"n": 0},
    reference=_reference,
    bound=lambda inputs, axes, scalars, y64: {"y": np.abs(y64["y"]) * 1e-6},
    index_order_f32=lambda inputs, axes, scalars: {"y": inputs["x"]},
    distributions=(),
    exact=None,
    smoke_axes=({"n": 1},),
    shapes={"small": (), "serving": (), "large": ()},
    flops=lambda axes: 2 * axes["n"],
    bytes_read=lambda axes: 8 * axes["n"],
    bytes_written=lambda axes: 4 * axes["n"],
    relations=(),
    bound_source="two roundings",
)

SIGNATURE = "void axpy(const float *x, const float *z, float *y, int64_t n, float a)"
HONEST = "for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + z[i];"
PRELUDE = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
"""


@dataclass
class Rig:
    """A lab with a folder, an arena, and a mark in the environment of everything that it starts."""

    lab: Lab
    folder: Path
    arena: MemfdArena
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def compile(self, body: str, *, before: str = "", flags: tuple[str, ...] = ()) -> Path:
        """An object whose `axpy` has the given body. Built outside the sandbox: the source is a test's."""
        stem = f"k{len(list(self.folder.iterdir()))}"
        source, target = self.folder / f"{stem}.c", self.folder / f"{stem}.so"
        source.write_text(f"{PRELUDE}{before}\n{SIGNATURE} {{ {body} }}\n")
        command = ["gcc", "-std=gnu11", "-O1", "-w", "-fopenmp", "-fPIC", "-shared", *flags]
        subprocess.run([*command, "-o", target, source, "-lm"], check=True)
        return target

    def start(
        self,
        path: Path,
        *,
        limits: Limits | None = None,
        threads: int = 1,
        inputs_writable: bool = True,
    ) -> ProcessArm | LoadFailed:
        limits = limits or Limits(call_timeout_s=10.0, memory_bytes=256 << 20)
        return self.lab(path, AXPY, threads, limits, environment={MARK: self.mark}, inputs_writable=inputs_writable)

    def started(
        self,
        body: str,
        *,
        before: str = "",
        limits: Limits | None = None,
        inputs_writable: bool = True,
        threads: int = 1,
    ) -> ProcessArm:
        """An arm with a candidate of the given body."""
        path = self.compile(body, before=before)
        roomy = limits and replace(limits, call_timeout_s=10.0)
        arm = self.start(path, limits=roomy, inputs_writable=inputs_writable, threads=threads)
        assert not isinstance(arm, LoadFailed), arm
        if limits is not None:  # a busy machine may take longer to load than a test waits for a call
            arm._limits = limits
        return arm

    def buffers(self, n: int = 1000, alignment: Alignment = "end") -> MemfdBuffers:
        """Filled with numbers, outputs poisoned."""
        made = self.arena.buffers(AXPY, {"n": n}, alignment)
        values = np.arange(n, dtype=np.float32)
        made.fill_inputs({"x": values, "z": values + 1})
        made.poison_outputs(0x7FA5A5A5)
        return made

    def left_running(self) -> list[str]:
        """Command lines of living processes that carry the mark."""
        return [line for line in map(self._marked, Path("/proc").glob("[0-9]*")) if line]

    def _marked(self, process: Path) -> str | None:
        with contextlib.suppress(OSError):
            if self.mark.encode() in (process / "environ").read_bytes():
                return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode() or process.name
        return None


MODES = ("bwrap", "landlock")


def lab_in(mode: str) -> Lab:
    """A lab in the given mode. A machine without Landlock skips it by name; everything else must work."""
    if mode == "landlock" and not landlock_is_there():
        pytest.skip("this kernel has no Landlock (before 5.13, or not among its security modules)")
    return open_lab(isolation(mode))


def landlock_is_there() -> bool:
    """Whether the kernel answers to Landlock at all."""
    import landlockpy

    return landlockpy.abi_version() > 0


def rigs(mode: str, folder: Path) -> Iterator[Rig]:
    """A rig, and after the test the certainty that nothing of it runs on."""
    arena = MemfdArena(np.random.default_rng(7))
    rig = Rig(lab_in(mode), folder, arena)
    yield rig
    arena.close()
    assert rig.left_running() == []
