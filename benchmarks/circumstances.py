"""Where and when a figure was measured: without it a number means nothing."""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kernel_lab.machine import machine_class

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Circumstances:
    """The machine, its load before the benchmark began, and the code."""

    route: str
    model: str
    cores: int
    kernel: str
    load_1m: float
    date: str
    commit: str
    """Of the working tree; `+` when it had changes."""


def circumstances() -> Circumstances:
    """As they are now."""
    machine = machine_class()
    return Circumstances(
        route=machine.route,
        model=machine.model,
        cores=machine.threads,
        kernel=platform.release(),
        load_1m=round(os.getloadavg()[0], 2),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_commit(),
    )


def _commit() -> str:
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return (head or "unknown") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()
