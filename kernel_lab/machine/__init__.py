"""What machine this is, and what could disturb a measurement on it."""

from kernel_lab.machine.classify import caches, compiler_accepts, llc_bytes, machine_class, machine_route, route_of
from kernel_lab.machine.host import UNKNOWN, Host
from kernel_lab.machine.observe import observe
from kernel_lab.machine.quota import memory_limit_bytes, thread_quota

__all__ = [
    "UNKNOWN",
    "Host",
    "caches",
    "compiler_accepts",
    "llc_bytes",
    "machine_class",
    "machine_route",
    "memory_limit_bytes",
    "observe",
    "route_of",
    "thread_quota",
]
