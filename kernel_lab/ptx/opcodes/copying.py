"""cp.async: copies from global to shared memory in groups that a thread waits for."""

from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.group import HIDDEN, Array, Group
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.opcodes.memory import CACHING, place_of
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, Unsupported, words
from kernel_lab.ptx.syntax.tree import Integer

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form


def bind_cp_async(form: "Form") -> Step:
    """cp.async [dst], [src], size{, bytes of src that are read: the rest is zeros}"""
    form.expect(3, 5)
    size = form.integer(2)
    if size not in (4, 8, 16):
        raise Unsupported(f"cp.async of {size} bytes")
    target, source = place_of(form, 0, "shared"), place_of(form, 1, "global")
    machine = form.machine
    to, of = Access(form.site, size), Access(form.site, size)
    limited = None
    if len(form.operands) > 3 and "L2::cache_hint" not in form.flags:
        operand = form.operands[3]
        if not (isinstance(operand, Integer) and operand.value == size):
            limited = form.source(3, "b32")
    view, word, words_ = machine.memory.view(1, size), Access(form.site, 4), machine.memory.view(1, 4)
    note = machine.note("global", of)

    def run(g: Group) -> None:
        addresses = source.addresses(g)
        if note is not None:
            note(g, addresses)
        if limited is None:
            rows = machine.memory.rows_to_read(g, of, addresses)
            data = g.full(view.take(rows, 0, None, "clip"))
        else:
            data = _partial(g, addresses, g.full(g.r[limited]))
        machine.copies.start(g, to, target.addresses(g), data)

    def _partial(g: Group, addresses: Array, counts: Array) -> Array:
        """Rows of which only the first bytes are read, four by four."""
        if (counts % 4).any():
            machine.unsupported(form.site, "cp.async that reads a number of bytes that is no multiple of 4")
        addresses = g.full(addresses)
        data = np.zeros((g.n, size), np.uint8)
        for start in range(0, size, 4):
            chosen = np.flatnonzero(counts > start)
            if chosen.size:
                part = g.part(chosen, range(HIDDEN), g.block)
                rows = machine.memory.rows_to_read(part, word, addresses[chosen] + np.uint64(start))
                data[chosen, start : start + 4] = words_.take(rows, 0, None, "clip")
        return data

    return run


def bind_commit(form: "Form") -> Step:
    """cp.async.commit_group"""
    machine = form.machine
    return machine.copies.commit


def bind_wait(form: "Form") -> Step:
    """cp.async.wait_group n and wait_all"""
    machine = form.machine
    still = None if "wait_all" in form.flags else form.integer(0)
    return lambda g: machine.copies.wait(g, still)


SECTION = "Data Movement and Conversion Instructions: Asynchronous copy"
ENTRIES = (
    *(
        Opcode(
            "cp",
            SECTION,
            1,
            bind_cp_async,
            flags=words("shared shared::cta") | CACHING,
            needs=words(f"async {cache} global"),
            role=Role.EFFECT,
        )
        for cache in ("ca", "cg")
    ),
    Opcode("cp", SECTION, 1, bind_commit, needs=words("async commit_group"), role=Role.EFFECT),
    *(
        Opcode("cp", SECTION, 1, bind_wait, needs=words(f"async {kind}"), role=Role.EFFECT)
        for kind in ("wait_group", "wait_all")
    ),
)
