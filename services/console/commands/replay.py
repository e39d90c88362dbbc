"""`assay replay`: the world as it was, views and decisions recomputed, history re-emitted. No effect fires."""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kernel_lab.spaces.installed import load_spaces
from schemas.faults import Misconfigured
from services.console.commands.candidate import COLUMNS as CANDIDATE_COLUMNS
from services.console.commands.champion import COLUMNS as LEADERBOARD_COLUMNS
from services.console.commands.goal import COLUMNS as GOAL_COLUMNS
from services.console.endpoints import open_bus, open_log, open_views
from services.console.exits import Exit, exit_with
from services.console.output import (
    Column,
    Format,
    OutputOption,
    Record,
    emit_record,
    emit_records,
    plain,
    progress_steps,
    say,
    stdout,
)
from services.console.replaying.decisions import Audited, audit_decisions
from services.console.replaying.publishing import History, publish_history, replay_subject
from services.evidence.past import World, position_of, read_world
from services.evidence.view_check import Checked, Projection, check_projection
from services.runtime.bus import FACTS_STREAM
from services.runtime.settings import read_settings

DIFFERENCES_SHOWN = 20
"""In text; `-o json` has them all. Chosen: a screen."""
TABLES: Mapping[Projection, Sequence[Column]] = {
    Projection.GOALS: GOAL_COLUMNS,
    Projection.CANDIDATES: CANDIDATE_COLUMNS,
    Projection.LEADERBOARD: LEADERBOARD_COLUMNS,
}


def replay(
    to: Annotated[str | None, typer.Option("--to", help="A position, or a time as in 2026-11-30T12:00.")] = None,
    goal: Annotated[str | None, typer.Option("--goal", help="Only this goal.")] = None,
    projection: Annotated[
        str | None, typer.Option("--projection", help=f"Only this view: {', '.join(Projection)}.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Rebuild the view beside the live one and compare. Exit 6 if they differ.")
    ] = False,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Take every decision again and compare. Exit 6 if one differs.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Send the facts again, on subjects of the replay's own.")
    ] = False,
    speed: Annotated[
        float | None,
        typer.Option("--speed", min=0.0, help="With --publish: times as fast as it was; 0 waits for nothing."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="With --publish: the replay's name.")] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """The world as it was at a position or time: goals, leaderboard, routes; with --goal its candidates.

    Nothing happens again: a replay reads the log and starts no work. With --projection and --check it compares a live
    view with one rebuilt from the log; with --decisions it recomputes every decision of curator and proposer; with
    --publish it sends the facts to listeners of assay.replay.NAME.> and to nobody else.

    Example: assay replay --to 2026-11-30T12:00 --goal my-goal
    """
    _require_one_mode(check=check, decisions=decisions, publish=publish)
    wanted, view = _moment(to), _projection(projection)
    if not publish and (speed is not None or name is not None):
        raise Misconfigured("--speed and --name belong to --publish")
    if check:
        asyncio.run(_check(view, wanted, goal, output))
    elif decisions:
        asyncio.run(_decisions(wanted, goal, output))
    elif publish:
        asyncio.run(_publish(wanted, goal, 1.0 if speed is None else speed, name, output))
    else:
        asyncio.run(_show(wanted, goal, view, output))


def _require_one_mode(**modes: bool) -> None:
    asked = [f"--{name}" for name, given in modes.items() if given]
    if len(asked) > 1:
        raise Misconfigured(f"{' and '.join(asked)} are different replays: ask for one at a time")


def _moment(text: str | None) -> int | datetime | None:
    """A position or a time; without a zone it is UTC. Raises Misconfigured."""
    if text is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misconfigured(f"--to {text!r}: give a position, or a time as in 2026-11-30T12:00 (UTC)") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _projection(text: str | None) -> Projection | None:
    try:
        return Projection(text) if text is not None else None
    except ValueError:
        raise Misconfigured(f"no projection {text!r}; there are: {', '.join(Projection)}") from None


# ---- the world -----------------------------------------------------------------------------------------------------


async def _show(wanted: int | datetime | None, goal: str | None, view: Projection | None, output: Format) -> None:
    async with open_log() as log:
        position = await position_of(log, wanted)
        with progress_steps() as step:
            world = await read_world(log, position, lambda done, of: step("folding", done, of))
    goals = [plain(row) for row in world.views.goals(goal)]
    raced = [plain(row) for row in world.views.leaderboard(goal)]
    if goal is not None and not goals:
        raise Misconfigured(
            f"there was no goal {goal!r} at position {position}; `assay replay --to {position}` shows all"
        )
    tables: dict[Projection, list[Record]] = {Projection.GOALS: list(goals), Projection.LEADERBOARD: list(raced)}
    if goal is not None or view is Projection.CANDIDATES:
        tables[Projection.CANDIDATES] = [plain(row) for row in world.views.candidates(goal)]
    _warn_of_unreadable(world.unreadable)
    if view is not None:
        emit_records(tables[view], output, TABLES[view], f"no {view} at position {position}")
        return
    record = _world_record(world) | {table.value: rows for table, rows in tables.items()}
    emit_record(record, output, lambda: _show_world(world, tables))


def _world_record(world: World) -> dict[str, Any]:
    return {
        "position": world.position,
        "recorded_at": world.recorded_at.isoformat(),
        "hash": world.hash.hex(),
        "unreadable": dict(world.unreadable),
        "routes": {route: seen.available for route, seen in world.routes.routes.items()},
    }


def _show_world(world: World, tables: Mapping[Projection, Sequence[Record]]) -> None:
    out = stdout()
    out.print(f"position {world.position}, recorded {world.recorded_at.isoformat()}", markup=False)
    out.print(f"hash     {world.hash.hex()}", markup=False)
    routes = [f"{route} {'available' if seen.available else 'lost'}" for route, seen in world.routes.routes.items()]
    out.print(f"routes   {', '.join(sorted(routes))}", markup=False)
    for table, rows in tables.items():
        out.print(f"\n{table.value}", markup=False)
        emit_records(rows, Format.TEXT, TABLES[table], f"no {table.value} at position {world.position}")


def _warn_of_unreadable(unreadable: Mapping[str, int]) -> None:
    for type_, count in unreadable.items():
        say(f"{count} × {type_} took no part: this Assay cannot read it (kept raw in the log)")


# ---- the views -----------------------------------------------------------------------------------------------------


async def _check(view: Projection | None, wanted: int | datetime | None, goal: str | None, output: Format) -> None:
    if view is None:
        raise Misconfigured(f"--check compares one view: add --projection, one of {', '.join(Projection)}")
    if wanted is not None or goal is not None:
        raise Misconfigured("--check compares the whole live view as it stands now; leave out --to and --goal")
    async with open_log() as log, open_views() as views:
        with progress_steps() as step:
            done = await check_projection(log, views, view, lambda row, of: step("rebuilding", row, of))
    record = {
        "projection": done.projection.value,
        "position": done.position,
        "rows": done.rows,
        "same": not done.differences,
        "differences": [plain(asdict(one)) for one in done.differences],
    }
    emit_record(record, output, lambda: _show_check(done))
    if done.differences:
        exit_with(Exit.EVIDENCE_BROKEN)


def _show_check(done: Checked) -> None:
    out = stdout()
    if not done.differences:
        out.print(f"{done.projection} is what the log says at position {done.position}: {done.rows} rows, all the same")
        return
    out.print(f"{done.projection} DIFFERS from the log at position {done.position}", markup=False)
    for one in done.differences[:DIFFERENCES_SHOWN]:
        what = one.column or ("a row that no fact made" if one.rebuilt is None else "a row that is missing")
        values = f": {one.live!r}, and the log says {one.rebuilt!r}" if one.column else ""
        out.print(f"  {one.row}  {what}{values}", markup=False)
    _show_more(len(done.differences))
    say("views are folds: restart the librarian after `DROP TABLE views.checkpoint`, and it makes them anew")


def _show_more(count: int) -> None:
    if count > DIFFERENCES_SHOWN:
        say(f"… and {count - DIFFERENCES_SHOWN} more; -o json has them all")


# ---- the decisions -------------------------------------------------------------------------------------------------


async def _decisions(wanted: int | datetime | None, goal: str | None, output: Format) -> None:
    spaces = load_spaces(read_settings().extra_spaces)
    async with open_log() as log:
        position = await position_of(log, wanted)
        with progress_steps() as step:
            done = await audit_decisions(log, spaces, position, goal, lambda row, of: step("deciding again", row, of))
    _warn_of_unreadable(done.unreadable)
    record = {
        "position": done.position,
        "recomputed": dict(done.recomputed),
        "same": not done.findings,
        "differing": [plain(asdict(one)) for one in done.findings],
        "unreadable": dict(done.unreadable),
    }
    emit_record(record, output, lambda: _show_decisions(done))
    if done.findings:
        exit_with(Exit.EVIDENCE_BROKEN)


def _show_decisions(done: Audited) -> None:
    out = stdout()
    total = sum(done.recomputed.values())
    if not done.findings:
        out.print(f"{total} decisions up to position {done.position} taken again: each follows from the log before it")
    else:
        out.print(f"{len(done.findings)} of {total} decisions do NOT follow from the log before them", markup=False)
    for one in done.findings[:DIFFERENCES_SHOWN]:
        out.print(f"  {one.position}  {one.type}  {one.id}  {one.message}", markup=False)
    _show_more(len(done.findings))
    for type_, count in sorted(done.recomputed.items()):
        out.print(f"  {count:>6} {type_}", markup=False)


# ---- the history ---------------------------------------------------------------------------------------------------


async def _publish(
    wanted: int | datetime | None, goal: str | None, speed: float, name: str | None, output: Format
) -> None:
    under = replay_subject(name or f"r{secrets.token_hex(3)}")
    async with open_log() as log, open_bus() as bus:
        position = await position_of(log, wanted)
        say(f"sending under {under}.>")
        began = time.monotonic()
        with progress_steps() as step:
            history = History(log, position, goal)
            sent = await publish_history(history, bus, under, speed, lambda row, of: step("sending", row, of))
        await bus.state(FACTS_STREAM)  # the server has answered, so it has all that was sent before
        record = {"under": under, "facts": sent, "to": position, "seconds": round(time.monotonic() - began, 3)}
    emit_record(record, output, lambda: stdout().print(f"{sent} facts sent under {under}.>", markup=False))
