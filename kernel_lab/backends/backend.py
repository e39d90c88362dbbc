"""What a backend is: source in, object or diagnostics out. A failed kernel is a value, never an exception."""

from dataclasses import dataclass
from typing import Protocol

from schemas.enums import Reason
from schemas.work import Kernel, MachineClass


@dataclass(frozen=True)
class Built:
    """The object and how it was made. The same kernel, machine class and toolchain give the same bytes."""

    object: bytes
    sha256: str
    command: tuple[str, ...]
    """With file names replaced by `k.c` and `k.so`."""
    toolchain: str
    compile_ms: float
    warnings: str


@dataclass(frozen=True)
class NotBuilt:
    """Why this source is no kernel."""

    reason: Reason
    message: str
    diagnostics: str


class Backend(Protocol):
    @property
    def language(self) -> str: ...

    def compile(self, kernel: Kernel, entry: str, machine: MachineClass) -> Built | NotBuilt:
        """`kernel` compiled for `machine` in the sandbox. Raises Misconfigured when the compiler is missing,
        Transient when the tool itself failed (killed, disk full)."""
        ...
