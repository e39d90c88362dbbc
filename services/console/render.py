"""A report as text. No ratio appears without its interval, its kind, its baseline, its regime and its machine."""

import io
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from schemas.enums import Outcome, RatioKind
from schemas.measurement import Interval, MachineProfile, RoofPoint
from services.console.report import shape_text
from services.console.report_model import (
    BaselineReport,
    ChampionReport,
    FinalistReport,
    GoalReport,
    LessonReport,
    RejectReport,
    Stated,
    SteerReport,
)

DIFF_LINES = 40
"""Of the source's difference shown; the rest is in `-o json`. Chosen: one screen."""

LESSONS_SHOWN = 12
"""Lessons listed; the rest are counted. Chosen."""

OUTCOMES = {
    Outcome.CHAMPION: "a champion: proven, raced, faster than the strongest baseline",
    Outcome.NO_VERIFIED_IMPROVEMENT: "no verified improvement over the strongest baseline",
    Outcome.INCONCLUSIVE: "inconclusive: the race could not tell",
    Outcome.NONE: "no outcome",
}

KINDS = {RatioKind.SEARCH: "search", RatioKind.HOLD_OUT: "hold-out"}


def report_text(report: GoalReport, width: int = 120) -> str:
    """The report as plain text, `width` columns wide."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, color_system=None).print(render(report))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render(report: GoalReport) -> RenderableType:
    """The report for a console of any width, with or without colour."""
    parts: list[RenderableType] = [_head(report)]
    if report.champion is not None:
        parts += [_title("Champion"), _champion(report.champion), _title("Source, against the baseline")]
        parts.append(_change(report.champion))
    parts += [_title("Baselines raced"), _baselines(report.baselines), *_roofs(report.roofs)]
    parts += [_title("Finalists"), _finalists(report)]
    parts += [_title("Rejected, by reason"), _rejects(report.rejects)]
    parts += [_title("Lessons"), _lessons(report.lessons)]
    if report.steers:
        parts += [_title("Steered"), _pairs([_steer(steer) for steer in report.steers])]
    parts += [_title("Machine"), _machine(report)]
    return Group(*parts)


def ratio_text(stated: Stated) -> str:
    """`1.231× [1.204, 1.259] at 99.67 % · FASTER · hold-out · against numpy · cold · cpu_0badcafe/1f2e`."""
    number = interval_text(stated.ratio) if stated.ratio else "no number"
    against = " and ".join(stated.against) or "no baseline"
    parts = (number, stated.verdict, KINDS[stated.kind], f"against {against}", stated.regime, stated.machine)
    return " · ".join(part for part in parts if part)


def interval_text(interval: Interval) -> str:
    """`1.231× [1.204, 1.259] at 99 %`."""
    level = f"{100 * interval.level:.2f}".rstrip("0").rstrip(".")
    return f"{interval.estimate:.3f}× [{interval.low:.3f}, {interval.high:.3f}] at {level} %"


def time_text(ns: float) -> str:
    """`1.23 ms`, in the largest unit that leaves a whole number in front."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def _head(report: GoalReport) -> RenderableType:
    rows = [
        ("goal", f"{report.goal_id}  {report.name}".rstrip()),
        ("asked", f"{report.workload} on {report.target}, {report.regime}, {', '.join(report.shapes)}"),
        ("ended", _ending(report)),
        ("tried", _tally(report)),
    ]
    if report.best_search is not None:
        rows.append(("best in search", f"{ratio_text(report.best_search)} (a belief, never a result)"))
    return _pairs(rows)


def _ending(report: GoalReport) -> str:
    if report.outcome is None:
        return "not yet"
    note = f": {report.message}" if report.message else ""
    return f"by {report.ended_by} with {OUTCOMES[report.outcome]}{note}"


def _tally(report: GoalReport) -> str:
    tally = report.tally
    return (
        f"{tally.proposed} proposed in {tally.generations} generations: {tally.compiled} compiled, {tally.verified} "
        f"verified, {tally.measured} measured, {tally.rejected} rejected, {tally.abandoned} abandoned"
    )


def _finder(champion: ChampionReport) -> str:
    submitted = champion.author and not champion.author.startswith("assay/")
    return f"{champion.author} ({champion.strategy})" if submitted else champion.strategy or "unknown"


def _champion(champion: ChampionReport) -> RenderableType:
    rows = [
        ("candidate", str(champion.candidate_id)),
        ("found by", _finder(champion)),
        ("variant", champion.variant or "none"),
        ("genome", ", ".join(f"{name}={gene}" for name, gene in champion.genome.items() if name != "variant")),
        ("built with", f"threads {champion.threads}, flags {' '.join(champion.flags) or 'the default line'}"),
        ("result", ratio_text(champion.hold_out)),
    ]
    if champion.search is not None:
        rows.append(("search believed", ratio_text(champion.search)))
    if champion.shrinkage is not None:
        rows.append(("shrinkage", f"{100 * champion.shrinkage:.1f} % from search to hold-out"))
    rows += [("lesson used", statement) for statement in champion.lessons] or [("lessons used", "none")]
    return Group(_pairs(rows), Text(), _times(champion))


def _times(champion: ChampionReport) -> RenderableType:
    table = _table("shape", "weight", "baseline", "its time", "champion's time", "of the roof")
    for row in champion.shapes:
        fraction = f"{100 * row.roof_fraction:.0f} %" if row.roof_fraction is not None else "not memory-bound"
        times = (time_text(row.baseline_ns), time_text(row.champion_ns))
        table.add_row(row.shape, f"{row.weight:g}", row.baseline, *times, fraction)
    return table


def _change(champion: ChampionReport) -> RenderableType:
    lines = champion.change.diff.splitlines()
    head = Text(f"against {champion.change.baseline}: {champion.change.summary}")
    if not lines:
        return head
    more = [f"… {len(lines) - DIFF_LINES} more lines; -o json has them all"] if len(lines) > DIFF_LINES else []
    return Group(head, Text("\n".join([*lines[:DIFF_LINES], *more])))


def _baselines(baselines: Sequence[BaselineReport]) -> RenderableType:
    if not baselines:
        return Text("none was raced")
    table = _table("baseline", "status", "median time per shape", "strongest on")
    for row in baselines:
        times = ", ".join(map(time_text, row.median_ns)) or row.message or row.description
        table.add_row(row.name, row.status, times, ", ".join(row.won))
    return table


def _roofs(roofs: Sequence[RoofPoint]) -> list[RenderableType]:
    """The roof of each shape: the best time of moving the same bytes."""
    rows = [
        (f"roof {shape_text(roof.axes)}", f"{time_text(roof.best_ns)} for {roof.bytes_moved:,} bytes, {roof.how}")
        for roof in roofs
    ]
    return [Text(), _pairs(rows)] if rows else []


def _finalists(report: GoalReport) -> RenderableType:
    rows: list[tuple[str, str]] = []
    for finalist in report.finalists:
        rows.append((f"{finalist.rank}. {str(finalist.candidate_id)[:8]}", _finalist(finalist)))
        rows += [("", ratio_text(ratio)) for ratio in (finalist.hold_out, finalist.search) if ratio is not None]
    if report.a_a is not None:
        rows.append(("A/A", f"{ratio_text(report.a_a)} (the baseline against its own rebuild)"))
    gap = "as the goal asks" if report.a_a is None else "before the race"
    rows.append(("hold-out gap", f"{report.hold_out_gap_s:g} s {gap}"))
    return _pairs(rows) if report.finalists else Group(Text("none was nominated"), _pairs(rows))


def _finalist(finalist: FinalistReport) -> str:
    return f"{finalist.status}: {finalist.message}" if finalist.message else finalist.status


def _rejects(rejects: Sequence[RejectReport]) -> RenderableType:
    if not rejects:
        return Text("none")
    table = _table("stage", "reason", "count", "for example")
    for row in rejects:
        table.add_row(row.stage, row.reason, str(row.count), f"{str(row.example)[:8]}: {_first_line(row.message)}")
    return table


def _lessons(lessons: Sequence[LessonReport]) -> RenderableType:
    if not lessons:
        return Text("none: too few candidates for a statement with an interval")
    lines = [_lesson(lesson) for lesson in lessons[:LESSONS_SHOWN]]
    more = [f"… and {len(lessons) - LESSONS_SHOWN} more"] if len(lessons) > LESSONS_SHOWN else []
    return Text("\n".join([*lines, *more]))


def _lesson(lesson: LessonReport) -> str:
    used = "* " if lesson.used_by_champion else "- "
    where = lesson.condition.get("machine", "")
    if lesson.effect is None:
        return f"{used}{lesson.statement} ({where})"
    evidence = f"{interval_text(lesson.effect)}, search, against candidates without it, {lesson.count} of them counted"
    return f"{used}{lesson.statement} ({evidence}, {where})"


def _steer(steer: SteerReport) -> tuple[str, str]:
    what = f"{steer.what}: " if steer.what else ""
    return (steer.action, f"{what}{steer.reason}")


def _machine(report: GoalReport) -> RenderableType:
    machine = report.machine
    if machine is None:
        return Text(f"{report.route or 'no route'}: no machine.observed in the log")
    return _pairs(_machine_rows(machine))


def _machine_rows(machine: MachineProfile) -> list[tuple[str, str]]:
    fit = {True: "fit", False: "UNFIT", None: "not calibrated"}[machine.fit]
    noise = f"{100 * machine.noise_floor:.2f} %" if machine.noise_floor is not None else "unknown"
    copies = ", ".join(f"{how} {gbps:.1f} GB/s" for how, gbps in machine.copy_gbps.items())
    return [
        ("machine", f"{machine.machine.route}/{machine.host}"),
        ("processor", f"{machine.machine.model}, {machine.machine.threads} threads of quota"),
        ("compiled for", " ".join((machine.machine.march, *machine.machine.features))),
        ("compiler", machine.compiler),
        ("isolation", machine.isolation),
        ("memory", copies or "not measured"),
        ("noise floor", f"{noise}, {fit}"),
        ("governor", f"{machine.governor}, SMT {machine.smt}, THP {machine.transparent_huge_pages}"),
        ("steal", machine.steal),
    ]


def _title(text: str) -> RenderableType:
    return Text(f"\n{text}", style="bold")


def _pairs(rows: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
