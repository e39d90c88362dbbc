"""The best time of moving some bytes, and the arithmetic peak (measurement.md, 10)."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from kernel_lab.measure.bench import Bench, Racer, settled_sample, start
from kernel_lab.measure.contents import ELEMENT_BYTES, Rotation, rotation_of
from kernel_lab.measure.own_kernels import FMA_CHAINS, FMA_LINE, STORES, OwnKernel, OwnKernels
from kernel_lab.measure.pairs import ended
from kernel_lab.measure.schedule import shuffled, thread_counts, worth_timing
from kernel_lab.runner.arm import Arena, LoadFailed, Timing
from kernel_lab.workloads.workload import Axes, Workload
from schemas.enums import Regime
from schemas.faults import Transient
from schemas.measurement import RoofPoint


@dataclass(frozen=True)
class Traffic:
    """Bytes that a call must move at least, at one shape."""

    axes: dict[str, int]
    read_bytes: int
    written_bytes: int

    @property
    def roof_axes(self) -> dict[str, int]:
        return {"R": self.read_bytes // ELEMENT_BYTES, "W": max(self.written_bytes // ELEMENT_BYTES, 1)}


def traffic_of(workload: Workload, axes: Axes) -> Traffic:
    """The compulsory traffic of `workload` at `axes`."""
    return Traffic(dict(axes), workload.bytes_read(axes), workload.bytes_written(axes))


@dataclass
class RoofTimer:
    """Times the movement of some traffics, a sample of each at every round, so that it shares a race's minutes."""

    bench: Bench
    kernels: OwnKernels
    traffics: Sequence[Traffic]
    regime: Regime
    rng: np.random.Generator
    _taken_ns: dict[tuple[int, str], list[float]] = field(default_factory=dict)

    def round(self) -> None:
        """One more sample at every traffic of every store and thread count that may be the best, each from a fresh
        process."""
        with closing(self.bench.new_arena()) as arena:
            for index in range(len(self.traffics)):
                self._time(index, arena)

    def points(self) -> tuple[RoofPoint, ...]:
        """The best of the medians at each traffic, and how it was reached."""
        return tuple(self._best(index) for index in range(len(self.traffics)))

    def median_ns(self, index: int, how: str) -> float:
        """The median time of moving traffic `index` by `how`, e.g. `streaming/2`."""
        return median(self._taken_ns[index, how])

    def _time(self, index: int, arena: Arena) -> None:
        traffic = self.traffics[index]
        workload = self.kernels.ordinary.workload
        pairs = rotation_of(workload, traffic.roof_axes, self.bench.machine.llc_bytes, self.regime)
        racers = self._racers()
        with closing(Rotation(arena, workload, traffic.roof_axes, pairs, self.rng)) as data:
            so_far = {how: self._taken_ns.get((index, how), []) for how in racers}
            for how in shuffled(self.rng, worth_timing(so_far)):
                kernel, racer = racers[how]
                taken = time_alone(self.bench, racer, kernel.workload, data)
                self._taken_ns.setdefault((index, how), []).append(taken.elapsed_ns / taken.calls)

    def _racers(self) -> dict[str, tuple[OwnKernel, Racer]]:
        return {
            f"{store}/{threads}": (kernel, kernel.racer(f"roof_{store}", threads))
            for store in STORES
            for threads in thread_counts(self.bench.machine.threads)
            for kernel in (self.kernels.mover(store),)
        }

    def _best(self, index: int) -> RoofPoint:
        medians = {how: median(taken) for (i, how), taken in self._taken_ns.items() if i == index}
        how = min(medians, key=lambda name: medians[name])
        traffic = self.traffics[index]
        return RoofPoint(
            axes=traffic.axes,
            bytes_moved=traffic.read_bytes + traffic.written_bytes,
            best_ns=medians[how],
            how=how,
        )


def memory_limited(roof: RoofPoint, workload: Workload, fma_gflops: float) -> bool:
    """Moving the bytes takes longer than the arithmetic would at its peak: the roof is a bound."""
    return workload.flops(roof.axes) / fma_gflops < roof.best_ns


def time_alone(bench: Bench, racer: Racer, workload: Workload, data: Rotation) -> Timing:
    """One sample of a trusted kernel in a fresh process. Raises Transient when it does not come back."""
    arm = start(bench, racer, workload)
    if isinstance(arm, LoadFailed):
        raise Transient(f"{racer.name} does not load: {arm.message}")
    with closing(arm):
        outcome = settled_sample(bench, arm, data.sets, workload.scalars)
    if not isinstance(outcome, Timing):
        raise Transient(f"{racer.name}: {ended(outcome)}")
    return outcome


def fma_peak_gflops(bench: Bench, kernels: OwnKernels, rng: np.random.Generator) -> float:
    """Float32 multiply-adds at the whole quota, counting two operations each."""
    threads = bench.machine.threads
    axes = {"T": threads, "R": 200_000, "L": FMA_LINE}
    kernel = kernels.fma
    with closing(bench.new_arena()) as arena, closing(Rotation(arena, kernel.workload, axes, 1, rng)) as data:
        taken = [time_alone(bench, kernel.racer("fma_peak", threads), kernel.workload, data) for _ in range(3)]
    width = min(bench.machine.vector_bits // 32, FMA_LINE)
    best_ns = min(timing.elapsed_ns / timing.calls for timing in taken)
    return 2 * width * FMA_CHAINS * axes["R"] * threads / best_ns
