"""How long the PTX executor takes, all checkers on, and beside it numba's CUDA simulator on the same gemm.

Every kernel is run on the PTX of all three architectures in turn, so that a disturbance meets them all; a figure is the
median of the slowest architecture. Modules are parsed before: parsing is a figure of its own.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least, at_most
from kernel_lab.ptx.api import ALL, Module, Verdict, parse, run
from kernel_lab.ptx.kernels import catalogue
from kernel_lab.ptx.kernels.golden import ARCHITECTURES, golden_ptx
from kernel_lab.ptx.kernels.problem import Kernel, Problem
from kernel_lab.ptx.kernels.references import Axes

ROUNDS = 7
"""Chosen: a median over seven ignores three disturbed rounds."""
PARSED_LINES = 5_000
SLOWER_THAN_US = 50.0
"""What the prototype found for numba's simulator (issue 6)."""
NUMBA_LIMIT_S = 300.0


@dataclass(frozen=True)
class Race:
    """A kernel at a size, and the most seconds that it may take."""

    name: str
    kernel: Kernel
    axes: Axes
    limit_s: float


_GEMM = {"M": 128, "N": 128, "K": 128}
RACES = (
    Race("softmax 64×1024", catalogue.SOFTMAX, {"R": 64, "C": 1024}, 0.10),
    Race("fp32 gemm 128³", catalogue.GEMM, _GEMM, 0.40),
    Race("mma fp16 gemm 128³", catalogue.GEMM_F16, _GEMM, 0.15),
    Race("attention H4 T128", catalogue.ATTENTION, {"H": 4, "T": 128}, 0.5),
    Race("recurrent KDA T256 H4 D64", catalogue.KDA_RECURRENT, {"B": 1, "T": 256, "H": 4, "K": 64, "V": 64}, 4.0),
)
PARSING_LIMIT_S = 0.3
GEMM_RACE = RACES[1]

Samples = dict[str, dict[str, list[float]]]
"""Seconds by race and architecture."""


def measure(size: float, say: Say) -> Result:
    """The figures of issue 6."""
    rounds = max(1, round(ROUNDS * size))
    problems = {race.name: race.kernel.problem(race.axes) for race in RACES}
    modules = _modules()
    text = long_module(PARSED_LINES)
    seconds: Samples = {race.name: {each: [] for each in ARCHITECTURES} for race in RACES}
    parsing: list[float] = []
    for turn in range(rounds):
        say(f"round {turn + 1} of {rounds}")
        for race in RACES:
            for architecture in ARCHITECTURES:
                module = modules[race.kernel.source, architecture]
                seconds[race.name][architecture].append(_executed(problems[race.name], module))
        parsing.append(_timed(lambda: parse(text)))
    simulated = _simulated_gemm_s(problems[GEMM_RACE.name], say)
    figures = (*_executor_figures(seconds), _parsing_figure(parsing, text), *_simulator_figures(seconds, simulated))
    return Result(figures, {"seconds": seconds, "parsing_s": parsing, "numba_simulator_s": simulated})


def long_module(lines: int) -> str:
    """A module of at least `lines` lines: copies of the attention kernel under other names, behind one header."""
    header, body = golden_ptx("attention", "sm_100").split("\t// .globl", 1)
    body = body.split("\t.file", 1)[0]
    copies = -(-lines // body.count("\n"))
    return header + "".join(
        "\t// .globl" + body.replace("attention", f"attention_{number}") for number in range(copies)
    )


def _modules() -> dict[tuple[str, str], Module]:
    sources = {race.kernel.source for race in RACES}
    return {(name, each): parse(golden_ptx(name, each)) for name in sources for each in ARCHITECTURES}


def _executed(problem: Problem, module: Module) -> float:
    launch = problem.launch()
    started = time.perf_counter()
    report = run(module, launch, checks=ALL)
    elapsed = time.perf_counter() - started
    if report.verdict is not Verdict.PASS or problem.worst_error(report.outputs) > 1.0:
        raise RuntimeError(f"{problem.kernel.name}: {report.verdict}, {report.diagnostics}")
    return elapsed


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _slowest_median_s(samples: Mapping[str, list[float]]) -> float:
    return max(statistics.median(taken) for taken in samples.values())


def _executor_figures(seconds: Samples) -> tuple[Figure, ...]:
    return tuple(
        Figure(race.name, _slowest_median_s(seconds[race.name]), "s", at_most(race.limit_s), "slowest architecture")
        for race in RACES
    )


def _parsing_figure(parsing: list[float], text: str) -> Figure:
    measured = statistics.median(parsing) * PARSED_LINES / text.count("\n")
    return Figure(f"parsing {PARSED_LINES:,} lines", measured, "s", at_most(PARSING_LIMIT_S))


def _simulator_figures(seconds: Samples, simulated: float | None) -> tuple[Figure, Figure]:
    name = "numba simulator / executor, gemm"
    if simulated is None:
        absent = "absent: pip install numba"
        return Figure("numba simulator, gemm", None, "s", note=absent), Figure(name, None, "×", note=absent)
    ratio = simulated / _slowest_median_s(seconds[GEMM_RACE.name])
    return Figure("numba simulator, gemm", simulated, "s"), Figure(name, ratio, "×", at_least(SLOWER_THAN_US))


def _simulated_gemm_s(problem: Problem, say: Say) -> float | None:
    """Seconds of numba's CUDA simulator, in a process of its own: its switch is read when numba is imported."""
    if find_spec("numba") is None:
        return None
    say("numba's CUDA simulator, once")
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "benchmarks.numba_gemm", json.dumps(dict(problem.axes))]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=NUMBA_LIMIT_S, check=True)
    return float(done.stdout)


BENCHMARK = Benchmark("ptx", "the PTX executor with all checkers on, beside numba's CUDA simulator", 0.7, measure)
