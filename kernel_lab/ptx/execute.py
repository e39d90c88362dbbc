"""Running one launch: bind it to the kernel, interpret it, and report what the checkers saw."""

from kernel_lab.ptx.launch import ALL, Checks, Launch
from kernel_lab.ptx.report import Report
from kernel_lab.ptx.syntax.tree import Module


def run(module: Module | str, launch: Launch, *, checks: Checks = ALL, stats: bool = False) -> Report:
    """The verdict on one launch of one kernel, with every checker of `checks` looking on.

    Raises PtxSyntaxError for text that does not parse and LaunchRefused for a launch that does not fit.
    """
    from kernel_lab.ptx.machine import interpret  # the interpreter is heavier than its types

    return interpret(module, launch, checks, stats)
