"""How surely a true 5 % gap is found: one kernel does 105 sweeps where the other does 100, in the first cache."""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least
from kernel_lab.backends.backend import Built
from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, Racer, open_bench
from kernel_lab.measure.calibrate import Effort, take_a_a_pairs
from kernel_lab.measure.compare import Contest, Fought
from kernel_lab.measure.own_kernels import build_own_kernels
from kernel_lab.measure.pairs import Duel
from kernel_lab.measure.statistics import NOISE_PAIRS, Noise, level_per_look
from kernel_lab.verify.court import Court, open_court
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Language, Regime, Verdict
from schemas.faults import Broken
from schemas.goal import Shape
from schemas.work import Kernel

TRIALS = 40
SWEEPS = 100
GAP = 1.05
FLOATS = 4096
"""16 KiB: the first cache of every machine class, so the gap is one of arithmetic."""
QUIET_FLOOR = 0.02
"""The figure is asked of machines whose noise floor is at most this (issue and measurement.md, 6)."""
FOUND_PERCENT = 95.0
NOISE_EFFORT = Effort(pairs=NOISE_PAIRS, regime=Regime.HOT, bandwidth_rounds=0)
SOURCE = """#include <stdint.h>
void reduce_sum(const float *x, float *y, int64_t N)
{{
    double total = 0;
    for (int sweep = 0; sweep < {sweeps}; sweep++) {{
        __asm__ volatile("" ::: "memory");
        double sum = 0;
        for (int64_t i = 0; i < N; i++)
            sum += x[i];
        total = sum;
    }}
    y[0] = (float)total;
}}
"""


@dataclass(frozen=True)
class Trial:
    """One comparison, and the noise floor that it was judged by."""

    fought: Fought
    noise_floor: float

    @property
    def found(self) -> bool:
        return self.fought.conclusion.verdict is Verdict.FASTER


def run(size: float, say: Say) -> Result:
    """Trials of the whole protocol, the faster kernel as the candidate."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        folder, court, machine = Path(name), open_court("auto"), machine_class()
        bench = open_bench(court.lab, machine, "here")
        kernels = build_own_kernels(court.backend, machine, folder)
        rng = np.random.default_rng()
        duel = _duel(court, bench, folder)
        noise = Noise().grown(take_a_a_pairs(bench, kernels, NOISE_EFFORT, rng))
        say(f"noise floor: {noise.stated:.2%}")
        trials = []
        for number in range(max(2, round(TRIALS * size))):
            contest = Contest(bench, {"planted": duel}, noise, level_per_look(), rng)
            trials.append(Trial(contest.run()["planted"], noise.stated))
            say(f"{number + 1}: {_line(trials[-1])}")
    return _result(trials, noise)


def _duel(court: Court, bench: Bench, folder: Path) -> Duel:
    fast, slow = (_racer(court, bench, folder, name, sweeps) for name, sweeps in _sweeps().items())
    shape = Shape(axes={"N": FLOATS})
    return Duel(WORKLOADS["reduce_sum"], (shape,), fast, (slow,), Regime.HOT)


def _sweeps() -> dict[str, int]:
    return {"fast": SWEEPS, "slow": round(SWEEPS * GAP)}


def _racer(court: Court, bench: Bench, folder: Path, name: str, sweeps: int) -> Racer:
    kernel = Kernel(language=Language.C, source=SOURCE.format(sweeps=sweeps), threads=1, fingerprint=name)
    built = court.backend.compile(kernel, "reduce_sum", bench.machine)
    if not isinstance(built, Built):
        raise Broken(f"the planted kernel does not compile: {built}")
    path = folder / f"{name}.so"
    path.write_bytes(built.object)
    return Racer(name, 1, path, built.sha256)


def _line(trial: Trial) -> str:
    conclusion = trial.fought.conclusion
    interval = conclusion.interval
    shown = f"{interval.estimate:.4f} [{interval.low:.4f}, {interval.high:.4f}]" if interval else "no number"
    return f"{conclusion.verdict} {shown} after {len(trial.fought.pairs)} pairs"


def _result(trials: list[Trial], noise: Noise) -> Result:
    found = 100 * sum(trial.found for trial in trials) / len(trials)
    quiet = noise.stated <= QUIET_FLOOR
    note = "" if quiet else f"the noise floor was over {QUIET_FLOOR:.0%}: the figure is asked of a quieter machine"
    verdicts = Counter(trial.fought.conclusion.verdict for trial in trials)
    pairs = [len(trial.fought.pairs) for trial in trials]
    figures = (
        Figure("a true 5 % gap found", round(found, 1), "%", at_least(FOUND_PERCENT) if quiet else None, note),
        Figure("noise floor", round(100 * noise.stated, 2), "%"),
        Figure("process pairs taken, median", float(np.median(pairs)), ""),
        *(Figure(f"verdict {verdict}", count, "") for verdict, count in verdicts.most_common()),
    )
    raw = {
        "noise": noise.values,
        "trials": [
            {
                "verdict": trial.fought.conclusion.verdict,
                "ratio": trial.fought.conclusion.interval and trial.fought.conclusion.interval.model_dump(),
                "pair_values": trial.fought.values,
            }
            for trial in trials
        ],
    }
    return Result(figures, raw)


BENCHMARK = Benchmark("power", "a true 5 % gap on a compute-bound kernel, 40 trials of PAIR", 5, run, is_long=True)
