"""What the checkers saw: one diagnostic per kind and instruction, the first occurrence in full, the rest counted."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kernel_lab.ptx.report import Diagnostic, Kind
from kernel_lab.ptx.syntax.tree import Instruction

Array = np.ndarray
Owner = Callable[[int], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction as diagnostics name it."""

    line: int
    source_line: str | None
    opcode: str


def site_of(instruction: Instruction, files: dict[int, str]) -> Site:
    """Where an instruction stands in the PTX and in the source it came from."""
    source = instruction.source
    where = f"{files.get(source.file, source.file)}:{source.line}" if source else None
    return Site(instruction.line, where, instruction.text)


class Findings:
    """The diagnostics of one run. Threads are padded linear threads of the launch."""

    def __init__(self, padded: int) -> None:
        self._padded = padded
        self._first: dict[tuple[Kind, int, str], Diagnostic] = {}
        self._counts: Counter[tuple[Kind, int, str]] = Counter()

    def add(
        self,
        kind: Kind,
        site: Site,
        threads: Array,
        message: str,
        addresses: Array | None = None,
        owner: Owner | None = None,
    ) -> None:
        """These threads did this here; `owner` names the buffer of an address."""
        key = kind, site.line, site.opcode
        self._counts[key] += max(threads.size, 1)
        if key in self._first:
            return
        thread = int(threads[0]) if threads.size else -1
        cta, lane = divmod(thread, self._padded) if thread >= 0 else (-1, -1)
        address = None if addresses is None else int(addresses[0])
        buffer, where = owner(address) if owner and address is not None else (None, "")
        message = f"{message}, {where}" if where else message
        self._first[key] = Diagnostic(
            kind, site.line, site.source_line, site.opcode, lane, cta, address, buffer, message
        )

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All of them, in order of first occurrence."""
        return tuple(replace(first, count=self._counts[key]) for key, first in self._first.items())
