"""Who is raced before a goal begins: plain C in two forms, threads, mathematics and widths, and the libraries."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from kernel_lab.baselines.library import BY_BLAS, LIBRARY, absent
from kernel_lab.spaces.fingerprint import fingerprint
from schemas.enums import Language
from schemas.work import Kernel, MachineClass

FORMS: Mapping[str, str] = {"naive": "the formula written down", "blocked": "in blocks, partial results in lanes"}
FAST_MATH = "-ffast-math"
_SOURCES = files("kernel_lab.baselines") / "c"
_PARALLEL = "#pragma omp parallel"
_KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""A library that allocates its result keeps the pages between calls, else page faults are timed (measurement.md)."""


@dataclass(frozen=True)
class ContenderSpec:
    """One baseline: a C kernel, or a library function by name. `absent` says why it cannot be raced here."""

    name: str
    description: str
    threads: int
    kernel: Kernel | None = None
    library: str | None = None
    absent: str | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What the library's process needs to be at its best; empty for C."""
        if self.library is None:
            return {}
        counts = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        return _KEEP_PAGES | counts


def contenders(workload: str, machine: MachineClass, threads: int) -> tuple[ContenderSpec, ...]:
    """Every baseline of `workload`, libraries that are not installed included, in a fixed order."""
    return (*_c_contenders(workload, machine, threads), *_library_contenders(workload, threads))


def previous_champion(kernel: Kernel, threads: int) -> ContenderSpec:
    """An earlier goal's champion as a baseline, at its own thread count within `threads`."""
    description = f"the previous champion: {kernel.variant or 'a kernel'} by Assay"
    return ContenderSpec("champion", description, min(kernel.threads or threads, threads), kernel=kernel)


def c_source(workload: str, form: str, *, parallel: bool) -> str:
    """A C baseline's text; the single-threaded form has no OpenMP at all."""
    text = (_SOURCES / f"{workload}_{form}.c").read_text(encoding="utf-8")
    if parallel:
        return text
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_PARALLEL))


def _c_contenders(workload: str, machine: MachineClass, threads: int) -> Iterator[ContenderSpec]:
    for form in FORMS:
        for count in dict.fromkeys((1, threads)):
            for fast in (False, True):
                for bits in vector_widths(machine):
                    yield _c_contender(workload, machine, form, count, fast=fast, bits=bits)


def vector_widths(machine: MachineClass) -> tuple[int, ...]:
    """Widths that the compiler may be told to prefer here."""
    return (256, 512) if machine.vector_bits >= 512 else (machine.vector_bits,)


def _c_contender(
    workload: str, machine: MachineClass, form: str, threads: int, *, fast: bool, bits: int
) -> ContenderSpec:
    width = (f"-mprefer-vector-width={bits}",) if machine.architecture == "x86_64" else ()
    flags = ("-O3", *((FAST_MATH,) if fast else ()), *width)
    source = c_source(workload, form, parallel=threads > 1)
    kernel = Kernel(
        language=Language.C,
        source=source,
        flags=flags,
        threads=threads,
        variant=form,
        fingerprint=fingerprint(source, flags, threads, machine.route),
    )
    name = f"c_{form}_{'omp' if threads > 1 else 'one'}_{'fast' if fast else 'o3'}_{bits}"
    description = f"C, {FORMS[form]}, {threads} thread{'s' if threads > 1 else ''}, {' '.join(flags)}"
    return ContenderSpec(name, description, threads, kernel=kernel)


def _library_contenders(workload: str, threads: int) -> Iterator[ContenderSpec]:
    for operation, library in LIBRARY:
        if operation == workload:
            count = 1 if library == "numpy" and workload not in BY_BLAS else threads
            description = f"{library}, {count} thread{'s' if count > 1 else ''}"
            yield ContenderSpec(library, description, count, library=library, absent=absent(library))
