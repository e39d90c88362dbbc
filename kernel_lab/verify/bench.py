"""The judge's bench on this machine: the runner, memory files, and objdump in the sandbox."""

import shutil
import tempfile
from pathlib import Path

from kernel_lab.runner.arm import StartArm
from kernel_lab.runner.memory import MemfdArena
from kernel_lab.runner.start import Lab
from kernel_lab.sandbox.confine import Bounds, Sandbox, run_sandboxed
from kernel_lab.verify.finding import CouldNot
from kernel_lab.verify.subject import Bench
from schemas.enums import RungStatus
from schemas.faults import Misconfigured

OBJDUMP_WALL_S = 20.0
"""Chosen: an ordinary kernel takes 5 ms, a megabyte of code half a second."""


def make_bench(lab: Lab, blank: bytes) -> Bench:
    """What `judge` stands on, with `blank` from `blank_object`."""
    return Bench(
        start_arm=lab,
        open_arena=MemfdArena,
        isolation=str(lab.isolation),
        disassemble=lambda path: disassemble(path, lab.sandbox),
        blank=blank,
        start_sanitized=lambda: _sanitizing(lab),
    )


def _sanitizing(lab: Lab) -> StartArm | CouldNot:
    try:
        return lab.sanitizing()
    except Misconfigured as error:
        return CouldNot(RungStatus.UNSUPPORTED, f"no runner with sanitizers: {error}")


def disassemble(object_path: Path, sandbox: Sandbox) -> str | CouldNot:
    """What objdump reads in an untrusted object, run in the sandbox; or why it could not."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return CouldNot(RungStatus.UNSUPPORTED, "no disassembler: apt-get install binutils")
    with tempfile.TemporaryDirectory(prefix="assay-objdump-") as folder:
        copy, listing = Path(folder, "k.so"), Path(folder, "k.s")
        copy.write_bytes(object_path.read_bytes())
        # a shell for its redirection: the sandbox keeps only the first 16 KiB of standard output
        script = 'exec "$0" -d --no-show-raw-insn "$1" > "$2"'
        completed = run_sandboxed(
            ("/bin/sh", "-c", script, objdump, str(copy), str(listing)),
            work_dir=Path(folder),
            sandbox=sandbox,
            bounds=Bounds(wall_s=OBJDUMP_WALL_S),
        )
        if completed.timed_out:
            return CouldNot(RungStatus.TIMED_OUT, f"objdump took more than {OBJDUMP_WALL_S:g} s")
        if completed.exit_status != 0:
            return CouldNot(RungStatus.TOOL_FAILURE, f"objdump failed: {completed.output.strip()[:500]}")
        return listing.read_text(errors="replace")
