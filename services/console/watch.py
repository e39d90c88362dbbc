"""Following a goal: a live table on a terminal, plain lines elsewhere, JSON lines for scripts."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from rich.live import Live
from rich.table import Table

from schemas.enums import Outcome
from schemas.events import GoalAccepted
from schemas.faults import Misconfigured
from services.console.endpoints import open_log
from services.console.exits import Exit
from services.console.output import Format, emit_lines, say, stderr
from services.console.progress import Progress
from services.console.waiting import a_machine_for
from services.evidence.log import Log
from services.evidence.routes_state import ROUTE_FACTS, RoutesState, evolve

POLL_S = 0.5
"""Chosen: each look costs the machine that is being measured a hundredth of a core."""
Show = Callable[[Progress], None]


def watch_goal(goal_id: str, output: Format, timeout_s: float | None) -> Exit:
    """Follows `goal_id` until it ends or `timeout_s` has passed, and says how it ended as an exit status."""
    return asyncio.run(_watch(goal_id, output, timeout_s))


async def _watch(goal_id: str, output: Format, timeout_s: float | None) -> Exit:
    async with open_log() as log:
        progress = await follow_visibly(log, goal_id, output, timeout_s)
    if not progress.completed:
        say(f"{goal_id} is still {progress.phase}; it goes on without you")
        return Exit.WAIT_TIMED_OUT
    if output is Format.TEXT:
        say(f"{goal_id}: {progress.outcome} (ended by {progress.ended_by}). {progress.message}")
        say(f"`assay champion show {goal_id}` has the report")
    return exit_of(progress.outcome)


async def follow_visibly(log: Log, goal_id: str, output: Format, timeout_s: float | None = None) -> Progress:
    """`follow`, shown as a live table on a terminal, else as lines."""
    if output is not Format.TEXT or not stderr().is_terminal:
        return await follow(log, goal_id, _printer(output), timeout_s)
    with Live(console=stderr(), refresh_per_second=4) as live:
        return await follow(log, goal_id, lambda progress: live.update(table(progress)), timeout_s)


def exit_of(outcome: Outcome | None) -> Exit:
    """The exit status that an outcome means."""
    match outcome:
        case Outcome.CHAMPION:
            return Exit.OK
        case Outcome.NO_VERIFIED_IMPROVEMENT | Outcome.INCONCLUSIVE:
            return Exit.NO_IMPROVEMENT
        case Outcome.NONE | None:
            return Exit.FAILED


async def follow(log: Log, goal_id: str, show: Show, timeout_s: float | None = None) -> Progress:
    """The goal's progress when it ended, or when `timeout_s` had passed. Raises Misconfigured for an unknown goal."""
    progress, position, machines = Progress(goal_id), 0, Machines(log)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        async for recorded in log.read(position, goal_id=goal_id):
            progress.add(recorded)
            position = recorded.position
        if position == 0:
            raise await _unknown(log, goal_id)
        progress.waits_for = await machines.awaited_by(progress)
        show(progress)
        if progress.completed or (deadline is not None and time.monotonic() >= deadline):
            return progress
        await asyncio.sleep(POLL_S)


class Machines:
    """The machines that the log has seen, read on from where the last look ended."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._routes = RoutesState()
        self._position = 0

    async def awaited_by(self, progress: Progress) -> str | None:
        """What a goal that has no route yet waits for; other goals cost no look."""
        if progress.goal is None or progress.route is not None or progress.completed:
            return None
        async for recorded in self._log.read(self._position, types=ROUTE_FACTS):
            self._routes, self._position = evolve(self._routes, recorded), recorded.position
        return a_machine_for(progress.goal.target, self._routes)


async def _unknown(log: Log, goal_id: str) -> Misconfigured:
    known = [recorded.envelope.goal_id or "" async for recorded in log.read(types=(GoalAccepted,))]
    return Misconfigured(
        f"no goal {goal_id!r}; there are: {', '.join(known[-10:]) or 'none yet (`assay goal submit`)'}"
    )


def _printer(output: Format) -> Show:
    """Says each change once: JSON lines on stdout, or plain lines on stderr."""
    last = ""

    def show(progress: Progress) -> None:
        nonlocal last
        line = plain_line(progress)
        if line == last:
            return
        last = line
        if output is Format.TEXT:
            say(line)
        else:
            emit_lines([progress.record()])

    return show


def plain_line(progress: Progress) -> str:
    """Progress in one line."""
    best = f"{progress.best_search_ratio:.3f}× search" if progress.best_search_ratio else "none yet"
    return (
        f"{phase_text(progress)} · generation {progress.generation} · proposed {progress.proposed}"
        f" · compiled {progress.compiled} · verified {progress.verified} · measured {progress.measured}"
        f"{f' ({progress.remeasured} again)' if progress.remeasured else ''}"
        f" · rejected {progress.rejected.total()} · best {best}"
    )


def phase_text(progress: Progress) -> str:
    """Where the goal is, whether it is paused, and what it waits for."""
    paused = " (paused)" if progress.paused else ""
    return f"{progress.phase}{paused}" + (f" ({progress.waits_for})" if progress.waits_for else "")


def table(progress: Progress) -> Table:
    """Progress as a live table."""
    rows = Table(title=f"goal {progress.goal_id}", title_justify="left", show_header=False, box=None)
    rows.add_row("phase", phase_text(progress))
    rows.add_row("generation", str(progress.generation))
    searched = progress.proposed - progress.submitted
    left = f", {max(0, progress.goal.budget.candidates - searched)} left" if progress.goal else ""
    submitted = f", {progress.submitted} of them submitted" if progress.submitted else ""
    rows.add_row("proposed", f"{progress.proposed}{submitted}{left}")
    rows.add_row("compiled", str(progress.compiled))
    rows.add_row("verified", str(progress.verified))
    rows.add_row("measured", f"{progress.measured}, and {progress.remeasured} times again for longer")
    reasons = ", ".join(f"{reason} {count}" for reason, count in progress.rejected.most_common())
    rows.add_row("rejected", f"{progress.rejected.total()} {f'({reasons})' if reasons else ''}")
    rows.add_row("best so far", f"{progress.best_search_ratio:.3f}× (search)" if progress.best_search_ratio else "-")
    rows.add_row("finalists", f"{progress.nominated} nominated, {progress.proven} proven")
    rows.add_row("search time", _search_time(progress))
    return rows


def _search_time(progress: Progress) -> str:
    if progress.goal is None:
        return "-"
    spent_s = progress.search_time_s(datetime.now(UTC))
    return f"{spent_s:.0f} s, {max(0.0, progress.goal.budget.wall - spent_s):.0f} s left"
