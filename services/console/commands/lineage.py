"""`assay lineage` and `assay diff`: where a candidate came from, and how two differ."""

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.text import Text

from schemas.events import BaselineChosen, CandidateProposed
from schemas.faults import Misconfigured
from schemas.work import Baseline, Kernel
from services.console.ancestry import Family, Relative, change_between, change_text, family_of
from services.console.endpoints import open_log, open_views
from services.console.naming import NAME_HELP, candidate_named
from services.console.output import Column, Format, OutputOption, emit_record, emit_records, say, stdout
from services.console.report import shape_text
from services.evidence.log import Log

COLUMNS = (
    Column("generation", "generation"),
    Column("candidate_id", "candidate"),
    Column("goal_id", "goal"),
    Column("strategy", "strategy"),
    Column("status", "status"),
    Column("search_ratio", "ratio (search)", "{:.3f}×".format),
    Column("change_text", "changed from its parent"),
)


def lineage(
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help=NAME_HELP)],
    to_best: Annotated[bool, typer.Option("--to-best", help="Down to its best descendant instead.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Where a candidate came from: its forebears, oldest first, and what changed at each step.

    Example: assay lineage my-goal
    """

    async def run() -> tuple[Family, tuple[Relative, ...]]:
        async with open_views() as views, open_log() as log:
            id_ = await candidate_named(views, candidate)
            family = await family_of(log, id_)
            return family, family.to_best(id_) if to_best else family.ancestors(id_)

    family, line = asyncio.run(run())
    emit_records([lineage_record(one, family) for one in line], output, COLUMNS, "no candidates")


def lineage_record(one: Relative, family: Family) -> dict[str, Any]:
    """A candidate, its parents, and what changed from the first of them that is known."""
    parent = next((family.members[id_] for id_ in one.parents if id_ in family.members), None)
    change = change_between(parent.kernel, one.kernel) if parent else {}
    return {
        "candidate_id": str(one.id),
        "goal_id": one.goal_id,
        "generation": one.generation,
        "strategy": one.strategy,
        "author": one.author,
        "parents": [str(id_) for id_ in one.parents],
        "status": one.status,
        "search_ratio": one.search_ratio,
        "change": {name: list(values) for name, values in change.items()},
        "change_text": change_text(change) if parent else "no parent",
    }


@dataclass(frozen=True)
class Side:
    """One of two kernels that are compared."""

    name: str
    kernel: Kernel
    about: dict[str, Any]


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help=NAME_HELP)],
    second: Annotated[str | None, typer.Argument(metavar="B", help="The other one.")] = None,
    vs: Annotated[str | None, typer.Option("--vs", help="`baseline`: the strongest C baseline of A's goal.")] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """How two kernels differ: genes, flags, threads, source, and what the search measured of each.

    Example: assay diff my-goal --vs baseline
    """
    if (second is None) == (vs is None):
        raise Misconfigured("give two candidates, or one and --vs baseline")
    if vs not in (None, "baseline"):
        raise Misconfigured(f"--vs {vs!r}: it can be baseline; name another candidate as B")

    async def run() -> tuple[Side, Side]:
        async with open_views() as views, open_log() as log:
            a = await _side(log, await candidate_named(views, first))
            if second is None:
                return await _baseline_side(log, a), a
            return a, await _side(log, await candidate_named(views, second))

    before, after = asyncio.run(run())
    record = diff_record(before, after)
    emit_record(record, output, lambda: _show_diff(record))


def diff_record(before: Side, after: Side) -> dict[str, Any]:
    """The comparison as JSON."""
    lines = difflib.unified_diff(
        before.kernel.source.splitlines(), after.kernel.source.splitlines(), before.name, after.name, lineterm=""
    )
    change = change_between(before.kernel, after.kernel)
    return {
        "a": before.about,
        "b": after.about,
        "same": before.kernel.fingerprint == after.kernel.fingerprint,
        "change": {name: list(values) for name, values in change.items()},
        "change_text": change_text(change),
        "diff": "\n".join(lines),
    }


async def _side(log: Log, id_: UUID) -> Side:
    family = await family_of(log, id_)
    one = family.members[id_]
    return Side(str(one.id), one.kernel, {**lineage_record(one, family), "variant": one.kernel.variant})


async def _baseline_side(log: Log, of: Side) -> Side:
    """The strongest baseline with a source, of the shape that weighs most. Raises Misconfigured when none has one."""
    goal_id = of.about["goal_id"]
    chosen = [one.fact async for one in log.read(goal_id=goal_id, types=(BaselineChosen,))]
    proposed = [one.fact async for one in log.read(goal_id=goal_id, types=(CandidateProposed,))]
    baselines = with_source(chosen[-1].race.strongest if chosen else (), proposed[0])
    if not baselines:
        raise Misconfigured(f"the strongest baselines of {goal_id} are libraries: there is no source to compare with")
    best = baselines[0]
    assert best.artifact is not None
    about = {"baseline": best.name, "shape": shape_text(best.axes), "median_ns": best.median_ns}
    return Side(best.name, best.artifact.kernel, about)


def with_source(strongest: Sequence[Baseline], proposed: CandidateProposed) -> list[Baseline]:
    """Baselines whose source the log has, that of the heaviest shape first."""
    weights = {shape_text(shape.axes): shape.weight for shape in proposed.task.shapes}
    kept = [baseline for baseline in strongest if baseline.artifact is not None]
    return sorted(kept, key=lambda baseline: -weights.get(shape_text(baseline.axes), 0.0))


def _show_diff(record: dict[str, Any]) -> None:
    out = stdout()
    for side in ("a", "b"):
        out.print(f"{side}  {_about(record[side])}", markup=False)
    out.print(f"changed  {record['change_text'] or 'nothing but the text'}", markup=False)
    if record["same"]:
        say("the same kernel: they differ in comments and blanks at most")
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in record["diff"].splitlines():
        out.print(Text(line, style=styles.get(line[:1], "")), soft_wrap=True)


def _about(side: dict[str, Any]) -> str:
    if "baseline" in side:
        return f"{side['baseline']}, the strongest baseline at {side['shape']}"
    ratio = f", {side['search_ratio']:.3f}× (search)" if side["search_ratio"] else ""
    return f"{side['candidate_id']} of {side['goal_id']}, {side['variant'] or 'no variant'}, {side['status']}{ratio}"
