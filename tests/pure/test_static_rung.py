"""What V0 makes of a disassembly, line by line."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernel_lab.verify.checks import ALL_CHECKS
from kernel_lab.verify.elf import ObjectFile, SectionFact, SymbolFact
from kernel_lab.verify.finding import Climbed, Finding
from kernel_lab.verify.rungs.static import inspect
from schemas.enums import Reason

TEXT = SectionFact(".text", 0x1000, 0x100, writable=False, executable=True, thread_local=False)
ENTRY = SymbolFact("f", 0x1000, 16, "STT_FUNC", defined=True, exported=True)
CLIMB = cast("Any", SimpleNamespace(checks=ALL_CHECKS, workload=SimpleNamespace(name="f")))


def _object(*more: SymbolFact) -> ObjectFile:
    return ObjectFile((TEXT,), (ENTRY, *more), (), (), (), irelative=False, executable_stack=False, mutable=())


def _inspected(*lines: str, subject: ObjectFile | None = None) -> Climbed | Finding:
    """The instructions stand at 0x1000, 0x1004 and so on."""
    listing = "\n".join(f"    {0x1000 + 4 * at:x}:\t{line}" for at, line in enumerate(lines))
    return inspect(CLIMB, subject or _object(), _object(), listing)


@pytest.mark.parametrize(
    "line",
    [
        "syscall",
        "repz syscall",
        "int    $0x80",
        "iretq",
        "lcall  *(%rax)",
        "rdtscp",
        "rdpru",
        "tpause %ecx",
        "umwait %ecx",
        "xbegin 1000 <f>",
        "wrpkru",
        "xrstor (%rdi)",
        "clflushopt (%rdi)",
        "mrs    x0, cntvct_el0",
        "mov    %fs:0x0,%rax",
    ],
)
def test_what_no_kernel_needs_is_refused(line: str) -> None:
    found = _inspected("nop", line, "ret")
    assert isinstance(found, Finding)
    assert found.reason in (Reason.FORBIDDEN_CONSTRUCT, Reason.STATEFUL)


@pytest.mark.parametrize(
    "line",
    [
        "jmp    1002 <f+0x2>",
        "bnd jmp 1001 <f+0x1>",
        "jne,pn 1003 <f+0x3>",
        "jne    1003 <f+0x3>",
        "call   1005 <f+0x5>",
        "callq  2000 <elsewhere>",
        "jrcxz  1001 <f+0x1>",
        "(bad)",
    ],
)
def test_a_jump_to_where_the_listing_shows_no_instruction_is_refused(line: str) -> None:
    found = _inspected("nop", line, "ret")
    assert isinstance(found, Finding)
    assert found.reason is Reason.FORBIDDEN_CONSTRUCT


@pytest.mark.parametrize(
    "line",
    [
        "jmp    1000 <f>",
        "bnd jmp 1008 <f+0x8>",
        "call   1004 <memcpy@plt>",
        "jmp    *%rax",
        "notrack jmp *%rdx",
        "call   *0x8(%rbx)",
        "bl     1000 <f>",
        "mov    %fs:0x28,%rax",
        "prefetcht0 0x40(%rdi)",
        "movntps %zmm0,(%rdi)",
        "vpternlogd $0xff,%zmm0,%zmm0,%zmm0",
        "lea    0x1(%rip),%rdi        # 1003 <f+0x3>",
    ],
)
def test_what_compilers_write_passes(line: str) -> None:
    assert isinstance(_inspected("nop", line, "ret"), Climbed)


def test_data_among_code_is_refused() -> None:
    table = SymbolFact("table", 0x1080, 8, "STT_OBJECT", defined=True, exported=False)
    found = _inspected("nop", "ret", subject=_object(table))
    assert isinstance(found, Finding)
    assert "table is data in an executable section" in found.message
