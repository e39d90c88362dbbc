"""cp.async.bulk in one dimension, and cp.async's arrival at an mbarrier."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.copies import Copy, mark
from kernel_lab.ptx.group import HIDDEN, LANE, Array, Group
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.memory.shadow import PENDING
from kernel_lab.ptx.opcodes.mbarrier import shared_addresses
from kernel_lab.ptx.opcodes.memory import CACHING, bind_nothing, place_of
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, words
from kernel_lab.ptx.report import Kind

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

ROW_BYTES = 16
"""Sizes and addresses of a bulk copy are multiples of it."""


def rows_group(g: Group, lane: int, rows: int) -> Group:
    """One lane, as often as its copy has rows."""
    registers = [np.repeat(g.full(g.r[slot])[lane : lane + 1], rows) for slot in range(HIDDEN)]
    return Group(registers, rows, g.block)


def _rows(bytes_: int, shared_bytes: int) -> int:
    """The rows of a copy; of one that shared memory cannot hold, enough to run past its end."""
    return min(bytes_, shared_bytes) // ROW_BYTES + (bytes_ > shared_bytes)


def _steps(start: Array, rows: int) -> Array:
    return start + (np.arange(rows) * ROW_BYTES).astype(start.dtype)


def bind_to_shared(form: "Form") -> Step:
    """cp.async.bulk.shared.global.mbarrier::complete_tx::bytes [dst], [src], size, [mbarrier]"""
    form.expect(4, 5)
    target, source = place_of(form, 0, "shared").addresses, place_of(form, 1, "global").addresses
    size, barrier = form.source(2, "u32"), place_of(form, 3, "shared").addresses
    machine = form.machine
    access, object_access = Access(form.site, ROW_BYTES), Access(form.site, 8, strong=True)
    check_size = _size_check(form)

    def run(g: Group) -> None:
        to, of, sizes = g.full(target(g)), g.full(source(g)), g.full(g.r[size]).tolist()
        check_size(g, sizes)
        copies = []
        for lane, bytes_ in enumerate(sizes):
            rows = _rows(bytes_, machine.shared.stride)
            inner = rows_group(g, lane, rows)
            copies.append(_start(inner, _steps(of[lane : lane + 1], rows), _steps(to[lane : lane + 1], rows)))
        machine.mbarriers.receive(g, object_access, barrier(g), copies, sizes)

    def _start(g: Group, of: Array, to: Array) -> Copy:
        memory, shared = machine.memory, machine.shared
        if not g.n:
            return Copy(access, g.r[LANE], g.r[0], g.r[LANE], np.zeros((0, ROW_BYTES), np.uint8), g.r[LANE])
        data = memory.view(1, ROW_BYTES).take(memory.rows_to_read(g, access, of), 0, None, "clip")
        rows, allowed = shared.rows_to_write(g, access, to)
        copy = Copy(access, g.r[LANE], g.r[0], rows, data, g.r[LANE])
        if allowed is not None:
            copy = copy.part(allowed)
        mark(shared, access, copy.rows, copy.threads + shared.order.stamp() + PENDING)
        return copy

    return run


def _size_check(form: "Form") -> Callable[[Group, list[int]], None]:
    machine, site = form.machine, form.site

    def check(g: Group, sizes: list[int]) -> None:
        bad = np.flatnonzero(np.array(sizes) % ROW_BYTES)
        if bad.size and machine.checks.alignment:
            machine.findings.add(Kind.MISALIGNED, site, g.threads[bad], "the size of a bulk copy is a multiple of 16")

    return check


def bind_to_global(form: "Form") -> Step:
    """cp.async.bulk.global.shared::cta.bulk_group [dst], [src], size: done at once, one of the orders it may take"""
    form.expect(3, 4)
    target, source = place_of(form, 0, "global").addresses, place_of(form, 1, "shared").addresses
    size, machine = form.source(2, "u32"), form.machine
    access = Access(form.site, ROW_BYTES)
    check_size = _size_check(form)

    def run(g: Group) -> None:
        to, of, sizes = g.full(target(g)), g.full(source(g)), g.full(g.r[size]).tolist()
        check_size(g, sizes)
        memory, shared = machine.memory, machine.shared
        for lane, bytes_ in enumerate(sizes):
            rows = _rows(bytes_, machine.shared.stride)
            if rows:
                inner = rows_group(g, lane, rows)
                read = shared.rows_to_read(inner, access, _steps(of[lane : lane + 1], rows))
                data = shared.view(1, ROW_BYTES).take(read, 0, None, "clip")
                addresses = _steps(to[lane : lane + 1], rows)
                written, allowed = memory.rows_to_write(inner, access, addresses)
                memory.store(inner, access, addresses, written, memory.view(1, ROW_BYTES), data, allowed)

    return run


def bind_arrive_after(form: "Form") -> Step:
    """cp.async.mbarrier.arrive{.noinc} [a]: without .noinc the arrival is added to what the phase expects"""
    form.expect(1)
    addresses, machine = shared_addresses(form, 0), form.machine
    access, counted = Access(form.site, 8, strong=True), "noinc" in form.flags
    return lambda g: machine.mbarriers.arrive_after_copies(g, access, addresses(g), counted=counted)


SECTION = "Data Movement and Conversion Instructions: Asynchronous copy"
EFFECT = Role.EFFECT
BYTES = "async bulk mbarrier::complete_tx::bytes global"
ENTRIES = (
    Opcode("cp", SECTION, 2, bind_to_shared, flags=CACHING, needs=words(f"{BYTES} shared::cluster"), role=EFFECT),
    Opcode("cp", SECTION, 2, bind_to_shared, flags=CACHING, needs=words(f"{BYTES} shared::cta"), role=EFFECT),
    Opcode(
        "cp", SECTION, 2, bind_to_global, flags=CACHING, needs=words("async bulk global shared::cta bulk_group"),
        role=EFFECT,
    ),
    Opcode("cp", SECTION, 2, bind_nothing, needs=words("async bulk commit_group"), role=EFFECT),
    Opcode("cp", SECTION, 2, bind_nothing, flags=words("read"), needs=words("async bulk wait_group"), role=EFFECT),
    Opcode("cp", SECTION, 2, bind_nothing, flags=CACHING, needs=words("async bulk prefetch L2 global"), role=EFFECT),
    Opcode(
        "cp", SECTION, 2, bind_arrive_after, words("b64"), words("noinc shared shared::cta"),
        words("async mbarrier arrive"), EFFECT,
    ),
)  # fmt: skip
