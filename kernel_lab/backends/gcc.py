"""The C backend: the host's gcc (or clang) in the sandbox, the same bytes for the same source, class and toolchain."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from kernel_lab.backends.backend import Built, NotBuilt
from kernel_lab.backends.toolchain import Toolchain, find_compiler
from kernel_lab.sandbox.confine import Bounds, Completed, Sandbox, open_sandbox, run_sandboxed
from kernel_lab.spaces.launch import Launch, LaunchProblem, parse_launch, read_source, refused_flags
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Language, Reason
from schemas.faults import Transient
from schemas.model import clip
from schemas.work import Kernel, MachineClass

SOURCE, EXPANDED, OBJECT, LIBRARY, PROTOTYPE = "k.c", "k.i", "k.o", "k.so", "assay_abi.h"
COMPILE_BOUNDS = Bounds(memory_bytes=1 << 30, cpu_s=20, wall_s=20.0)
"""Chosen: a kernel takes 0.05 s and 60 MB (toolbox.md); macro bombs and endless includes meet this."""
SANITIZE = (
    *("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize=shift-base"),
    *("-fno-sanitize-recover=all", "-U__SANITIZE_ADDRESS__"),
)
"""V7. GCC gives `<<` of negative numbers a meaning (its manual, Integers implementation), and honest exponentials use
it; the first error ends the process. A source must not see that it is being looked at."""
LEAST_FREE_BYTES = 16 << 20
"""Below this much room a failed compilation is blamed on the disk."""


@dataclass(frozen=True)
class GccBackend:
    """Compiles C candidates. Compiler and sandbox are found at the first compilation unless given."""

    language: ClassVar[str] = Language.C.value
    toolchain: Toolchain | None = None
    sandbox: Sandbox | None = None
    bounds: Bounds = COMPILE_BOUNDS
    extra: tuple[str, ...] = ()
    """Flags for compiler and linker beyond the default line: how V7 builds a candidate again."""

    def compile(self, kernel: Kernel, entry: str, machine: MachineClass) -> Built | NotBuilt:
        """`kernel` as a shared object that exports `entry`, or why there is none.

        Raises Misconfigured without a compiler, Transient when the compiler was killed or the disk is full.
        """
        refusal = _refusal(kernel)
        if refusal:
            return refusal
        with _folder_of(kernel, entry) as folder:
            return self._compile_in(folder, kernel, entry, machine)

    def expand(self, kernel: Kernel, entry: str, machine: MachineClass) -> str | NotBuilt:
        """`kernel` after the preprocessor, headers included: what the compiler proper reads.

        Raises like `compile`.
        """
        with _folder_of(kernel, entry) as folder:
            command = expand_command(self._compiler, machine, (*kernel.flags, *self.extra))
            done = self._run(command, folder)
            if done.exit_status != 0 or done.timed_out:
                return self._not_made(folder, done, "does not compile")
            return (folder / EXPANDED).read_text(encoding="utf-8", errors="replace")

    def _compile_in(self, folder: Path, kernel: Kernel, entry: str, machine: MachineClass) -> Built | NotBuilt:
        compiler = self._compiler
        compiling = compile_command(compiler, machine, (*kernel.flags, *self.extra))
        compiled = self._run(compiling, folder)
        if compiled.exit_status != 0 or compiled.timed_out:
            return self._not_compiled(folder, compiling, compiled)
        linking = (*link_command(compiler, machine), *self.extra)
        linked = self._run(linking, folder)
        if linked.exit_status != 0 or linked.timed_out:
            return self._not_made(folder, linked, "does not link")
        library = (folder / LIBRARY).read_bytes()
        if not _exports(folder / LIBRARY, entry):
            return NotBuilt(Reason.NO_ENTRY, f"defines no function named {entry}", clip(compiled.output))
        return Built(
            object=library,
            sha256=hashlib.sha256(library).hexdigest(),
            command=(compiler.path.name, *compiling[1:], "&&", compiler.path.name, *linking[1:]),
            toolchain=compiler.identity,
            compile_ms=(compiled.elapsed_s + linked.elapsed_s) * 1000.0,
            warnings=clip(compiled.output + linked.output),
        )

    def _not_compiled(self, folder: Path, command: tuple[str, ...], done: Completed) -> NotBuilt:
        """A source that only the stated prototype makes wrong has another signature."""
        failure = self._not_made(folder, done, "does not compile")
        prototype = (folder / PROTOTYPE).read_text()
        if failure.reason is not Reason.DOES_NOT_COMPILE or not prototype:
            return failure
        alone = tuple(part for part in command if part not in ("-include", PROTOTYPE))
        if self._parses(command, folder) or not self._parses(alone, folder):
            return failure
        expected = prototype.splitlines()[-1]
        return NotBuilt(Reason.WRONG_SIGNATURE, f"another signature than `{expected}`", failure.diagnostics)

    def _parses(self, command: tuple[str, ...], folder: Path) -> bool:
        return self._run((*command, "-fsyntax-only"), folder).exit_status == 0

    def _not_made(self, folder: Path, done: Completed, what: str) -> NotBuilt:
        if done.timed_out or done.signal == "SIGXCPU":
            message = f"compiling took more than {self.bounds.wall_s:g} s"
            return NotBuilt(Reason.TIMED_OUT, message, clip(done.output))
        if done.signal is not None:
            raise Transient(f"the compiler was ended by {done.signal}: {done.output[:500]}")
        if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
            raise Transient(f"no room to compile in {folder.parent}: {done.output[:500]}")
        lines = [line for line in done.output.splitlines() if line.strip()] or ["the compiler says nothing"]
        first = next((line for line in lines if "error" in line), lines[0])
        return NotBuilt(Reason.DOES_NOT_COMPILE, f"{what}: {first}"[:500], clip(done.output))

    def _run(self, command: tuple[str, ...], folder: Path) -> Completed:
        home = self._compiler.path.resolve().parent.parent
        elsewhere = () if home.is_relative_to("/usr") else (home,)
        return run_sandboxed(command, work_dir=folder, sandbox=self._opened, read_only=elsewhere, bounds=self.bounds)

    @cached_property
    def _compiler(self) -> Toolchain:
        return self.toolchain or find_compiler()

    @cached_property
    def _opened(self) -> Sandbox:
        return self.sandbox or open_sandbox()


def compile_command(compiler: Toolchain, machine: MachineClass, flags: tuple[str, ...]) -> tuple[str, ...]:
    """The default line (measurement.md, The baseline) up to the object: mathematics flags are for the compiler only,
    because a linker given -ffast-math sets flush-to-zero for the whole process."""
    return (*_before_output(compiler, machine, flags), "-c", SOURCE, "-o", OBJECT)


def expand_command(compiler: Toolchain, machine: MachineClass, flags: tuple[str, ...]) -> tuple[str, ...]:
    """The same line up to the preprocessor's output."""
    return (*_before_output(compiler, machine, flags), "-E", "-P", SOURCE, "-o", EXPANDED)


def _before_output(compiler: Toolchain, machine: MachineClass, flags: tuple[str, ...]) -> tuple[str, ...]:
    most_errors = "-ferror-limit=20" if compiler.is_clang else "-fmax-errors=20"
    target = (f"-march={machine.march}", *machine.features)
    fixed = ("-fopenmp", "-fPIC", "-fno-ident", most_errors, "-include", PROTOTYPE)
    return (str(compiler.path), "-std=gnu11", *target, *fixed, "-O3", *flags)


def link_command(compiler: Toolchain, machine: MachineClass) -> tuple[str, ...]:
    """From object to library. No build id and no temporary names: the same input gives the same bytes."""
    vector_math = ("-lmvec",) if machine.architecture == "x86_64" else ()
    fixed = ("-shared", "-fopenmp", "-Wl,--build-id=none", OBJECT, "-o", LIBRARY)
    return (str(compiler.path), *fixed, "-lm", *vector_math)


def _refusal(kernel: Kernel) -> NotBuilt | None:
    """What is wrong before a compiler is asked."""
    text = read_source(kernel.source.encode("utf-8", "surrogatepass"))
    if isinstance(text, LaunchProblem):
        return NotBuilt(text.reason, text.message, "")
    stated = parse_launch(kernel.source)
    if isinstance(stated, LaunchProblem):
        return NotBuilt(stated.reason, stated.message, "")
    if stated != Launch() and stated != Launch(kernel.flags, kernel.threads):
        message = f"line 1 says {stated}, the kernel says {Launch(kernel.flags, kernel.threads)}"
        return NotBuilt(Reason.BAD_LAUNCH_DATA, message[:500], "")
    problem = refused_flags(kernel.flags)
    return NotBuilt(problem.reason, problem.message, "") if problem else None


def _prototype(entry: str) -> str:
    """What a candidate must define; empty for an entry that is no workload of the table."""
    workload = WORKLOADS.get(entry)
    return f"#include <stdint.h>\n{workload.signature()};\n" if workload else ""


def _exports(library: Path, entry: str) -> bool:
    try:
        with library.open("rb") as stream:
            symbols = ELFFile(stream).get_section_by_name(".dynsym")
            named = symbols.get_symbol_by_name(entry) if isinstance(symbols, SymbolTableSection) else None
            return any(s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["type"] != "STT_OBJECT" for s in named or ())
    except ELFError:
        return False


@contextmanager
def _folder_of(kernel: Kernel, entry: str) -> Iterator[Path]:
    """A folder of its own, with the source and the prototype that it must keep. Raises Transient when there is no room
    for one."""
    try:
        made = tempfile.TemporaryDirectory(prefix="assay-cc-", ignore_cleanup_errors=True)
    except OSError as error:
        raise Transient(f"cannot make a folder to compile in: {error}") from error
    with made as name:
        folder = Path(name)
        (folder / SOURCE).write_text(kernel.source, encoding="utf-8")
        (folder / PROTOTYPE).write_text(_prototype(entry))
        yield folder
