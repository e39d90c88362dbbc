"""V0: what the object file shows without running it. Signature, state, constructors, imports, instructions."""

import re
from collections.abc import Callable, Iterator

from kernel_lab.verify.elf import CRT_FUNCTIONS, Import, ObjectFile, Unreadable, read_object
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.subject import Climb
from schemas.enums import Reason, RungStatus

LIBC_IMPORTS = frozenset(
    {"memcpy", "memmove", "memset", "memcmp", "malloc", "calloc", "aligned_alloc", "posix_memalign", "free"}
    | {"__stack_chk_fail", "__memcpy_chk", "__memmove_chk", "__memset_chk"}
)
OMP_IMPORTS = frozenset({"omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads"})
OMP_REFUSED = re.compile(r"target|offload|^GOMP_parallel.*_start$")
"""Devices, and calls of an old interface that start a team and return: its threads would work on after the kernel."""
CRITICAL = ".gomp_critical_user_"
"""libgomp's lock word of a named critical section: the only writable datum a candidate may have."""
UNVERSIONED = frozenset({"_GLOBAL_OFFSET_TABLE_"})
LIBM_STATE = re.compile(r"^(fe[a-z]+|signgam|matherr)$")
"""Names in libm that read or set the FP environment or keep a result: state between calls."""
LIBRARIES = re.compile(r"(libm|libmvec|libgomp|libc|libpthread|ld-linux-[a-z0-9_-]+)\.so\.\d+")
FORBIDDEN_MNEMONICS = frozenset(
    {"syscall", "sysenter", "int", "sysret", "sysexit", "iret", "iretq", "svc", "hvc", "smc", "vmcall", "vmmcall"}
    | {"lcall", "ljmp", "lret", "lretq"}
    | {"rdtsc", "rdtscp", "rdpmc", "rdpru", "rdrand", "rdseed"}
    | {"tpause", "umwait", "umonitor", "mwaitx", "monitorx", "xbegin", "xabort", "xtest", "xend"}
    | {"wrfsbase", "wrgsbase", "rdfsbase", "rdgsbase", "wrpkru", "rdpkru", "xgetbv", "fxrstor", "fxrstor64"}
    | {"xrstor", "xrstor64", "xrstorc", "xrstorc64", "xrstors", "xrstors64"}
    | {"clflush", "clflushopt", "clwb", "cldemote"}
    | {"mrs", "msr", "wfe", "wfi", "wfet", "wfit"}
)
"""Ways out of the process, far jumps into code of another width, clocks and waits for one, randomness, transactions
that undo what was seen, registers that outlive the call, and the caches of others (verification.md, V0)."""
STARTUP_SECTIONS = (".init", ".fini", ".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors")
RELOCATED_AND_CONSTANT = frozenset({".data.rel.ro", ".dynamic", ".got", ".got.plt"})
"""Writable only until the loader is done; `.got.plt` holds the loader's own pointers."""

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
_TARGET = re.compile(r"# ([0-9a-f]+)")
_BRANCH = re.compile(r"(?:^|\s)(?:j[a-z]+(?:,p[nt])?|call[a-z]*|loop[a-z]*)\s+(?:0x)?([0-9a-f]+)(?=\s|$)")
"""A direct jump or call of x86, whose instructions have no fixed places."""
_SEGMENT = re.compile(r"%[fg]s:(?!0x28\b)")
"""Thread-local storage, but for the stack protector's canary at %fs:0x28."""

Check = Callable[[ObjectFile, ObjectFile, str], Finding | None]


def climb(climb: Climb) -> RungOutcome:
    """No finding: the object keeps no state, starts nothing at load, and imports only what is allowed."""
    try:
        subject = read_object(climb.subject.object_path.read_bytes())
        blank = read_object(climb.bench.blank)
    except Unreadable as error:
        return CouldNot(RungStatus.TOOL_FAILURE, str(error))
    listing = climb.bench.disassemble(climb.subject.object_path)
    if isinstance(listing, CouldNot):
        return listing
    return inspect(climb, subject, blank, listing)


def inspect(climb: Climb, subject: ObjectFile, blank: ObjectFile, listing: str) -> Climbed | Finding:
    """Every check that is on, in order; the first finding stands."""
    on = climb.checks
    table: tuple[tuple[bool, Callable[[], Finding | None]], ...] = (
        (True, lambda: _entry(subject, climb.workload.name)),
        (on.thread_local, lambda: _thread_local(subject)),
        (on.writable_sections, lambda: _writable_sections(subject, blank)),
        (on.constructors, lambda: _constructors(subject, blank)),
        (on.imports, lambda: _imports(subject, blank)),
        (on.instructions, lambda: _instructions(listing)),
        (on.hidden_code, lambda: _hidden_code(subject, listing)),
        (on.writable_references, lambda: _writable_references(subject, blank, listing)),
    )
    checks = [check for switched_on, check in table if switched_on]
    for check in checks:
        if finding := check():
            return finding
    return Climbed(len(checks))


def _entry(subject: ObjectFile, name: str) -> Finding | None:
    if any(s.kind == "STT_FUNC" and s.exported for s in subject.named(name)):
        return None
    return Finding(Reason.NO_ENTRY, f"no function named {name} is exported; `static` or a misspelling hides it")


def _thread_local(subject: ObjectFile) -> Finding | None:
    kept = [s.name for s in subject.sections if s.thread_local and s.size]
    return (
        Finding(Reason.STATEFUL, f"thread-local data in {', '.join(kept)}: keep nothing between calls")
        if kept
        else None
    )


def _writable_sections(subject: ObjectFile, blank: ObjectFile) -> Finding | None:
    """Each writable section is no larger than an empty kernel's, lock words of critical sections aside."""
    locks = sum(8 for name in {s.name for s in subject.symbols if s.name.startswith(CRITICAL)})
    for section in sorted({s.name for s in subject.sections if s.writable and not s.thread_local}):
        if section in RELOCATED_AND_CONSTANT or section in STARTUP_SECTIONS:
            continue
        allowed = _allowed_bytes(section, blank, locks)
        if subject.size_of(section) > allowed:
            return Finding(
                Reason.STATEFUL,
                f"{section} holds {subject.size_of(section) - allowed} writable bytes"
                f"{_whose(subject)}: keep nothing between calls (const tables are fine)",
            )
    return None


def _allowed_bytes(section: str, blank: ObjectFile, locks: int) -> int:
    """The linker pads `.bss` to 8 bytes before the first lock word."""
    own = blank.size_of(section)
    return -(-own // 8) * 8 + locks if section == ".bss" and locks else own


def _whose(subject: ObjectFile) -> str:
    names = sorted(
        {
            s.name
            for s in subject.symbols
            if s.kind == "STT_OBJECT" and s.size and any(s.address in span for span in subject.mutable)
        }
        - {"completed.0", "__dso_handle", "__TMC_END__"}
    )
    return f" ({', '.join(names[:5])})" if names else ""


def _constructors(subject: ObjectFile, blank: ObjectFile) -> Finding | None:
    for section in STARTUP_SECTIONS:
        if subject.size_of(section) > blank.size_of(section):
            return _construct(f"{section} is larger than an empty kernel's: something would run at load or unload")
    if subject.irelative or any(s.kind in ("STT_GNU_IFUNC", "STT_LOOS") for s in subject.symbols):
        return _construct("an ifunc resolver would run at load")
    if subject.executable_stack:
        return _construct("it asks for an executable stack (a nested function's trampoline?)")
    if any(s.writable and s.executable for s in subject.sections):
        return _construct("a section is both writable and executable")
    for name in CRT_FUNCTIONS:
        if len({s.address for s in subject.named(name)}) != len({s.address for s in blank.named(name)}):
            return _construct(f"it redefines {name}, which belongs to the C runtime")
    return None


def _construct(message: str) -> Finding:
    return Finding(Reason.FORBIDDEN_CONSTRUCT, message)


def _imports(subject: ObjectFile, blank: ObjectFile) -> Finding | None:
    given = {i.name for i in blank.imports} | UNVERSIONED
    refused = sorted(i.name for i in subject.imports if i.name not in given and not allowed_import(i))
    if refused:
        return Finding(
            Reason.FORBIDDEN_IMPORT,
            f"it imports {', '.join(refused[:10])}; allowed: libm, libmvec, memory functions, OpenMP without offload",
        )
    foreign = sorted(name for name in subject.needed if not LIBRARIES.fullmatch(name))
    return Finding(Reason.FORBIDDEN_IMPORT, f"it is linked with {', '.join(foreign)}") if foreign else None


def allowed_import(wanted: Import) -> bool:
    """The table of verification.md, V0. Unversioned names are refused: no library on the list has any."""
    library = (wanted.library or "").partition(".")[0]
    match library:
        case "libm":
            return not LIBM_STATE.match(wanted.name)
        case "libmvec":
            return wanted.name.startswith("_ZGV")
        case "libgomp":
            refused = OMP_REFUSED.search(wanted.name)
            return (wanted.name.startswith("GOMP_") and not refused) or wanted.name in OMP_IMPORTS
        case "libc":
            return wanted.name in LIBC_IMPORTS
        case _:
            return wanted.name.startswith(CRITICAL)


def _instructions(listing: str) -> Finding | None:
    for address, text in _disassembled(listing):
        # prefixes come first: `repz syscall`
        if found := FORBIDDEN_MNEMONICS & set(text.split()[:3]):
            return _construct(
                f"instruction {', '.join(sorted(found))} at {address:#x}: no system calls, clocks or randomness"
            )
        if _SEGMENT.search(text):
            return Finding(Reason.STATEFUL, f"{text.strip()} at {address:#x} reaches thread-local storage")
    return None


def _hidden_code(subject: ObjectFile, listing: str) -> Finding | None:
    """The listing shows every instruction that a direct jump reaches, and no data lies among the code."""
    data = sorted(s.name for s in subject.symbols if s.kind == "STT_OBJECT" and _in_code(subject, s.address))
    if data:
        return _construct(f"{', '.join(data[:5])} is data in an executable section")
    lines = tuple(_disassembled(listing))
    known = {address for address, _ in lines}
    for address, text in lines:
        if "(bad)" in text:
            return _construct(f"the bytes at {address:#x} are no instruction")
        found = _BRANCH.search(text)
        if found and int(found[1], 16) not in known:
            return _construct(f"{text.strip()} at {address:#x} jumps into the middle of an instruction")
    return None


def _in_code(subject: ObjectFile, address: int) -> bool:
    return any(s.executable and s.address <= address < s.address + s.size for s in subject.sections)


def _writable_references(subject: ObjectFile, blank: ObjectFile, listing: str) -> Finding | None:
    """Own code and constants point at nothing that stays writable: not past `.bss`, not at the C runtime's words."""
    locks = {s.address for s in subject.symbols if s.name.startswith(CRITICAL)}
    runtime = tuple(_runtime_code(subject, blank))
    seen = {(target, f"code at {at:#x}") for at, target in _references(listing) if not any(at in r for r in runtime)}
    handle = {s.address for s in subject.named("__dso_handle")}
    seen |= {(target, "a pointer table") for target in subject.relocation_targets if target not in handle}
    for target, who in sorted(seen):
        if target not in locks and any(target in span for span in subject.mutable):
            return Finding(Reason.STATEFUL, f"{who} refers to writable memory at {target:#x} that outlives the call")
    return None


def _runtime_code(subject: ObjectFile, blank: ObjectFile) -> Iterator[range]:
    """Where the C runtime's own functions lie, as long as they are in the blank object; and the PLT."""
    starts = sorted({s.address for s in blank.symbols if s.kind == "STT_FUNC" and s.defined})
    for name in CRT_FUNCTIONS:
        for symbol, model in zip(subject.named(name), blank.named(name), strict=False):
            following = next((start for start in starts if start > model.address), model.address)
            yield range(symbol.address, symbol.address + following - model.address)
    for section in subject.sections:
        if section.executable and section.name in (".plt", ".plt.got", ".plt.sec", ".init", ".fini"):
            yield range(section.address, section.address + section.size)


def _disassembled(listing: str) -> Iterator[tuple[int, str]]:
    for line in listing.splitlines():
        if found := _LINE.match(line):
            yield int(found[1], 16), found[2]


def _references(listing: str) -> Iterator[tuple[int, int]]:
    for at, text in _disassembled(listing):
        if found := _TARGET.search(text):
            yield at, int(found[1], 16)
