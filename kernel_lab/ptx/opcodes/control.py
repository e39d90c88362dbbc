"""trap, nanosleep and their kin. Branches and returns end blocks: `kernel_lab.ptx.program` does them."""

from typing import TYPE_CHECKING

from kernel_lab.ptx.group import Group
from kernel_lab.ptx.opcodes.memory import bind_nothing
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, words
from kernel_lab.ptx.report import Kind

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form


def bind_trap(form: "Form") -> Step:
    """trap: the kernel gives up, and so does the run."""
    machine, site = form.machine, form.site

    def run(g: Group) -> None:
        machine.findings.add(Kind.TRAP, site, g.threads, "the kernel trapped")
        machine.stop()

    return run


def bind_sleep(form: "Form") -> Step:
    """nanosleep: others run."""
    form.expect(1)
    form.source(0, "u32")
    machine = form.machine

    def run(g: Group) -> None:
        del g
        machine.yields = True

    return run


def bind_branch(form: "Form") -> Step:
    """bra, brx.idx, ret, exit: bound by the program, listed here."""
    raise AssertionError(f"{form.instruction.text} ends a block and has no step")


CONTROL = "Control Flow Instructions"
ENTRIES = (
    *(Opcode(name, CONTROL, 0, bind_branch, flags=words("uni"), role=Role.BRANCH) for name in ("bra", "ret", "exit")),
    Opcode("brx", CONTROL, 1, bind_branch, flags=words("uni"), needs=words("idx"), role=Role.BRANCH),
    Opcode("trap", "Miscellaneous Instructions", 0, bind_trap, role=Role.EFFECT),
    Opcode("brkpt", "Miscellaneous Instructions", 1, bind_nothing, role=Role.EFFECT),
    Opcode("nanosleep", "Miscellaneous Instructions", 1, bind_sleep, words("u32"), role=Role.EFFECT),
)
