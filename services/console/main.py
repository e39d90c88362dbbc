"""The `assay` command: one typer application, one place where faults become exit statuses."""

import logging
import signal
import sys
from io import TextIOWrapper

import structlog
import typer

from schemas.faults import Fault
from services.console.commands import (
    candidate,
    champion,
    counterexample,
    credentials,
    demo,
    epoch,
    events,
    factory,
    goal,
    key,
    lessons,
    lineage,
    machine,
    parked,
    ptx,
    replay,
    stream,
    workload,
)
from services.console.output import say

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A kernel factory that keeps only what it can prove.",
    epilog="Start with `assay demo`. Exit statuses: 0 ok, 1 failed or rejected, 2 usage, 3 wait timed out, "
    "4 not allowed, 5 ended without a proven improvement, 6 evidence broken, 7 dependency down, 8 no verdict, "
    "9 machine unfit or measurement invalid, 130 Ctrl-C.",
)
app.add_typer(goal.app, name="goal")
app.add_typer(candidate.app, name="candidate")
app.add_typer(champion.app, name="champion")
app.add_typer(counterexample.app, name="counterexample")
app.add_typer(events.app, name="events")
app.add_typer(epoch.app, name="epoch")
app.add_typer(stream.app, name="stream")
app.add_typer(key.app, name="key")
app.add_typer(machine.app, name="machine")
app.add_typer(workload.app, name="workload")
app.add_typer(parked.app, name="parked")
app.add_typer(credentials.app, name="credentials")
app.add_typer(ptx.app, name="ptx")
app.command("leaderboard")(champion.leaderboard)
app.command("diff")(lineage.diff)
app.command("lineage")(lineage.lineage)
app.command("lessons")(lessons.lessons)
app.command("demo")(demo.demo)
app.command("replay")(replay.replay)
factory.register(app)


def run() -> None:
    """Runs the command line. A fault is one line on stderr and its exit status, never a traceback."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, TextIOWrapper):
            output.reconfigure(errors="backslashreplace")  # a formula's √ on a terminal of another age
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `assay events list | head` ends quietly
    try:
        app()
    except Fault as fault:
        say(f"assay: {fault}")
        sys.exit(fault.exit_status)
