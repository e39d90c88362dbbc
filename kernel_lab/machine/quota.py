"""How much of the machine this process may honestly use: the cgroup's limits, never the machine's own size.

Threads beyond the quota are throttled in the middle of a measurement (ollama #17916).
"""

import math
from collections.abc import Iterator
from pathlib import Path

from kernel_lab.machine.host import Host, parse_cpu_list

NO_LIMIT_BYTES = 1 << 62
"""cgroup v1 writes `no limit` as the largest number of pages."""


def thread_quota(host: Host, affinity: int) -> int:
    """floor of the tightest limit, at least 1. `affinity` is how many processors the scheduler allows."""
    limits = [float(affinity), *_quotas_v2(host), *_quotas_v1(host)]
    return max(1, math.floor(min(limits)))


def memory_limit_bytes(host: Host) -> int | None:
    """The tightest memory limit of the cgroup and those above it; None without one."""
    paths = _cgroup_paths(host)
    tree = host.sys / "fs" / "cgroup"
    files = (
        *(folder / "memory.max" for folder in _folders(tree, paths.get("", "/"))),
        *(folder / "memory.limit_in_bytes" for folder in _folders(tree / "memory", paths.get("memory", "/"))),
    )
    texts = (host.read(file) or "" for file in files)
    limits = (int(text) for text in texts if text.isdigit())
    return min((limit for limit in limits if limit < NO_LIMIT_BYTES), default=None)


def _cgroup_paths(host: Host) -> dict[str, str]:
    """Controller (empty for v2) to this process's path."""
    paths: dict[str, str] = {}
    for line in (host.read(host.proc / "self" / "cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                paths[controller] = parts[2]
    return paths


def _folders(root: Path, path: str) -> Iterator[Path]:
    """The group's folder and every one above it: each may hold a tighter limit."""
    folder = root / path.lstrip("/")
    while folder != root and root in folder.parents:
        yield folder
        folder = folder.parent
    yield root


def _quotas_v2(host: Host) -> Iterator[float]:
    root = host.sys / "fs" / "cgroup"
    for folder in _folders(root, _cgroup_paths(host).get("", "/")):
        limit = (host.read(folder / "cpu.max") or "").split()
        if len(limit) == 2 and limit[0].isdigit() and limit[1].isdigit():
            yield int(limit[0]) / int(limit[1])
        cpus = parse_cpu_list(host.read(folder / "cpuset.cpus.effective") or "")
        if cpus:
            yield float(len(cpus))


def _quotas_v1(host: Host) -> Iterator[float]:
    paths = _cgroup_paths(host)
    for folder in _folders(host.sys / "fs" / "cgroup" / "cpu", paths.get("cpu", "/")):
        quota, period = host.read(folder / "cpu.cfs_quota_us"), host.read(folder / "cpu.cfs_period_us")
        if quota and period and quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)
