"""The null backend: instant, deterministic, no compiler. For load tests of everything around the physics."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from kernel_lab.backends.backend import Built, NotBuilt
from schemas.enums import Language, Reason
from schemas.work import Kernel, MachineClass


@dataclass(frozen=True)
class NullBackend:
    """Gives an object that names the kernel and does nothing."""

    language: ClassVar[str] = Language.NULL.value

    def compile(self, kernel: Kernel, entry: str, machine: MachineClass) -> Built | NotBuilt:
        """An object made of the kernel's fingerprint; an empty source is refused, as a compiler would."""
        if not kernel.source.strip():
            return NotBuilt(Reason.NOT_TEXT, "the file is empty", "")
        content = f"null {entry} {machine.route} {kernel.fingerprint}".encode()
        return Built(
            object=content,
            sha256=hashlib.sha256(content).hexdigest(),
            command=("null", "k.c", "k.so"),
            toolchain="null",
            compile_ms=0.0,
            warnings="",
        )
