"""Arms: one sandboxed process per candidate, spoken to over a socket, sharing memory with the parent."""

from kernel_lab.runner.arm import (
    Alignment,
    Arena,
    Arm,
    BufferSet,
    CallOutcome,
    Died,
    Limits,
    LoadFailed,
    OverTime,
    Returned,
    StartArm,
    Timing,
)
from kernel_lab.runner.memory import MemfdArena, MemfdBuffers
from kernel_lab.runner.process import ProcessArm
from kernel_lab.runner.start import Lab, ensure_runner, open_lab, start_arm

__all__ = [
    "Alignment",
    "Arena",
    "Arm",
    "BufferSet",
    "CallOutcome",
    "Died",
    "Lab",
    "Limits",
    "LoadFailed",
    "MemfdArena",
    "MemfdBuffers",
    "OverTime",
    "ProcessArm",
    "Returned",
    "StartArm",
    "Timing",
    "ensure_runner",
    "open_lab",
    "start_arm",
]
