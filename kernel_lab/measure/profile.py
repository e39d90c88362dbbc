"""This machine as facts and people see it: the preflight around what a calibration measured."""

import secrets
import tempfile
from pathlib import Path

import numpy as np

from kernel_lab.machine import machine_class, observe
from kernel_lab.measure.bench import Bench, Progress, open_bench, silent
from kernel_lab.measure.calibrate import FULL, Calibration, Effort, calibrate
from kernel_lab.measure.own_kernels import OwnKernels, build_own_kernels
from kernel_lab.measure.statistics import Noise
from kernel_lab.verify.court import open_court
from schemas.measurement import MachineProfile


def profile_of(
    bench: Bench, kernels: OwnKernels, isolation: str, calibration: Calibration, noise: Noise
) -> MachineProfile:
    """The profile that `machine.observed` carries."""
    return observe(
        bench.machine,
        host_id=bench.host,
        compiler=kernels.toolchain,
        isolation=isolation,
        fma_gflops=calibration.fma_gflops,
        copy_gbps=calibration.copy_gbps,
        noise_floor=noise.floor,
        fit=noise.fit,
    ).model_copy(update={"epoch": bench.epoch})


def calibrate_here(
    isolation: str = "auto", effort: Effort = FULL, host: str = "here", progress: Progress = silent
) -> MachineProfile:
    """This machine, calibrated now, with no bus: `assay machine calibrate`. Whoever calls it holds the quiet lock."""
    court = open_court(isolation)
    bench = open_bench(court.lab, machine_class(), host)
    rng = np.random.Generator(np.random.PCG64(secrets.randbits(62)))
    with tempfile.TemporaryDirectory(prefix="assay-measure-") as folder:
        kernels = build_own_kernels(court.backend, bench.machine, Path(folder))
        calibration = calibrate(bench, kernels, effort, rng, progress)
        return profile_of(bench, kernels, court.isolation, calibration, calibration.noise)
