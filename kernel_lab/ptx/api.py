"""The executor's public face: parse PTX, run one launch, read the report.

report = run(text, Launch("add", (4, 1, 1), (256, 1, 1), (Buffer(x, "in", "x"), Buffer(y, "out", "y"), 1024)))
assert report.verdict is Verdict.PASS
"""

from kernel_lab.ptx.execute import run
from kernel_lab.ptx.launch import ALL, NONE, Arg, Buffer, Checks, Launch, LaunchRefused
from kernel_lab.ptx.report import VERSION, Diagnostic, Kind, Report, Stats, Verdict
from kernel_lab.ptx.syntax.parser import parse
from kernel_lab.ptx.syntax.tree import Module, PtxSyntaxError

__all__ = [
    "ALL", "NONE", "VERSION", "Arg", "Buffer", "Checks", "Diagnostic", "Kind", "Launch", "LaunchRefused", "Module",
    "PtxSyntaxError", "Report", "Stats", "Verdict", "parse", "run",
]  # fmt: skip
