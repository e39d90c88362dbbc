"""What a running factory costs: processor seconds and memory of each of its processes, from /proc (proc(5))."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
EFFECT = "services.runtime.effect_child"
SERVICE = "services."


@dataclass(frozen=True)
class Process:
    """One live process of a factory."""

    pid: int
    parent: int
    label: str
    """A service, `<service> effect`, `nats`, `postgres`, or `factory`."""
    cpu_s: float
    """User and system, its ended children's included."""


def processes_of(supervisor: int) -> tuple[Process, ...]:
    """The supervisor and everything below it, parents first."""
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, Process] = {}
    waiting = [supervisor]
    while waiting:
        pid = waiting.pop()
        above = found.get(parents.get(pid, 0))
        if (process := _process(pid, above)) is not None:
            found[pid] = process
        waiting += children.get(pid, [])
    return tuple(found.values())


def cpu_by_label(processes: tuple[Process, ...]) -> dict[str, float]:
    """Processor seconds so far, summed over processes of the same label."""
    spent: dict[str, float] = {}
    for process in processes:
        spent[process.label] = spent.get(process.label, 0.0) + process.cpu_s
    return spent


def spent_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Processor seconds by label, the greatest first."""
    spent = {label: round(after[label] - before.get(label, 0.0), 3) for label in after}
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Memory:
    """Resident megabytes (10^6 bytes). `proportional_mb` counts shared pages once over all who share them."""

    resident_mb: float
    proportional_mb: float


def memory_of(pid: int) -> Memory:
    """What `pid` holds now."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return Memory(_mb(rows["Rss"]), _mb(rows["Pss"]))


def _mb(text: str) -> float:
    return round(int(text.split(maxsplit=1)[0]) * 1024 / 1e6, 1)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _fields(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from `state` (3) on; none when the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def _process(pid: int, above: Process | None) -> Process | None:
    fields = _fields(pid)
    if not fields:
        return None
    spent = sum(map(int, fields[11:15])) / TICKS_PER_S
    return Process(pid, int(fields[1]), _label(pid, above), spent)


def _label(pid: int, above: Process | None) -> str:
    if above is None:
        return "factory"
    words = _words(pid)
    named = next((word for word in words if word.startswith(SERVICE)), None)
    if named == EFFECT:
        return f"{above.label} effect"
    if named is not None:
        return named.removeprefix(SERVICE)
    if above.label != "factory":
        return above.label
    return "nats" if any("nats-server" in word for word in words) else "postgres"


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
