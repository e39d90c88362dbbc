"""Which machine class this is: what code generation must know, and the route that work for it takes."""

import hashlib
import os
import platform
import subprocess

from kernel_lab.machine.host import UNKNOWN, Host, parse_size
from kernel_lab.machine.isa import Accepts, vector_bits, x86_features, x86_level
from kernel_lab.machine.quota import thread_quota
from kernel_lab.sandbox.native import find_compiler
from schemas.ids import CPU_PREFIX, Route
from schemas.measurement import CacheLevel
from schemas.work import MachineClass

DEFAULT_LLC_BYTES = 32 << 20
"""Where the host does not tell (some virtual machines). Chosen: a large one, so that `cold` stays cold."""


def machine_class(
    host: Host | None = None,
    *,
    architecture: str | None = None,
    affinity: int | None = None,
    accepts: Accepts | None = None,
) -> MachineClass:
    """This machine's class. What is read from the host can be given instead. Raises Misconfigured with no compiler."""
    host = host or Host()
    architecture = architecture or platform.machine()
    fields = host.cpu_fields()
    march = "armv8-a"
    features: tuple[str, ...] = ()
    if architecture == "x86_64":
        flags = set(fields.get("flags", "").split())
        march = x86_level(flags)
        features = x86_features(flags, march, accepts or compiler_accepts)
    model = _model(fields)
    return MachineClass(
        route=route_of(architecture, model, march, features),
        architecture=architecture,
        model=model,
        march=march,
        features=features,
        vector_bits=vector_bits(march),
        threads=thread_quota(host, affinity or len(os.sched_getaffinity(0))),
        llc_bytes=llc_bytes(caches(host)),
    )


def machine_route() -> Route:
    """The route that this machine's class is."""
    return machine_class().route


def route_of(architecture: str, model: str, march: str, features: tuple[str, ...]) -> str:
    """`cpu_<hash>`: machines whose code and timing may be mixed share it."""
    identity = "|".join((architecture, model, march, " ".join(features)))
    return CPU_PREFIX + hashlib.sha256(identity.encode()).hexdigest()[:8]


def compiler_accepts(flags: tuple[str, ...]) -> bool:
    """The host's compiler takes `flags` together. Raises Misconfigured when there is none."""
    command = [str(find_compiler()), *flags, "-E", "-x", "c", os.devnull, "-o", os.devnull]
    return subprocess.run(command, capture_output=True, timeout=30).returncode == 0


def caches(host: Host) -> tuple[CacheLevel, ...]:
    """The caches that processor 0 sees, smallest level first; empty when the host does not tell."""
    found = []
    for folder in sorted((host.sys / "devices/system/cpu/cpu0/cache").glob("index[0-9]*")):
        level, kind = host.read(folder / "level"), host.read(folder / "type")
        size = parse_size(host.read(folder / "size") or "")
        if level and level.isdigit() and size:
            found.append(CacheLevel(level=int(level), kind=kind or UNKNOWN, size_bytes=size))
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind)))


def llc_bytes(levels: tuple[CacheLevel, ...]) -> int:
    """Size of the last level."""
    return levels[-1].size_bytes if levels else DEFAULT_LLC_BYTES


def _model(fields: dict[str, str]) -> str:
    """The processor's name; ARM kernels give numbers instead. Family and model tell apart what one name covers."""
    if "model name" in fields and "cpu family" in fields:
        return f"{fields['model name']} family {fields['cpu family']} model {fields.get('model', UNKNOWN)}"
    if "CPU part" in fields:
        return f"implementer {fields.get('CPU implementer', UNKNOWN)} part {fields['CPU part']}"
    return fields.get("model name", UNKNOWN)
