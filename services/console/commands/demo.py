"""`assay demo`: one goal, five services, a proven champion, an audited log."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from schemas.events import GoalRefused
from schemas.faults import Broken, Fault, Misconfigured
from services.console import goal_file
from services.console.asking import submit_goal
from services.console.commands.champion import read_report
from services.console.demo_folder import fresh_demo_folder
from services.console.endpoints import open_log
from services.console.output import Format, OutputOption, emit_record, say, stdout
from services.console.processes import start_factory
from services.console.rejudge import Rejudged, rejudge_champion
from services.console.render import render
from services.console.report_model import GoalReport
from services.console.trust import trust_of
from services.console.verification import verification_record, verification_text
from services.console.watch import follow_visibly
from services.evidence.verify import Verification, verify
from services.runtime.settings import Settings, read_settings

ROOT = Path(".assay")
TEMPLATE = "rms_norm_cpu"


def demo(
    goal: Annotated[Path | None, typer.Option(help=f"Another goal file than the template {TEMPLATE}.")] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """One goal, five services, a proven champion, an audited log: about three minutes on two cores.

    Starts a real NATS, a real Postgres and the five services in a fresh folder .assay/demo-<n>, publishes a goal,
    shows its progress and report, verifies the whole log, judges the champion again from the log alone, and stops
    everything. Exit 0 also when nothing beats the baseline, which the report then says plainly.

    Example: assay demo -o json > demo.json
    """
    path = goal or goal_file.template(TEMPLATE)
    body = goal_file.request_body(goal_file.load(path))
    settings = read_settings(data_dir=fresh_demo_folder(ROOT).absolute())
    say(f"starting NATS, Postgres and five services in {settings.data_dir}")
    with _running_factory(settings):
        asyncio.run(_demonstrate(settings, path, body, output))


@contextmanager
def _running_factory(settings: Settings) -> Iterator[None]:
    factory = start_factory(settings, {}, tied=True)
    try:
        yield
    finally:
        factory.stop()
        say("everything is stopped; the evidence stays in the folder")


async def _demonstrate(settings: Settings, path: Path, body: bytes, output: Format) -> None:
    say(f"publishing {path.name}")
    accepted = await submit_goal(settings, "demo", body)
    if isinstance(accepted, GoalRefused):
        problems = "; ".join(f"{problem.path}: {problem.message}" for problem in accepted.problems)
        raise Misconfigured(f"the goal was refused: {problems}")
    async with open_log(settings) as log:
        await follow_visibly(log, "demo", Format.TEXT)
        report = await read_report(log, "demo")
        verification = await verify(log, trust=trust_of(settings))
        rejudged = await rejudge_champion(log, "demo", settings)
    record = {
        "report": report.model_dump(mode="json"),
        "verification": verification_record(verification),
        "rejudged": rejudged.record() if rejudged else None,
        "data": str(settings.data_dir),
    }
    emit_record(record, output, lambda: _print(report, verification, rejudged))
    if verification.first_break:
        raise Broken(verification_text(verification))
    if rejudged and not rejudged.stands:
        raise Fault("the champion did not stand when it was judged again")


def _print(report: GoalReport, verification: Verification, rejudged: Rejudged | None) -> None:
    stdout().print(render(report))
    stdout().print(verification_text(verification), markup=False)
    stdout().print(rejudged.text() if rejudged else "no champion to judge again", markup=False)
