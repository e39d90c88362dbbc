"""Barriers of the CTA and the warp, fences, and instructions that only hint."""

from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.barriers import Arrival
from kernel_lab.ptx.group import Array, Group
from kernel_lab.ptx.opcodes.memory import bind_nothing
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, Unsupported, words
from kernel_lab.ptx.report import Kind

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

NONE = frozenset[str]()


def _arrives(form: "Form", arrival: Arrival) -> Step:
    barriers = form.machine.barriers
    form.barrier = lambda g, following: barriers.arrive(g, following, arrival)
    return lambda g: None  # noqa: ARG005  (the block's end does it)


def bind_barrier(form: "Form") -> Step:
    """bar.sync a{, b}, bar.arrive a, b"""
    form.expect(1, 2)
    waits = "arrive" not in form.flags
    barrier = form.source(0, "u32")
    count = form.source(1, "u32") if len(form.operands) == 2 else None
    if not waits and count is None:
        raise Unsupported("bar.arrive needs a thread count")
    return _arrives(form, Arrival(form.site, barrier, count, waits))


def bind_barrier_reduce(form: "Form") -> Step:
    """bar.red.popc.u32 d, a{, b}, p and bar.red.{and,or}.pred"""
    form.expect(3, 4)
    op = next(iter(form.flags & words("popc and or")))
    barrier = form.source(1, "u32")
    count = form.source(2, "u32") if len(form.operands) == 4 else None
    predicate = form.predicate(len(form.operands) - 1)
    target = form.target(0, 32 if op == "popc" else 1)

    def reduce(g: Group, held: Array, came: Array) -> None:
        match op:
            case "popc":
                target.put(g.r, held.astype(np.uint32))
            case "and":
                target.put(g.r, held == came)
            case _:
                target.put(g.r, held > 0)

    return _arrives(form, Arrival(form.site, barrier, count, True, predicate, reduce))  # noqa: FBT003


def bind_warp_barrier(form: "Form") -> Step:
    """bar.warp.sync mask: what the named lanes wrote is known to all of them."""
    form.expect(1)
    mask = form.member_mask = form.source(0, "b32")
    machine, findings, site = form.machine, form.machine.findings, form.site

    def run(g: Group) -> None:
        members, order = g.r[mask], machine.order
        warps = g.warps()
        if members.shape[0] == 1 and int(members[0]) == 0xFFFFFFFF:
            order.warp_barrier(warps.ids)
            return
        own = (g.full(members) >> warps.lane.astype(np.uint32)) & np.uint32(1)
        if not own.all() and machine.checks.inactive_lanes:
            findings.add(Kind.INACTIVE_LANES, site, g.threads[own == 0], "the mask does not name the lane itself")
        alive = machine.alive.reshape(-1, 32)[warps.ids] @ (np.int64(1) << np.arange(32))
        for index, warp in enumerate(warps.ids.tolist()):
            for value in np.unique(g.full(members)[warps.row == index]).tolist():
                lanes = g.lanes[(warps.row == index) & (g.full(members) == value)]
                if int(alive[index]) & ~value == 0:
                    order.warp_barrier(np.array([warp]))
                elif order.uses_clocks:
                    order.join(lanes, lanes)

    return run


def bind_fence(form: "Form") -> Step:
    """A fence orders one thread's accesses; every access here is in program order already."""
    return bind_nothing(form)


SECTION = "Parallel Synchronization and Communication Instructions"
SCOPES = words("cta cluster gpu sys")
BARRIER = words("cta aligned")
ENTRIES = (
    *(
        Opcode(name, SECTION, 0, bind_barrier, NONE | {""}, BARRIER, words("sync"), Role.BARRIER)
        for name in ("bar", "barrier")
    ),
    *(
        Opcode(name, SECTION, 1, bind_barrier, NONE | {""}, BARRIER, words("arrive"), Role.BARRIER)
        for name in ("bar", "barrier")
    ),
    *(
        Opcode(name, SECTION, 1, bind_barrier_reduce, types, BARRIER, words(f"red {op}"), Role.BARRIER)
        for name in ("bar", "barrier")
        for op, types in (("popc", words("u32")), ("and", words("pred")), ("or", words("pred")))
    ),
    Opcode("bar", SECTION, 1, bind_warp_barrier, needs=words("warp sync"), role=Role.WARP),
    Opcode("membar", SECTION, 1, bind_fence, flags=words("cta gl sys"), role=Role.EFFECT),
    Opcode("fence", SECTION, 1, bind_fence, flags=words("sc acq_rel acquire release") | SCOPES, role=Role.EFFECT),
    Opcode(
        "fence",
        SECTION,
        2,
        bind_fence,
        flags=words(
            "async async.global alias generic shared::cta async::generic acquire release sync_restrict::shared::cta"
        )
        | SCOPES,
        needs=words("proxy"),
        role=Role.EFFECT,
    ),
    Opcode(
        "fence", SECTION, 2, bind_fence, flags=words("release cluster"), needs=words("mbarrier_init"), role=Role.EFFECT
    ),
    Opcode("setmaxnreg", "Miscellaneous Instructions", 2, bind_nothing, words("u32"), words("inc dec sync aligned")),
    Opcode("griddepcontrol", SECTION, 2, bind_nothing, flags=words("launch_dependents wait")),
    Opcode("pmevent", "Miscellaneous Instructions", 1, bind_nothing, flags=words("mask")),
)
