"""What a mutant is: a kernel with a bug, and who must see it."""

from dataclasses import dataclass
from typing import Final, Literal

from kernel_lab.ptx.kernels.golden import cuda_source
from kernel_lab.ptx.kernels.problem import Kernel
from kernel_lab.ptx.kernels.references import Axes
from kernel_lab.ptx.report import Kind
from schemas.faults import Bug

COMPARISON: Final = "comparison"
"""Only the numbers are wrong: a comparison with the reference sees it, and no checker can."""

Edits = tuple[tuple[str, str], ...]
"""(old, new) pieces of CUDA source; each old piece must be there exactly once."""

_ENTRY: Final = 'extern "C" __global__ void '


@dataclass(frozen=True)
class Mutant:
    """A kernel with edits to its source, the size that shows the bug, and who must see it.

    `switch` is the field of Checks that looks for `caught_by`: with it off the verdict is pass. It is None where the
    kernel never ends or where only the numbers are wrong.
    """

    name: str
    bug: str
    kernel: Kernel
    edits: Edits
    caught_by: Kind | Literal["comparison"]
    switch: str | None
    axes: Axes

    def source(self) -> str:
        """The edited source with no entry but this kernel's. Raises Bug when an edit does not match exactly once."""
        text = cuda_source(self.kernel.source)
        for old, new in self.edits:
            if text.count(old) != 1:
                raise Bug(f"mutant {self.name}: {old!r} is {text.count(old)} times in {self.kernel.source}.cu")
            text = text.replace(old, new)
        shared, *entries = text.split(_ENTRY)
        return shared + "".join(_ENTRY + entry for entry in entries if entry.startswith(f"{self.kernel.entry}("))


def races(name: str, bug: str, kernel: Kernel, edits: Edits, axes: Axes) -> Mutant:
    """A race in shared memory."""
    return Mutant(name, bug, kernel, edits, Kind.SHARED_RACE, "shared_race", axes)


def reaches_out(name: str, bug: str, kernel: Kernel, edits: Edits, axes: Axes) -> Mutant:
    """An access to what belongs to nobody."""
    return Mutant(name, bug, kernel, edits, Kind.OUT_OF_BOUNDS, "bounds", axes)


def stands_still(name: str, bug: str, kernel: Kernel, edits: Edits, axes: Axes) -> Mutant:
    """Threads that wait for each other for ever."""
    return Mutant(name, bug, kernel, edits, Kind.DEADLOCK, None, axes)


def wrong_numbers(name: str, bug: str, kernel: Kernel, edits: Edits, axes: Axes) -> Mutant:
    """Nothing for a checker to see."""
    return Mutant(name, bug, kernel, edits, COMPARISON, None, axes)
