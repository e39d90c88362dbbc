"""docs/results.md, a pure function of the kept results: every workload and serving shape, as it came out."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.goal_results import GoalResult
from kernel_lab.measure.statistics import interval_over_pairs, pair_value
from schemas.enums import Verdict
from schemas.measurement import Comparison, Contender, Interval, ShapeResult
from services.console.render import time_text
from services.console.report import shape_text

HEAD = """\
# Results

Written by `make results` from real goals; do not edit. Each row is one goal on all serving shapes of a workload,
weighted alike, with at most 200 candidates and ten minutes of search, decided by a hold-out race in fresh processes
after a gap ([measurement](design/measurement.md)). Ratios are the strongest baseline's time over the kernel's: above 1
the kernel is faster. Rows that fall short stand as they are. The raw results are in `benchmarks/results/goals/`.
"""
LEGEND = """\
- *Hold-out*: the weighted geometric mean over shapes, with the interval at the race's own level. FASTER means that the
  interval lies above 1 and the estimate above the noise.
- *Of the roof*: the time of moving the same bytes over the kernel's, the median of the memory-bound shapes.
- *Shrinkage*: what the search believed and the race did not find, 1 − hold-out / search.
- *A/A*: the strongest baseline against its own rebuild, in the same race: how far off the machine is.
- *Every baseline* was timed before the search, in other samples than the kernel: those ratios tell an order, and no
  interval belongs to them.
"""


@dataclass(frozen=True)
class Row:
    """One shape of a race, with an interval of its own."""

    shape: ShapeResult
    interval: Interval | None


def page(results: Sequence[GoalResult], workloads: Sequence[str]) -> str:
    """The whole page. Workloads without a result are named as such."""
    by_name: dict[str, list[GoalResult]] = {}
    for result in results:
        by_name.setdefault(result.workload, []).append(result)
    found = [result for name in workloads for result in by_name.get(name, ())]
    missing = [name for name in workloads if name not in by_name]
    faster = sum(_verdict(result) is Verdict.FASTER for result in found)
    parts = [
        HEAD,
        f"FASTER than the strongest baseline on {faster} of {len(found)} goals.",
        "",
        *([f"Not measured: {', '.join(missing)}.", ""] if missing else []),
        "| workload | verdict | hold-out | of the roof | shrinkage | A/A | machine | date | commit |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(_summary, found),
        "",
        LEGEND,
        *map(_section, found),
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def shape_rows(comparison: Comparison) -> tuple[Row, ...]:
    """The shapes of a comparison, each with the Student-t interval of its own pair values at the comparison's level."""
    weights = [row.weight for row in comparison.shapes]
    values = [value for pair in comparison.pairs if (value := pair_value(pair, weights)) is not None]
    level = comparison.ratio.level if comparison.ratio else None
    if level is None or len(values) < 2:
        return tuple(Row(row, None) for row in comparison.shapes)
    columns = zip(*(value.shapes for value in values), strict=True)
    intervals = [interval_over_pairs(column, level) for column in columns]
    return tuple(Row(row, interval) for row, interval in zip(comparison.shapes, intervals, strict=True))


def shrinkage(result: GoalResult) -> float | None:
    """1 − hold-out / search of the one that the page tells of."""
    ratio = result.hold_out.ratio if result.hold_out else None
    if ratio is None or not result.search_ratio:
        return None
    return 1.0 - ratio.estimate / result.search_ratio


def roof_fraction(comparison: Comparison | None) -> float | None:
    """The median over the memory-bound shapes of the roof's time over the kernel's."""
    fractions = [row.roof_ns / row.candidate_ns for row in comparison.shapes if row.roof_ns] if comparison else []
    return median(fractions) if fractions else None


def _verdict(result: GoalResult) -> Verdict | None:
    return result.hold_out.verdict if result.hold_out else None


def _summary(result: GoalResult) -> str:
    hold_out = result.hold_out
    verdict = str(hold_out.verdict) if hold_out else f"no race ({result.outcome})"
    cells = (
        f"[{result.workload}](results.md#{_anchor(result)})",
        verdict if result.crowned or hold_out is None else f"{verdict}, nobody crowned",
        _interval(hold_out.ratio if hold_out else None),
        _percent(roof_fraction(hold_out), "not memory-bound"),
        _percent(shrinkage(result), "-"),
        _interval(result.a_a.ratio if result.a_a else None),
        result.route,
        result.date[:10],
        result.commit,
    )
    return f"| {' | '.join(cells)} |"


def _section(result: GoalResult) -> str:
    lines = [f"## {result.workload} on {result.route}", "", _story(result), ""]
    if result.hold_out is not None:
        lines += [
            "| shape | strongest baseline | its time | the kernel | hold-out ratio | of the roof |",
            "|---|---|---|---|---|---|",
            *map(_shape_line, shape_rows(result.hold_out)),
            "",
        ]
    lines += _baselines(result)
    return "\n".join(lines)


def _story(result: GoalResult) -> str:
    machine = result.machine
    noise = f", noise floor {machine.noise_floor:.1%}" if machine and machine.noise_floor is not None else ""
    budget = result.asked["budget"]
    who = "Champion" if result.crowned else "Best entrant, not crowned"
    genes = ", ".join(f"{name}={gene}" for name, gene in result.genome.items() if name != "variant")
    kernel = f"{who}: {result.variant or 'no variant'}{f' ({genes})' if genes else ''}. " if result.hold_out else ""
    return (
        f"{result.message or result.outcome}. {kernel}"
        f"{result.candidates} candidates in {result.seconds / 60:.0f} minutes, gap and finals included (asked: "
        f"{budget['candidates']} candidates, {budget['wall'] / 60:g} minutes of search; ended by {result.ended_by}). "
        f"{result.model}, Linux {result.kernel}, load {result.load_1m} before it began{noise}; {result.date}, "
        f"commit {result.commit}."
    )


def _shape_line(row: Row) -> str:
    shape = row.shape
    ratio = f"{shape.ratio:.3f}×" if row.interval is None else _interval(row.interval)
    roof = _percent(shape.roof_ns / shape.candidate_ns if shape.roof_ns else None, "not memory-bound")
    times = f"{time_text(shape.baseline_ns)} | {time_text(shape.candidate_ns)}"
    return f"| {shape_text(shape.axes)} | {shape.baseline} | {times} | {ratio} | {roof} |"


def _baselines(result: GoalResult) -> list[str]:
    """Every contender's time per shape, and how it compares with the kernel's."""
    race = result.baselines
    if race is None:
        return []
    shapes = [shape_text(strongest.axes) for strongest in race.strongest]
    kernel_ns = [row.candidate_ns for row in result.hold_out.shapes] if result.hold_out else [None] * len(shapes)
    return [
        "<details><summary>Every baseline</summary>",
        "",
        f"| baseline | {' | '.join(shapes)} |",
        f"|---|{'---|' * len(shapes)}",
        *(_baseline_line(contender, kernel_ns) for contender in race.contenders),
        "",
        "</details>",
        "",
    ]


def _baseline_line(contender: Contender, kernel_ns: Sequence[float | None]) -> str:
    if not contender.median_ns:
        why = " ".join((contender.message or contender.status).split()).replace("|", "\\|")
        return f"| {contender.name} ({contender.status}) | {why} |{' |' * (len(kernel_ns) - 1)}"
    return f"| {contender.name} ({contender.status}) | {' | '.join(_against(contender.median_ns, kernel_ns))} |"


def _against(times: Sequence[float], kernel_ns: Sequence[float | None]) -> Iterable[str]:
    for baseline, kernel in zip(times, kernel_ns, strict=True):
        yield time_text(baseline) + (f" ({baseline / kernel:.2f}×)" if kernel else "")


def _anchor(result: GoalResult) -> str:
    return f"{result.workload}-on-{result.route}"


def _interval(interval: Interval | None) -> str:
    if interval is None or not math.isfinite(interval.estimate):
        return "no number"
    return f"{interval.estimate:.3f}× [{interval.low:.3f}, {interval.high:.3f}]"


def _percent(fraction: float | None, absent: str) -> str:
    return absent if fraction is None else f"{100 * fraction:.0f} %"
