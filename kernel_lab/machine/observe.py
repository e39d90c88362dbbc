"""The preflight of measurement.md, point 0: what could disturb a measurement here, `unknown` where nothing tells."""

import time
from collections.abc import Callable, Mapping
from itertools import pairwise

from kernel_lab.machine.classify import caches
from kernel_lab.machine.host import UNKNOWN, Host
from kernel_lab.machine.quota import memory_limit_bytes
from schemas.measurement import MachineProfile
from schemas.work import MachineClass

_TIMER_READINGS = 200
"""Chosen: enough to see the smallest step of a clock, in microseconds of work."""


def observe(
    machine: MachineClass,
    *,
    host_id: str,
    compiler: str,
    isolation: str,
    fma_gflops: Mapping[str, float],
    copy_gbps: Mapping[str, float],
    noise_floor: float | None,
    fit: bool | None,
    host: Host | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> MachineProfile:
    """The machine's profile: what the kernel tells, around the roofs and the noise floor that were measured."""
    host = host or Host()
    return MachineProfile(
        host=host_id,
        machine=machine,
        compiler=compiler,
        isolation=isolation,
        governor=governor(host),
        smt=smt(host),
        transparent_huge_pages=transparent_huge_pages(host),
        steal=steal(host),
        timer_resolution_ns=timer_resolution_ns(clock_ns),
        caches=caches(host),
        memory_bytes=memory_bytes(host),
        fma_gflops=dict(fma_gflops),
        copy_gbps=dict(copy_gbps),
        noise_floor=noise_floor,
        fit=fit,
    )


def governor(host: Host) -> str:
    """How processor 0's clock is governed."""
    return host.read(host.sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor") or UNKNOWN


def smt(host: Host) -> str:
    """`on`, `off`, `notsupported` or `forceoff`."""
    return host.read(host.sys / "devices/system/cpu/smt/control") or UNKNOWN


def transparent_huge_pages(host: Host) -> str:
    """The chosen one of `always [madvise] never`."""
    text = host.read(host.sys / "kernel/mm/transparent_hugepage/enabled") or ""
    return text.partition("[")[2].partition("]")[0] or UNKNOWN


def steal(host: Host) -> str:
    """Share of all processor time since boot that the hypervisor gave to others, as `0.13 %`."""
    first = (host.read(host.proc / "stat") or "").split("\n", 1)[0].split()
    times = [int(part) for part in first[1:9] if part.isdigit()]
    if first[:1] != ["cpu"] or len(times) < 8 or not sum(times):
        return UNKNOWN
    return f"{100 * times[7] / sum(times):.2f} %"


def memory_bytes(host: Host) -> int:
    """Memory that may be used here: the machine's, within the cgroup's limit; 0 when neither is told."""
    for line in (host.read(host.proc / "meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal" and value.split():
            installed = int(value.split()[0]) * 1024
            return min(installed, memory_limit_bytes(host) or installed)
    return memory_limit_bytes(host) or 0


def timer_resolution_ns(clock_ns: Callable[[], int]) -> float:
    """The smallest step seen between two readings of the clock."""
    readings = [clock_ns() for _ in range(_TIMER_READINGS)]
    steps = [later - earlier for earlier, later in pairwise(readings) if later > earlier]
    return float(min(steps, default=0))
