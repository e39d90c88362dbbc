"""A factory of a benchmark's own: real NATS, real Postgres, five services, a fresh data folder on this disk."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.benchmark import Say
from benchmarks.circumstances import ROOT
from schemas.envelope import Recorded
from schemas.events import GoalRefused, MachineObserved, RouteAvailable
from schemas.faults import Misconfigured, Transient
from services.console.asking import submit_goal
from services.console.endpoints import open_log
from services.console.processes import start_factory
from services.console.progress import Progress
from services.console.watch import follow, plain_line
from services.runtime.settings import LogLevel, Settings, read_settings

FOLDER = ROOT / ".assay"
"""Beside the demos' data: on a disk, so that `sync always` costs what it costs."""
POLL_S = 0.5


@dataclass(frozen=True)
class Factory:
    """A running one."""

    settings: Settings
    pid: int
    """The supervisor's."""

    def ready(self, routes: int) -> None:
        """`routes` routes are available, so every service has started."""
        asyncio.run(self._ready(routes))

    async def _ready(self, routes: int, timeout_s: float = 300.0) -> None:
        async with asyncio.timeout(timeout_s), open_log(self.settings) as log:
            while True:
                found = [recorded async for recorded in log.read(types=(RouteAvailable,))]
                if len(found) >= routes:
                    return
                await asyncio.sleep(POLL_S)

    def run_goal(self, goal_id: str, goal: dict[str, Any], timeout_s: float, say: Say) -> tuple[Recorded[Any], ...]:
        """Every fact of the goal, in log order, once it has completed."""
        return asyncio.run(self._run_goal(goal_id, goal, timeout_s, say))

    async def _run_goal(
        self, goal_id: str, goal: dict[str, Any], timeout_s: float, say: Say
    ) -> tuple[Recorded[Any], ...]:
        answer = await submit_goal(self.settings, goal_id, json.dumps(goal).encode())
        if isinstance(answer, GoalRefused):
            raise Misconfigured(f"{goal_id} was refused: {answer.problems}")
        say(f"{goal_id}: accepted")
        async with open_log(self.settings) as log:
            progress = await follow(log, goal_id, _telling(say), timeout_s)
            if not progress.completed:
                raise Transient(f"{goal_id} did not end within {timeout_s:.0f} s")
            say(f"{goal_id}: {progress.outcome}: {progress.message}")
            return tuple([recorded async for recorded in log.read(goal_id=goal_id)])

    def observed(self) -> tuple[Recorded[Any], ...]:
        """What the benchmarkers said of their machines."""

        async def read() -> tuple[Recorded[Any], ...]:
            async with open_log(self.settings) as log:
                return tuple([recorded async for recorded in log.read(types=(MachineObserved,))])

        return asyncio.run(read())


def _telling(say: Say) -> Callable[[Progress], None]:
    """Says how far a goal is whenever its phase or generation changes."""
    last: tuple[str, int] | None = None

    def show(progress: Progress) -> None:
        nonlocal last
        if (progress.phase, progress.generation) != last:
            last = (progress.phase, progress.generation)
            say(plain_line(progress))

    return show


@contextmanager
def running_factory(*, null_route: bool, log_level: LogLevel = "info") -> Iterator[Factory]:
    """A factory that is ready for goals. Nothing of it is left afterwards."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="bench-") as folder:
        settings = read_settings(data_dir=Path(folder), null_route=null_route, log_level=log_level)
        started = start_factory(settings, {}, tied=True)
        try:
            factory = Factory(settings, started.process.pid)
            factory.ready(2 if null_route else 1)
            yield factory
        finally:
            started.stop()
