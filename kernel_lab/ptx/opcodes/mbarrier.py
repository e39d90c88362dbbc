"""mbarrier.*: barriers in shared memory that count arrivals and bytes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.form import Target
from kernel_lab.ptx.group import Array, Group
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.memory.windows import SHARED_WINDOW
from kernel_lab.ptx.opcodes.memory import place_of, shrink
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, words
from kernel_lab.ptx.syntax.tree import Address, Name

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

SHARED = words("shared shared::cta")
Addresses = Callable[[Group], Array]


def shared_addresses(form: "Form", which: int) -> Addresses:
    """An operand that is an address of shared memory, perhaps a generic one."""
    if form.flags & (SHARED | words("shared::cluster")):
        return place_of(form, which, "shared").addresses
    place = place_of(form, which, "generic")
    return lambda g: shrink("shared", place.addresses(g) - np.uint64(SHARED_WINDOW))


def _access(form: "Form", *, strong: bool = True) -> Access:
    return Access(form.site, 8, strong)


def bind_init(form: "Form") -> Step:
    """mbarrier.init [a], count"""
    form.expect(2)
    addresses, count, machine = shared_addresses(form, 0), form.source(1, "u32"), form.machine
    access = _access(form, strong=False)
    return lambda g: machine.mbarriers.initialise(g, access, addresses(g), g.r[count])


def bind_inval(form: "Form") -> Step:
    """mbarrier.inval [a]"""
    form.expect(1)
    addresses, machine, access = shared_addresses(form, 0), form.machine, _access(form)
    return lambda g: machine.mbarriers.invalidate(g, access, addresses(g))


def bind_arrive(form: "Form") -> Step:
    """mbarrier.arrive{.expect_tx} state, [a]{, count or bytes}, with or without the state"""
    has_state = not isinstance(form.operands[0], Address)
    where = 1 if has_state else 0
    form.expect(where + 1, where + 2)
    addresses, machine, access = shared_addresses(form, where), form.machine, _access(form)
    expects = "expect_tx" in form.flags
    last = form.source(where + 1, "u32") if len(form.operands) == where + 2 else None
    state = form.target(0, 64) if has_state and not _is_sink(form) else None
    one = np.ones(1, np.uint32)
    drops = form.flags & words("arrive_drop") != frozenset()

    def run(g: Group) -> None:
        given = g.r[last] if last is not None else one
        counts, bytes_ = (one, given) if expects else (given, None)
        phases = machine.mbarriers.arrive(g, access, addresses(g), counts, bytes_, drops=drops)
        _put(g, state, phases)

    return run


def _is_sink(form: "Form") -> bool:
    operand = form.operands[0]
    return isinstance(operand, Name) and operand.text == "_"


def _put(g: Group, target: Target | None, value: Array) -> None:
    if target is not None:
        target.put(g.r, value)


def bind_expect(form: "Form") -> Step:
    """mbarrier.expect_tx [a], bytes; complete_tx takes them away again"""
    form.expect(2)
    addresses, size, machine, access = shared_addresses(form, 0), form.source(1, "u32"), form.machine, _access(form)
    sign = -1 if "complete_tx" in form.flags else 1
    return lambda g: machine.mbarriers.expect(g, access, addresses(g), g.r[size].astype(np.int64) * sign)


def bind_wait(form: "Form") -> Step:
    """mbarrier.{test,try}_wait{.parity} p, [a], state or parity: who has to wait lets others run"""
    form.expect(3, 4)
    parity = "parity" in form.flags
    target, addresses = form.target(0, 1), shared_addresses(form, 1)
    wanted = form.source(2, "u32" if parity else "b64")
    machine, access = form.machine, _access(form)

    def run(g: Group) -> None:
        ended = machine.mbarriers.test(g, access, addresses(g), g.r[wanted], parity=parity)
        target.put(g.r, ended)
        if not ended.all():
            machine.yields = True

    return run


SECTION = "Parallel Synchronization and Communication Instructions: mbarrier"
ORDER = words("release relaxed acquire cta cluster") | SHARED
EFFECT = Role.EFFECT


def _entry(bind: Callable[["Form"], Step], needs: str, flags: str = "") -> Opcode:
    return Opcode("mbarrier", SECTION, 2, bind, words("b64"), ORDER | words(flags), words(needs), EFFECT)


ENTRIES = (
    _entry(bind_init, "init"),
    _entry(bind_inval, "inval"),
    _entry(bind_arrive, "arrive", "noComplete expect_tx"),
    _entry(bind_arrive, "arrive_drop", "noComplete expect_tx"),
    _entry(bind_expect, "expect_tx"),
    _entry(bind_expect, "complete_tx"),
    _entry(bind_wait, "test_wait", "parity"),
    _entry(bind_wait, "try_wait", "parity"),
)
