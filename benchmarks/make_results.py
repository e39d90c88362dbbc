"""`make results`: a real goal for each workload that has none of this code on this machine, then docs/results.md."""

import argparse
import signal
import sys
from pathlib import Path

from benchmarks import goal_results
from benchmarks.circumstances import ROOT
from benchmarks.goal_results import GoalResult, code_commit, is_current, keep, kept, measure, serving_goal
from benchmarks.results_page import page
from kernel_lab.machine import machine_class
from kernel_lab.workloads import WORKLOADS
from schemas.faults import Fault

PAGE = ROOT / "docs" / "results.md"
MOST_CANDIDATES = 200
MOST_WALL_S = 600.0
"""What a row of the page may spend (issue: figures of the workloads)."""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """0 when every workload asked for has a result of this code, 1 when a goal could not be run, 2 on wrong usage."""
    asked = _arguments(arguments)
    failed = [] if asked.page_only else _measure_all(_todo(asked, kept(asked.records)), asked)
    results = kept(asked.records)
    asked.page.write_text(page(results, tuple(WORKLOADS)), encoding="utf-8")
    say(f"{asked.page}: {len(results)} results")
    for name, why in failed:
        say(f"not measured: {name}: {why}")
    return 1 if failed else 0


def _measure_all(todo: list[str], asked: argparse.Namespace) -> list[tuple[str, str]]:
    """Each in `todo` is measured and kept at once, so that a run that is stopped goes on where it was."""
    failed = []
    for number, name in enumerate(todo, 1):
        say(
            f"== {name} ({number} of {len(todo)}): {asked.candidates} candidates, {asked.wall / 60:g} minutes of search"
        )
        try:
            say(f"kept: {keep(measure(name, serving_goal(name, asked.candidates, asked.wall), say), asked.records)}")
        except Fault as fault:
            say(f"{name}: {fault}")
            failed.append((name, str(fault)))
    return failed


def _todo(asked: argparse.Namespace, known: tuple[GoalResult, ...]) -> list[str]:
    """Workloads to be measured, in the table's order."""
    route, commit = machine_class().route, code_commit()
    current = {result.workload for result in known if is_current(result, route, commit)}
    wanted = [name for name in WORKLOADS if not asked.only or name in asked.only]
    skipped = [name for name in wanted if name in current and not asked.again]
    if skipped:
        say(f"recorded for {route} at {commit} already: {', '.join(skipped)}; --again measures them again")
    return [name for name in wanted if name not in skipped]


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.make_results", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="WORKLOAD", choices=tuple(WORKLOADS), help="only this one (repeatable)"
    )
    parser.add_argument("--again", action="store_true", help="also what is recorded for this machine and commit")
    parser.add_argument("--page-only", action="store_true", help="write the page from what is recorded")
    parser.add_argument(
        "--candidates", type=_Within(1, MOST_CANDIDATES), default=MOST_CANDIDATES, help="per goal, at most 200"
    )
    parser.add_argument(
        "--wall", type=_Within(10, MOST_WALL_S), default=MOST_WALL_S, help="seconds of search, at most 600"
    )
    parser.add_argument("--records", type=Path, default=goal_results.FOLDER, help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


class _Within:
    """A whole number from `least` to `most`, for argparse."""

    def __init__(self, least: int, most: float) -> None:
        self._least, self._most = least, most

    def __call__(self, text: str) -> int:
        number = int(text)
        if not self._least <= number <= self._most:
            raise argparse.ArgumentTypeError(f"{number}: from {self._least} to {self._most:g}")
        return number

    def __repr__(self) -> str:
        return f"number from {self._least} to {self._most:g}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that factories and folders are cleared away
    sys.exit(main())
