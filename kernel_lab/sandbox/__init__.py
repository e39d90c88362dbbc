"""Isolation for what nobody trusts: compilers over foreign source, and candidates."""

from kernel_lab.sandbox.confine import (
    Bounds,
    Completed,
    Confined,
    Program,
    Sandbox,
    open_sandbox,
    own_sandbox,
    run_sandboxed,
    spawn_sandboxed,
)
from kernel_lab.sandbox.isolation import Isolation, Mode, detect, isolation

__all__ = [
    "Bounds",
    "Completed",
    "Confined",
    "Isolation",
    "Mode",
    "Program",
    "Sandbox",
    "detect",
    "isolation",
    "open_sandbox",
    "own_sandbox",
    "run_sandboxed",
    "spawn_sandboxed",
]
