"""`assay champion` and `assay leaderboard`: what was proved."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.envelope import Recorded
from schemas.events import ChampionCrowned, MachineObserved
from schemas.faults import Misconfigured
from services.console.endpoints import open_log, open_views
from services.console.exits import Exit, exit_with
from services.console.export.claim import Claim, read_claim
from services.console.export.evidence import evidence
from services.console.export.folder import draw_checks, require_free, write_folder
from services.console.output import (
    Column,
    Format,
    OutputOption,
    emit_record,
    emit_records,
    plain,
    progress_steps,
    say,
    stdout,
)
from services.console.render import render
from services.console.report import report_goal
from services.console.report_model import GoalReport
from services.evidence.log import Log

app = typer.Typer(no_args_is_help=True, help="What was proved.")


async def read_report(log: Log, goal_id: str) -> GoalReport:
    """The report of a goal as far as it has come. Raises Misconfigured for an unknown one."""
    facts = [recorded async for recorded in log.read(goal_id=goal_id)]
    machines = [recorded async for recorded in log.read(types=(MachineObserved,))]
    return report_goal(goal_id, [*facts, *machines])


@app.command()
def show(
    goal_id: Annotated[str, typer.Argument(help="The goal's id.")],
    source: Annotated[bool, typer.Option("--source", help="Only the champion's source text.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """The champion of a goal, with the whole report: hold-out ratio, baselines, roof, rejects, lessons.

    With -o json it prints the champion.crowned fact. Exit 5 when the goal has no champion.

    Example: assay champion show my-goal --source > champion.c
    """

    async def run() -> tuple[GoalReport, Recorded[Any] | None]:
        async with open_log() as log:
            crowned = [recorded async for recorded in log.read(goal_id=goal_id, types=(ChampionCrowned,))]
            return await read_report(log, goal_id), crowned[-1] if crowned else None

    report, crowned = asyncio.run(run())
    if crowned is None:
        if output is Format.TEXT:
            stdout().print(render(report))
        say(f"goal {goal_id} has no champion: {report.outcome or 'it is still running'}. {report.message}")
        exit_with(Exit.NO_IMPROVEMENT)
    if source:
        print(crowned.fact.build.kernel.source, end="")
        return
    emit_record(crowned.fact.model_dump(mode="json"), output, lambda: stdout().print(render(report)))


@app.command()
def report(goal_id: Annotated[str, typer.Argument(help="The goal's id.")], output: OutputOption = Format.TEXT) -> None:
    """The report of a goal, finished or not. The same as `champion show`, as JSON with -o json.

    Example: assay champion report my-goal -o json
    """

    async def run() -> GoalReport:
        async with open_log() as log:
            return await read_report(log, goal_id)

    found = asyncio.run(run())
    emit_record(found.model_dump(mode="json"), output, lambda: stdout().print(render(found)))


@app.command()
def export(
    goal_id: Annotated[str, typer.Argument(help="The goal's id.")],
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="A folder that does not exist yet.")],
) -> None:
    """Take a champion home: source, C header, Makefile, a benchmark that repeats the claim, and the evidence.

    The folder needs no Assay: gcc, make and libc build it and repeat the claim (`make run`). Exit 5 when the goal has
    no champion.

    Example: assay champion export my-goal -o my-kernel
    """
    if str(folder) in tuple(Format):
        raise Misconfigured(f"-o {folder}: here it names the folder to make; call it otherwise than an output format")
    require_free(folder)

    async def read() -> tuple[Claim, dict[str, Any]]:
        async with open_log() as log:
            claim = await read_claim(log, goal_id)
            return claim, await evidence(log, claim)

    claim, found = asyncio.run(read())
    with progress_steps() as told:
        write_folder(folder, claim, draw_checks(claim, told), found)
    say(
        f"next: `make -C {folder} run` repeats the claim with gcc and libc alone; {folder}/README.md says what is there"
    )
    stdout().print(str(folder), markup=False, soft_wrap=True)


COLUMNS = (
    Column("goal_id", "goal"),
    Column("workload", "workload"),
    Column("route", "machine class"),
    Column("candidate_id", "candidate"),
    Column("ratio", "ratio (hold-out)", "{:.3f}×".format),
    Column("low", "low", "{:.3f}".format),
    Column("high", "high", "{:.3f}".format),
    Column("verdict", "verdict"),
    Column("champion", "champion"),
    Column("raced_at", "raced"),
)


def leaderboard(
    goal_id: Annotated[str | None, typer.Argument(help="Only this goal.")] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="Only this workload.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    output: OutputOption = Format.TEXT,
) -> None:
    """Proven finalists with a hold-out interval from a race, and nothing else; the best lower bound first.

    Example: assay leaderboard --workload rms_norm
    """

    async def run() -> list[dict[str, Any]]:
        async with open_views() as views:
            return [plain(row) for row in await views.leaderboard(goal_id, workload, limit)]

    emit_records(asyncio.run(run()), output, COLUMNS, "nothing has been proven and raced yet")
