"""How noisy this machine is now, and how fast it moves and multiplies (measurement.md, 0 and 4)."""

import shutil
from dataclasses import dataclass

import numpy as np

from kernel_lab.measure.bench import Bench, Progress, Racer, silent
from kernel_lab.measure.own_kernels import OwnKernels
from kernel_lab.measure.pairs import Duel, take_pair
from kernel_lab.measure.roofs import RoofTimer, Traffic, fma_peak_gflops
from kernel_lab.measure.statistics import NOISE_PAIRS, Noise, pair_value
from schemas.enums import Dtype, Regime
from schemas.faults import Transient
from schemas.goal import Shape
from schemas.measurement import Pair

A_A_FLOATS = 1 << 19
"""Floats read, and written, by a call of the A/A kernel: 4 MiB in all. Chosen: a call takes about 0.1 ms, so that a
pair takes little more than its pauses."""
BANDWIDTH_CAP_BYTES = 256 << 20
MOST_ATTEMPTS = 4
"""Attempts at a pair for each that is wanted. Chosen: services that start beside a calibration disturb it for some
seconds; a machine that is still disturbed after half a minute is not calibrated."""


@dataclass(frozen=True)
class Effort:
    """How long a calibration may take."""

    pairs: int
    regime: Regime
    bandwidth_rounds: int


LIGHT = Effort(pairs=NOISE_PAIRS, regime=Regime.HOT, bandwidth_rounds=1)
"""At service start: about twenty seconds. Its pairs have as many quads as those of a race: the median of two quads is
two to three times as noisy as that of six, and made a fit machine UNFIT (a VM with a 300 MB cache: 7 %, not 2.3 %)."""
RECALIBRATION = Effort(pairs=10, regime=Regime.HOT, bandwidth_rounds=0)
"""Before a race: about six seconds."""
TOP_UP = Effort(pairs=5, regime=Regime.HOT, bandwidth_rounds=0)
"""Before work on a machine that is not known to be fit: about three seconds."""
FULL = Effort(pairs=NOISE_PAIRS, regime=Regime.COLD, bandwidth_rounds=3)
"""`assay machine calibrate`: about half a minute."""


@dataclass(frozen=True)
class Calibration:
    """What a machine showed: values of A/A pairs, and its peaks."""

    a_a: tuple[float, ...]
    fma_gflops: dict[str, float]
    copy_gbps: dict[str, float]

    @property
    def noise(self) -> Noise:
        return Noise().grown(self.a_a)


def calibrate(
    bench: Bench,
    kernels: OwnKernels,
    effort: Effort,
    rng: np.random.Generator,
    progress: Progress = silent,
) -> Calibration:
    """The machine's noise and peaks, measured now."""
    fma = fma_peak_gflops(bench, kernels, rng)
    gbps = _bandwidth(bench, kernels, effort.bandwidth_rounds, rng)
    a_a = take_a_a_pairs(bench, kernels, effort, rng, progress)
    return Calibration(a_a, {Dtype.F32.value: fma}, gbps)


def take_a_a_pairs(
    bench: Bench, kernels: OwnKernels, effort: Effort, rng: np.random.Generator, progress: Progress = silent
) -> tuple[float, ...]:
    """Values of A/A pairs: a copy kernel against its byte-identical twin. Fewer than asked for when more than a quarter
    were disturbed: the machine is then not calibrated, which is the truth, and a later look tops it up."""
    duel = _twins(bench, kernels, effort.regime)
    values: list[float] = []
    for attempt in range(MOST_ATTEMPTS * effort.pairs):
        progress("A/A pairs", len(values), effort.pairs)
        taken = take_pair(bench, duel, bench.protocol.quads, rng)
        if not isinstance(taken, Pair):
            raise Transient(f"Assay's own copy kernel did not run at attempt {attempt}: {taken}")
        value = pair_value(taken, duel.weights)
        values += [value.overall] if value else []
        if len(values) == effort.pairs:
            break
    return tuple(values)


def twin_of(racer: Racer) -> Racer:
    """A byte-identical rebuild of `racer`: another file with the same digest, or the same library started again."""
    if racer.object_path is None:
        return racer
    twin = racer.object_path.with_name(f"twin-{racer.object_path.name}")
    shutil.copyfile(racer.object_path, twin)
    return Racer(racer.name, racer.threads, twin, racer.sha256, racer.library, racer.environment)


def _twins(bench: Bench, kernels: OwnKernels, regime: Regime) -> Duel:
    racer = kernels.ordinary.racer("roof_ordinary", bench.machine.threads)
    shape = Shape(axes={"R": A_A_FLOATS, "W": A_A_FLOATS})
    return Duel(kernels.ordinary.workload, (shape,), twin_of(racer), (racer,), regime, is_verified=False)


def _bandwidth(bench: Bench, kernels: OwnKernels, rounds: int, rng: np.random.Generator) -> dict[str, float]:
    """GB/s of reading and of copying with both stores, at over twice the last-level cache and the whole quota."""
    size = min(max(5 * bench.machine.llc_bytes // 4, 8 << 20), BANDWIDTH_CAP_BYTES)
    traffics = (Traffic({}, 2 * size, 4), Traffic({}, size, size))
    timer = RoofTimer(bench, kernels, traffics, Regime.COLD, rng)
    for _ in range(rounds):
        timer.round()
    threads = bench.machine.threads
    return {
        "read": 2 * size / timer.median_ns(0, f"ordinary/{threads}"),
        "copy": 2 * size / timer.median_ns(1, f"ordinary/{threads}"),
        "streaming_copy": 2 * size / timer.median_ns(1, f"streaming/{threads}"),
    }
