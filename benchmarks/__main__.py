"""`python -m benchmarks [NAME…]`: progress on stderr, a table on stdout, raw samples into `benchmarks/results`."""

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    a_a,
    audit,
    compile_backlog,
    factory_share,
    flat_memory,
    idle_memory,
    null_throughput,
    power,
    ptx,
    recorder_catch_up,
    variants,
    views,
    winners_curse,
)
from benchmarks.benchmark import Benchmark, Figure, Result
from benchmarks.circumstances import Circumstances, circumstances

BENCHMARKS: tuple[Benchmark, ...] = (
    null_throughput.BENCHMARK,
    recorder_catch_up.BENCHMARK,
    audit.BENCHMARK,
    idle_memory.BENCHMARK,
    factory_share.BENCHMARK,
    compile_backlog.BENCHMARK,
    a_a.BENCHMARK,
    power.BENCHMARK,
    winners_curse.BENCHMARK,
    ptx.BENCHMARK,
    views.BENCHMARK,
    variants.BENCHMARK,
    flat_memory.NULL,
    flat_memory.REAL,
)
RESULTS = Path(__file__).parent / "results"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """0 when every figure with a target met it, 1 when one missed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that factories and folders are cleared away
    arguments = _arguments()
    if arguments.list:
        _show_list()
        return 0
    met = [_measure(benchmark, arguments.size) for benchmark in _chosen(arguments.names, arguments.all)]
    return 0 if all(met) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all but the long ones")
    parser.add_argument("--all", action="store_true", help="the long ones too")
    parser.add_argument("--list", action="store_true", help="show what there is")
    parser.add_argument("--size", type=float, default=1.0, help="share of the full size, to try a benchmark out")
    asked = parser.parse_args()
    if not 0 < asked.size <= 1:
        parser.error(f"--size {asked.size:g}: above 0, at most 1")
    return asked


def _chosen(names: list[str], everything: bool) -> list[Benchmark]:
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        say(f"no benchmark {', '.join(unknown)}; there are: {', '.join(by_name)}")
        sys.exit(2)
    if names:
        return [by_name[name] for name in names]
    return [benchmark for benchmark in BENCHMARKS if everything or not benchmark.is_long]


def _show_list() -> None:
    rows = Table("name", "what", "minutes", "")
    for benchmark in BENCHMARKS:
        rows.add_row(
            benchmark.name, benchmark.summary, f"{benchmark.minutes:g}", "long: --all" if benchmark.is_long else ""
        )
    Console().print(rows)


def _measure(benchmark: Benchmark, size: float) -> bool:
    at = circumstances()
    say(f"== {benchmark.name}: {benchmark.summary} (about {benchmark.minutes * size:.1f} minutes)")
    result = benchmark.run(size, say)
    path = _keep(benchmark, size, at, result)
    _show(benchmark, size, at, result)
    say(f"raw samples: {path}")
    return all(figure.met is not False for figure in result.figures)


def _keep(benchmark: Benchmark, size: float, at: Circumstances, result: Result) -> Path:
    """The result as a file of its own. A second run on the same day overwrites the first."""
    RESULTS.mkdir(exist_ok=True)
    partly = "" if size == 1 else "-partly"
    path = RESULTS / f"{at.date[:10]}-{benchmark.name}{partly}.json"
    figures = [asdict(figure) | {"bound": str(figure.bound or ""), "met": figure.met} for figure in result.figures]
    record = {"benchmark": benchmark.name, "size": size, "at": asdict(at), "figures": figures, "raw": result.raw}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _show(benchmark: Benchmark, size: float, at: Circumstances, result: Result) -> None:
    partly = "" if size == 1 else f" at {size:g} of its size"
    title = f"{benchmark.name}{partly} · {at.model}, {at.cores} cores, load {at.load_1m} · {at.commit}"
    rows = Table("figure", "measured", "unit", "target", "", title=title, title_justify="left")
    for figure in result.figures:
        measured = "-" if figure.measured is None else f"{figure.measured:,.4g}"
        rows.add_row(figure.name, measured, figure.unit, str(figure.bound or ""), _verdict(figure))
    Console().print(rows)


def _verdict(figure: Figure) -> str:
    said = {True: "met", False: "MISSED", None: ""}[figure.met]
    return f"{said} {figure.note}".strip()


if __name__ == "__main__":
    sys.exit(main())
