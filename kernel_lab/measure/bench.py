"""What a measurement stands on, and what it can time."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from kernel_lab.measure.statistics import LOOKS, QUADS_PER_PAIR
from kernel_lab.runner.arm import Arena, Arm, BufferSet, Died, Limits, LoadFailed, OverTime, StartArm, Timing
from kernel_lab.runner.memory import MemfdArena
from kernel_lab.runner.start import Lab
from kernel_lab.workloads.workload import Scalars, Workload
from schemas.faults import Broken
from schemas.work import MachineClass

Progress = Callable[[str, int, int], None]
"""What is being done, how many steps are done, how many there are."""


def silent(_doing: str, _done: int, _of: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Protocol:
    """The numbers of PAIR. Only tests take others than these, which are measurement.md's."""

    looks: tuple[int, ...] = LOOKS
    quads: int = QUADS_PER_PAIR
    screen_quads: int = 2
    min_sample_ns: int = 10_000_000
    pause_ns: int = 5_000_000


@dataclass(frozen=True)
class Bench:
    """One machine, ready to time things."""

    machine: MachineClass
    host: str
    """The host's own id; with the route it names the machine in every comparison."""
    start_arm: StartArm
    new_arena: Callable[[], Arena]
    protocol: Protocol = Protocol()
    limits: Limits = field(default_factory=Limits)
    epoch: int = 0
    """Of the machine (drift.py); 0 where nobody counts, as for a single file."""

    @property
    def name(self) -> str:
        """`<route>/<host>`."""
        return f"{self.machine.route}/{self.host}"


@dataclass(frozen=True)
class Racer:
    """One thing that can be timed: a compiled object, or a library served by name."""

    name: str
    threads: int
    object_path: Path | None = None
    sha256: str | None = None
    """What the object must hash to each time it is started (measurement.md, 11)."""
    library: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def open_bench(lab: Lab, machine: MachineClass, host: str, protocol: Protocol | None = None) -> Bench:
    """Things can be timed where arms can be started. This process computes on one thread from now on: threads of a BLAS
    spin on after V8's reference, and took a core from the next samples (in one goal of gemm 11 of 16 screens came to
    nothing)."""
    threadpool_limits(1, user_api="blas")
    return Bench(
        machine=machine,
        host=host,
        start_arm=lab,
        new_arena=lambda: MemfdArena(np.random.default_rng()),
        protocol=protocol or Protocol(),
    )


def start(bench: Bench, racer: Racer, workload: Workload) -> Arm | LoadFailed:
    """A fresh process of `racer`, its inputs read-only. Raises Broken when its object is not the one it should be."""
    if racer.object_path is not None and racer.sha256 is not None:
        _check_identity(racer.object_path, racer.sha256)
    return bench.start_arm(
        racer.object_path,
        workload,
        racer.threads,
        replace(bench.limits, threads=racer.threads),
        library=racer.library,
        environment=racer.environment,
        inputs_writable=False,
    )


def settled_sample(bench: Bench, arm: Arm, sets: Sequence[BufferSet], scalars: Scalars) -> Timing | Died | OverTime:
    """A fresh process's first sample that counts, after one that does not: by then its buffers are mapped, its threads
    placed, and the kernel has finished what starting it left."""
    protocol = bench.protocol
    arm.time(sets, scalars, protocol.min_sample_ns, protocol.pause_ns)
    return arm.time(sets, scalars, protocol.min_sample_ns, protocol.pause_ns)


def _check_identity(path: Path, expected: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise Broken(f"{path} hashes to {found}, not to {expected}: it is not the object that was verified")
