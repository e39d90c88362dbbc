"""Every backend. Adding one: a file in this folder and its line here."""

from collections.abc import Mapping

from kernel_lab.backends.backend import Backend
from kernel_lab.backends.gcc import GccBackend
from kernel_lab.backends.null import NullBackend
from kernel_lab.backends.toolchain import Toolchain, find_compiler
from schemas.enums import Language

BACKENDS: Mapping[Language, Backend] = {Language.C: GccBackend(), Language.NULL: NullBackend()}

__all__ = ["BACKENDS", "Backend", "GccBackend", "NullBackend", "Toolchain", "find_compiler"]
