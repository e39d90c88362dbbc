"""How often byte-identical kernels are called different while somebody else uses the machine."""

import multiprocessing
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_most
from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, Protocol, open_bench
from kernel_lab.measure.calibrate import A_A_FLOATS, Effort, take_a_a_pairs, twin_of
from kernel_lab.measure.compare import Contest, Fought
from kernel_lab.measure.own_kernels import OwnKernels, build_own_kernels
from kernel_lab.measure.pairs import Duel
from kernel_lab.measure.statistics import NOISE_PAIRS, Noise, level_per_look
from kernel_lab.verify.court import open_court
from schemas.enums import Regime, Verdict
from schemas.goal import Shape

COMPARISONS = 300
SHORT = Protocol(quads=2, min_sample_ns=2_000_000, pause_ns=1_000_000)
"""measurement.md's looks and levels with shorter samples, so that 300 comparisons take minutes. Shorter is noisier: the
full protocol can only be better."""
NOISE_EFFORT = Effort(pairs=NOISE_PAIRS, regime=Regime.HOT, bandwidth_rounds=0)
BUSY_S = (0.02, 0.2)
IDLE_S = (0.06, 0.6)
"""The neighbour burns one core for a random while, then rests for another: a quarter of the time. Chosen: with half,
most comparisons on the whole quota are INVALID, which proves less than a number that could be false."""
FALSE = (Verdict.FASTER, Verdict.SLOWER)
LIMIT_PERCENT = 1.0


@dataclass(frozen=True)
class Track:
    """A bench with its twins: a copy kernel against its byte-identical rebuild."""

    bench: Bench
    kernels: OwnKernels

    def twins(self, threads: int) -> Duel:
        racer = self.kernels.ordinary.racer("roof_ordinary", threads)
        shape = Shape(axes={"R": A_A_FLOATS, "W": A_A_FLOATS})
        return Duel(self.kernels.ordinary.workload, (shape,), twin_of(racer), (racer,), Regime.HOT, is_verified=False)

    def noise(self, rng: np.random.Generator) -> Noise:
        return Noise().grown(take_a_a_pairs(self.bench, self.kernels, NOISE_EFFORT, rng))

    def compare(self, threads: int, noise: Noise, rng: np.random.Generator) -> Fought:
        contest = Contest(self.bench, {"twins": self.twins(threads)}, noise, level_per_look(), rng)
        return contest.run()["twins"]


def run(size: float, say: Say) -> Result:
    """Comparisons under load, half of them on one thread and half on the whole quota."""
    comparisons = max(4, round(COMPARISONS * size))
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder, noisy_neighbour():
        track = _open_track(Path(folder))
        rng = np.random.default_rng()
        noise = track.noise(rng)
        say(f"noise floor under load: {noise.stated:.2%}")
        fought = {}
        for number in range(comparisons):
            threads = track.bench.machine.threads if number % 2 else 1
            fought[number] = threads, track.compare(threads, noise, rng)
            say(f"{number + 1}/{comparisons}: {_line(*fought[number])}")
    return _result(list(fought.values()), noise)


@contextmanager
def noisy_neighbour() -> Iterator[None]:
    """Another process burns one core part of the time."""
    process = multiprocessing.get_context("spawn").Process(target=_burn, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _burn() -> None:
    while True:
        until = time.monotonic() + random.uniform(*BUSY_S)
        while time.monotonic() < until:
            pass
        time.sleep(random.uniform(*IDLE_S))


def _open_track(folder: Path) -> Track:
    court, machine = open_court("auto"), machine_class()
    return Track(open_bench(court.lab, machine, "here", SHORT), build_own_kernels(court.backend, machine, folder))


def _line(threads: int, fought: Fought) -> str:
    interval = fought.conclusion.interval
    shown = f"{interval.estimate:.4f} [{interval.low:.4f}, {interval.high:.4f}]" if interval else "no number"
    return f"{threads} threads: {fought.conclusion.verdict} {shown} after {len(fought.pairs)} pairs"


def _result(fought: list[tuple[int, Fought]], noise: Noise) -> Result:
    verdicts = Counter(one.conclusion.verdict for _, one in fought)
    false = sum(verdicts[verdict] for verdict in FALSE)
    numbers = sum(one.conclusion.interval is not None for _, one in fought)
    figures = (
        Figure("called FASTER or SLOWER", round(100 * false / len(fought), 2), "%", at_most(LIMIT_PERCENT)),
        Figure("the same, of those that gave a number", round(100 * false / max(numbers, 1), 2), "%"),
        *(Figure(f"verdict {verdict}", count, "") for verdict, count in verdicts.most_common()),
        Figure("noise floor under load", round(100 * noise.stated, 2), "%"),
    )
    raw = {
        "noise": noise.values,
        "comparisons": [
            {
                "threads": threads,
                "verdict": one.conclusion.verdict,
                "note": one.conclusion.note,
                "ratio": one.conclusion.interval and one.conclusion.interval.model_dump(),
                "pair_values": one.values,
                "dropped": [quad.dropped for pair in one.pairs for quad in pair.quads if quad.dropped],
            }
            for threads, one in fought
        ],
    }
    return Result(figures, raw)


BENCHMARK = Benchmark("a_a", "300 comparisons of byte-identical kernels beside a noisy neighbour", 6, run, is_long=True)
