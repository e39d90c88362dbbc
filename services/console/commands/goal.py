"""`assay goal`: state a goal, watch it, steer it."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.enums import SteerAction
from schemas.events import GoalRefused
from schemas.faults import Misconfigured
from schemas.goal import parse_duration
from schemas.ids import is_token
from services.console import goal_file
from services.console.asking import submit_goal
from services.console.commands import goal_steering
from services.console.commands.goal_steering import GoalArgument, ReasonOption, steer_and_say
from services.console.dry_run import dry_run
from services.console.endpoints import open_log, open_views
from services.console.exits import exit_with
from services.console.output import (
    Column,
    Format,
    OutputOption,
    emit_page,
    emit_record,
    plain,
    say,
    stdout,
)
from services.console.refusals import end_refused
from services.console.waiting import read_routes, waits_for
from services.console.watch import watch_goal
from services.runtime.settings import read_settings

app = typer.Typer(no_args_is_help=True, help="State a goal, watch it, steer it.")

app.command("extend")(goal_steering.extend)
app.command("steer")(goal_steering.steer)
app.command("confirm")(goal_steering.confirm)


@app.command()
def submit(
    file: Annotated[Path | None, typer.Argument(help="Goal file, YAML or JSON.")] = None,
    template: Annotated[
        str | None,
        typer.Option(help="A goal that comes with Assay, by name.", autocompletion=goal_file.template_names),
    ] = None,
    goal_id: Annotated[
        str | None, typer.Option("--id", help="Your own id: the same id and content is one goal.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow it to its end. Ctrl-C never cancels the goal.")
    ] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Print the goal with every default, and what it costs; submit nothing.")
    ] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Publish a goal and wait until the desk has accepted or refused it.

    Example: assay goal submit --template rms_norm_cpu --watch
    """
    if (file is None) == (template is None):
        raise Misconfigured(f"give a FILE or --template NAME; templates: {', '.join(goal_file.template_names())}")
    path = file or goal_file.template(template or "")
    goal = goal_file.load(path)
    if dry:
        dry_run(path, goal_file.request_body(goal), read_settings(), output)
        return
    chosen = goal_id or goal_file.new_goal_id(goal)
    if not is_token(chosen):
        raise Misconfigured(f"--id {chosen!r}: use 1 to 64 letters, digits, - and _")
    accepted = asyncio.run(submit_goal(read_settings(), chosen, goal_file.request_body(goal)))
    if isinstance(accepted, GoalRefused):
        end_refused(f"goal {chosen} was refused", accepted.problems, output)
    if not watch:
        emit_record({"goal_id": chosen, "status": "accepted"}, output, lambda: stdout().print(chosen))
        return
    say(f"goal {chosen} accepted")
    exit_with(watch_goal(chosen, output, None))


@app.command()
def pause(
    goal_id: GoalArgument, reason: ReasonOption = "paused by a person", output: OutputOption = Format.TEXT
) -> None:
    """Nothing new becomes due; work in flight finishes. Paused time does not count.

    Example: assay goal pause my-goal --reason "the machine is needed"
    """
    steer_and_say(goal_id, SteerAction.PAUSE, reason, output)


@app.command()
def resume(
    goal_id: GoalArgument, reason: ReasonOption = "resumed by a person", output: OutputOption = Format.TEXT
) -> None:
    """A paused goal goes on.

    Example: assay goal resume my-goal
    """
    steer_and_say(goal_id, SteerAction.RESUME, reason, output)


@app.command()
def stop(
    goal_id: GoalArgument, reason: ReasonOption = "stopped by a person", output: OutputOption = Format.TEXT
) -> None:
    """The search ends after the work in flight; finals still decide.

    Example: assay goal stop my-goal --reason "good enough"
    """
    steer_and_say(goal_id, SteerAction.STOP, reason, output)


@app.command()
def cancel(
    goal_id: GoalArgument, reason: ReasonOption = "cancelled by a person", output: OutputOption = Format.TEXT
) -> None:
    """The goal ends at once, running work is killed, nothing is crowned.

    Example: assay goal cancel my-goal --reason "wrong shapes"
    """
    steer_and_say(goal_id, SteerAction.CANCEL, reason, output)


@app.command()
def watch(
    goal_id: GoalArgument,
    timeout: Annotated[str | None, typer.Option(help="Give up watching after this long, e.g. 10m (exit 3).")] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Follow a goal to its end. Ctrl-C stops watching, never the goal.

    Example: assay goal watch my-goal --timeout 10m
    """
    exit_with(watch_goal(goal_id, output, None if timeout is None else seconds(timeout)))


def seconds(text: str) -> float:
    """The duration in `text`, e.g. `90s` or `10m`. Raises Misconfigured."""
    try:
        return float(str(parse_duration(text)))
    except ValueError as error:
        raise Misconfigured(str(error)) from error


COLUMNS = (
    Column("goal_id", "goal"),
    Column("workload", "workload"),
    Column("route", "route"),
    Column("phase", "phase"),
    Column("generation", "generation"),
    Column("proposed", "proposed"),
    Column("rejected", "rejected"),
    Column("best_search_ratio", "best (search)", "{:.3f}×".format),
    Column("outcome", "outcome"),
    Column("ended_by", "ended by"),
)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, help="At most this many, the newest first.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Leave out this many first.")] = 0,
    output: OutputOption = Format.TEXT,
) -> None:
    """Goals, the newest first.

    Example: assay goal list --limit 5 -o csv
    """

    async def run() -> list[dict[str, Any]]:
        async with open_views() as views:
            return [plain(row) for row in await views.goals(limit=limit + 1, offset=offset)]

    empty = "no goals yet; `assay goal submit --template rms_norm_cpu`"
    emit_page(asyncio.run(run()), limit, offset, output, COLUMNS, empty)


@app.command()
def show(goal_id: GoalArgument, output: OutputOption = Format.TEXT) -> None:
    """How far a goal has come, and what it waits for. `assay champion report` has the whole story.

    Example: assay goal show my-goal -o json
    """

    async def run() -> dict[str, Any]:
        async with open_views() as views, open_log() as log:
            found = await views.goals(goal_id)
            if not found:
                known = ", ".join(row["goal_id"] for row in await views.goals(limit=10))
                raise Misconfigured(f"no goal {goal_id!r}; there are: {known or 'none yet'}")
            return plain(found[0]) | {"waits_for": waits_for(found[0], await read_routes(log))}

    record = asyncio.run(run())
    emit_record(record, output, lambda: _show_text(record))


def _show_text(record: dict[str, Any]) -> None:
    for key, value in record.items():
        if value is not None:
            stdout().print(f"{key.replace('_', ' '):>18}  {value}", markup=False)
