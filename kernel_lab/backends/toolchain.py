"""Which compiler the host has, and its identity: what a build needs to be made again."""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.sandbox.native import find_compiler as find_on_path
from schemas.faults import Misconfigured

_PARTS = ("cc1", "as", "ld")
"""gcc is a driver: the compiler proper, the assembler and the linker decide the bytes."""


@dataclass(frozen=True)
class Toolchain:
    """A C compiler on this host."""

    path: Path
    version: str
    """Its own first line, for example `gcc (Debian 12.2.0-14) 12.2.0`."""
    sha256: str
    """Over driver, compiler proper, assembler and linker."""

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version

    @property
    def identity(self) -> str:
        """What facts carry: version and digest."""
        return f"{self.version} sha256:{self.sha256}"


def find_compiler() -> Toolchain:
    """The host's gcc, else its clang. Raises Misconfigured, saying how to install one."""
    path = find_on_path()
    version = _said(path, "--version").splitlines()[0]
    digest = hashlib.sha256()
    for part in (path, *(_part(path, name) for name in _PARTS)):
        if part.is_file():
            digest.update(part.read_bytes())
    return Toolchain(path, version, digest.hexdigest())


def _part(compiler: Path, name: str) -> Path:
    """Where the driver finds `name`: an absolute path, or a name it looks up in PATH beside itself."""
    said = Path(_said(compiler, f"-print-prog-name={name}").strip() or name)
    return said if said.is_absolute() else compiler.parent / said


def _said(compiler: Path, question: str) -> str:
    try:
        answer = subprocess.run([compiler, question], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Misconfigured(f"{compiler} {question} fails ({error}): apt-get install --reinstall gcc") from error
    return answer.stdout
