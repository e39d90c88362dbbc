"""`assay candidate`: what was tried; and judging one file with no bus and no database."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from kernel_lab.measure.file import Against, MeasuredFile, measure_file
from kernel_lab.verify.file import to_json, verify_file
from kernel_lab.workloads.workload import Workload
from schemas.enums import JudgedAs, Language, Target, Verdict
from schemas.events import CandidateProposed
from schemas.faults import Misconfigured
from schemas.goal import Shape
from schemas.verdict import Judgement
from schemas.work import Kernel
from services.console.commands import candidate_submit
from services.console.commands.events import get
from services.console.commands.workload import find
from services.console.endpoints import open_log, open_views
from services.console.exits import Exit, exit_with
from services.console.naming import NAME_HELP, candidate_named
from services.console.output import (
    Column,
    Format,
    OutputOption,
    emit_page,
    emit_record,
    plain,
    progress_steps,
    say,
    stdout,
)
from services.console.rejudge import OnRecord, read_candidate, rejudge
from services.console.render import ratio_text, time_text
from services.console.report import shape_text, stated
from services.evidence.candidate_rows import CandidateStatus
from services.runtime.quiet import Device
from services.runtime.service import Quiet
from services.runtime.settings import read_settings

app = typer.Typer(no_args_is_help=True, help="What was tried; and judge one file with no bus and no database.")

app.command("submit")(candidate_submit.submit)


def _outsider(author: str) -> str:
    """Who made it, where that was none of Assay's proposers."""
    return "" if author.startswith("assay/") else author


COLUMNS = (
    Column("candidate_id", "candidate"),
    Column("goal_id", "goal"),
    Column("generation", "generation"),
    Column("strategy", "strategy"),
    Column("author", "author", _outsider),
    Column("variant", "variant"),
    Column("status", "status"),
    Column("search_ratio", "ratio (search)", "{:.3f}×".format),
    Column("reason", "reason"),
    Column("finals", "finals"),
)
FileArgument = Annotated[
    Path | None, typer.Argument(help="One C source file (docs/workloads.md: the candidate contract).")
]
WorkloadOption = Annotated[str | None, typer.Option("--workload", help="What it computes; `assay workload list`.")]
FromLogOption = Annotated[
    str | None,
    typer.Option("--from-log", help="Instead of a file: a recorded candidate, as `candidate show` names it."),
]
TargetOption = Annotated[Target, typer.Option("--target", help="What it is for.")]
ShapesOption = Annotated[str, typer.Option("--shapes", help="small, serving or large.")]
CandidateArgument = Annotated[str, typer.Argument(help=NAME_HELP)]


@app.command("list")
def list_(
    goal: Annotated[str | None, typer.Option("--goal", help="Only candidates of this goal.")] = None,
    status: Annotated[CandidateStatus | None, typer.Option("--status", help="Only those that came this far.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Leave out this many first.")] = 0,
    output: OutputOption = Format.TEXT,
) -> None:
    """Candidates by generation, the best search ratio first. A search ratio is never a result.

    Example: assay candidate list --goal my-goal -o jsonl
    """

    async def run() -> list[dict[str, Any]]:
        async with open_views() as views:
            return [plain(row) for row in await views.candidates(goal, limit=limit + 1, status=status, offset=offset)]

    emit_page(asyncio.run(run()), limit, offset, output, COLUMNS, "no candidates")


@app.command()
def show(candidate_id: CandidateArgument, output: OutputOption = Format.TEXT) -> None:
    """How far one candidate came, and why it stopped.

    Example: assay candidate show CANDIDATE-ID
    """

    async def run() -> dict[str, Any]:
        async with open_views() as views, open_log() as log:
            found = await views.candidates(candidate_id=await candidate_named(views, candidate_id))
            proposed = await log.get(found[0]["candidate_id"]) if found else None
        if not found:
            raise Misconfigured(f"no candidate {candidate_id}; `assay candidate list` shows them")
        note = proposed.fact.note if proposed and isinstance(proposed.fact, CandidateProposed) else ""
        return plain(found[0]) | {"note": note}

    record = asyncio.run(run())
    emit_record(record, output, lambda: print(json.dumps(record, indent=2, ensure_ascii=False)))


@app.command()
def source(candidate_id: CandidateArgument) -> None:
    """The source text of one candidate, as the log has it.

    Example: assay candidate source CANDIDATE-ID > kernel.c
    """
    print(asyncio.run(_source(candidate_id)), end="")


async def _source(candidate_id: str) -> str:
    async with open_views() as views, open_log() as log:
        fact = (await get(log, await candidate_named(views, candidate_id))).fact
    if not isinstance(fact, CandidateProposed):
        raise Misconfigured(f"{candidate_id} is a {fact.TYPE}, no candidate; `assay candidate list` shows candidates")
    return fact.kernel.source


@app.command()
def verify(
    file: FileArgument = None,
    workload: WorkloadOption = None,
    target: TargetOption = Target.CPU,
    shapes: ShapesOption = "small",
    cheap: Annotated[bool, typer.Option("--cheap", help="Stop after rung V3.")] = False,
    seeds: Annotated[
        Path | None,
        typer.Option("--seeds", help="An earlier verdict (-o json): judge by its seeds, not by fresh ones."),
    ] = None,
    from_log: FromLogOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Judge one file. Exit 0 verified, 1 rejected, 8 no verdict.

    With --from-log ID it judges a recorded candidate again, from the log alone: its source, its goal's shapes, its
    recorded seeds and then fresh ones. Exit 6 when the record does not hold.

    Example: assay candidate verify kernel.c --workload rms_norm -o json
    """
    if from_log is not None:
        _require_no_file(file, workload, seeds)
        _verify_from_log(from_log, output)
    settings, (file, op) = read_settings(), _file_and_workload(file, workload)
    chosen, known = _inputs(target, op, shapes), _seeds(seeds) if seeds else None
    with Device(settings.quiet).held_blocking(Quiet.SHARED):
        judgement = verify_file(file, op, chosen, cheap, settings.isolation, known)
    _show_judgement(judgement, output)


@app.command()
def measure(
    file: FileArgument = None,
    workload: WorkloadOption = None,
    against: Annotated[
        str, typer.Option("--against", help="`best`: the strongest baseline; or another C file.")
    ] = "best",
    target: TargetOption = Target.CPU,
    shapes: ShapesOption = "small",
    from_log: FromLogOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Verify one file, then measure it by PAIR. Exit 0 with a verdict, 1 rejected, 9 INVALID or UNFIT.

    With --from-log ID it measures a recorded candidate, from its recorded source, on the shapes of its goal.

    Example: assay candidate measure kernel.c --workload rms_norm --shapes serving
    """
    other: Against = "best" if against == "best" else Path(against)
    if from_log is not None:
        _require_no_file(file, workload)
        recorded = _recorded(from_log)
        if recorded.kernel.language is not Language.C:
            raise Misconfigured(f"{from_log} is a {recorded.kernel.language} candidate: it has nothing to measure")
        _measure(recorded.kernel, find(recorded.task.workload), other, recorded.task.shapes, output)
    file, op = _file_and_workload(file, workload)
    _measure(file, op, other, _inputs(target, op, shapes), output)


def _measure(
    file: Path | Kernel, workload: Workload, against: Against, shapes: tuple[Shape, ...], output: Format
) -> NoReturn:
    settings = read_settings()
    with Device(settings.quiet).held_blocking(Quiet.EXCLUSIVE), progress_steps() as progress:
        found = measure_file(file, workload, against, shapes, settings.isolation, progress=progress)
    if isinstance(found, Judgement):
        _show_judgement(found, output)
    emit_record(_measured_record(found), output, lambda: _measured_text(found))
    exit_with(Exit.UNFIT if found.comparison.verdict in (Verdict.INVALID, Verdict.UNFIT) else Exit.OK)


def _file_and_workload(file: Path | None, workload: str | None) -> tuple[Path, Workload]:
    """Both, or Misconfigured that says which is missing."""
    if file is None:
        raise Misconfigured("give a C file and its --workload, or --from-log with a candidate's id")
    if workload is None:
        raise Misconfigured(f"what does {file} compute? add --workload; `assay workload list` shows what there is")
    return file, find(workload)


def _require_no_file(*given: object) -> None:
    if any(one is not None for one in given):
        raise Misconfigured("--from-log takes source, workload, shapes and seeds from the log: leave out the rest")


def _recorded(candidate_id: str) -> OnRecord:
    async def run() -> OnRecord:
        async with open_log() as log, open_views() as views:
            return await read_candidate(log, await candidate_named(views, candidate_id))

    return asyncio.run(run())


def _verify_from_log(candidate_id: str, output: Format) -> NoReturn:
    found = rejudge(_recorded(candidate_id), read_settings())
    record = found.record()
    emit_record(record, output, lambda: stdout().print(f"recorded {found.recorded}; {found.text()}", markup=False))
    if found.contradicts:
        say("the record does not hold: the same judge says another thing of the same source, or its object is another")
        exit_with(Exit.EVIDENCE_BROKEN)
    match found.again:
        case JudgedAs.VERIFIED:
            exit_with(Exit.OK)
        case JudgedAs.NO_VERDICT:
            exit_with(Exit.NO_VERDICT)
        case _:
            exit_with(Exit.FAILED)


def _seeds(path: Path) -> dict[str, int]:
    """The seeds of an earlier verdict. Raises Misconfigured."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["seeds"]
        return {str(name): int(seed) for name, seed in found.items()}
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misconfigured(f"{path}: no verdict with seeds; keep what `candidate verify -o json` printed") from error


def _inputs(target: Target, workload: Workload, shapes: str) -> tuple[Shape, ...]:
    if target is not Target.CPU:
        raise Misconfigured(f"--target {target}: a file is judged on this machine's CPU; use cpu")
    match shapes:
        case "small" | "serving" | "large":
            return workload.shapes[shapes]
        case _:
            raise Misconfigured(f"--shapes {shapes!r}: use small, serving or large")


def _measured_record(found: MeasuredFile) -> dict[str, Any]:
    return {
        "comparison": found.comparison.model_dump(mode="json"),
        "judgement": to_json(found.judgement),
        "contenders": [contender.model_dump(mode="json") for contender in found.contenders],
        "roofs": [roof.model_dump(mode="json") for roof in found.roofs],
    }


def _measured_text(found: MeasuredFile) -> None:
    out = stdout()
    out.print(ratio_text(stated(found.comparison)), markup=False)
    for row in found.comparison.shapes:
        roof = f", {100 * row.roof_ns / row.candidate_ns:.0f} % of the roof" if row.roof_ns else ""
        times = f"{time_text(row.candidate_ns)} against {time_text(row.baseline_ns)} of {row.baseline}"
        out.print(f"  {shape_text(row.axes)}: {times}{roof}", markup=False)
    if found.comparison.note:
        out.print(found.comparison.note, markup=False)


def _show_judgement(judgement: Judgement, output: Format) -> NoReturn:
    record = to_json(judgement)
    emit_record(record, output, lambda: _judgement_text(judgement))
    match judgement.verdict:
        case JudgedAs.VERIFIED:
            exit_with(Exit.OK)
        case JudgedAs.REJECTED:
            exit_with(Exit.FAILED)
        case JudgedAs.NO_VERDICT:
            exit_with(Exit.NO_VERDICT)


def _judgement_text(judgement: Judgement) -> None:
    out = stdout()
    why = f" at {judgement.rung}: {judgement.reason}" if judgement.rung else ""
    out.print(f"{judgement.verdict}{why}", markup=False)
    if judgement.message:
        out.print(judgement.message, markup=False)
    for rung in judgement.rungs:
        out.print(f"  {rung.rung:<18} {rung.status:<12} {rung.checks} checks, {rung.elapsed_ms:.0f} ms", markup=False)
    if (worst := judgement.worst) is not None:
        margin = f", {worst.margin:.3g} of the bound" if worst.margin is not None else ""
        out.print(
            f"  worst: {worst.output}{list(worst.index)} on {worst.distribution} {worst.axes}{margin}", markup=False
        )
    say(f"isolation {judgement.isolation}; `-o json` has the seeds: kept in a file, --seeds judges by them again")
