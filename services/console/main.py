"""The `assay` command: one typer application, one place where faults become exit statuses."""

import logging
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from io import TextIOWrapper

import structlog
import typer

from schemas.faults import Fault
from services.console.output import say

COMMANDS = "services.console.commands"
GROUPS = (
    "goal",
    "candidate",
    "champion",
    "counterexample",
    "events",
    "epoch",
    "stream",
    "key",
    "machine",
    "workload",
    "parked",
    "credentials",
    "ptx",
)
"""Modules whose `app` is a group of their own name."""
SINGLE = {
    "leaderboard": "champion",
    "diff": "lineage",
    "lineage": "lineage",
    "lessons": "lessons",
    "demo": "demo",
    "replay": "replay",
    "up": "factory",
    "down": "factory",
    "status": "factory",
    "logs": "factory",
    "doctor": "doctor",
    "worker": "worker",
}
"""Commands at the top level, and the module that has a function of their name."""


def application(wanted: str | None = None) -> typer.Typer:
    """The command line; only with the command `wanted` when there is one of that name: importing all takes two seconds
    of a core, importing one a part of that."""
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="A kernel factory that keeps only what it can prove.",
        epilog="Start with `assay demo`. Exit statuses: 0 ok, 1 failed or rejected, 2 usage, 3 wait timed out, "
        "4 not allowed, 5 ended without a proven improvement, 6 evidence broken, 7 dependency down, 8 no verdict, "
        "9 machine unfit or measurement invalid, 130 Ctrl-C.",
    )
    app.callback()(lambda: None)  # a single command would otherwise lose its name
    everything = wanted not in GROUPS and wanted not in SINGLE
    for name in GROUPS:
        if everything or name == wanted:
            app.add_typer(import_module(f"{COMMANDS}.{name}").app, name=name)
    for name, module in SINGLE.items():
        if everything or name == wanted:
            app.command(name)(getattr(import_module(f"{COMMANDS}.{module}"), name))
    return app


def command() -> Callable[[], None]:
    """What the command line asks for, imported and ready to run. A fault is one line on stderr and its exit status,
    never a traceback."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, TextIOWrapper):
            output.reconfigure(errors="backslashreplace")  # a formula's √ on a terminal of another age
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `assay events list | head` ends quietly
    app = application(sys.argv[1] if len(sys.argv) > 1 else None)

    def run() -> None:
        try:
            app()
        except Fault as fault:
            say(f"assay: {fault}")
            sys.exit(fault.exit_status)

    return run
