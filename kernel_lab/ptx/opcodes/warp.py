"""shfl, vote, match, redux, elect and activemask: lanes of a warp exchange values."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.form import DTYPES
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.opcodes.lanes import SIGNED, Array, is_signed
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, words
from kernel_lab.ptx.report import Kind

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

LANES = np.arange(32)
FULL = 0xFFFFFFFF


def shuffled(mode: str, lane: Array, amount: Array, control: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether it is in range (the manual's pseudocode for shfl.sync)."""
    offset, clamp, segment = amount & 31, control & 31, (control >> 8) & 31
    low = lane & segment
    last = low | (clamp & ~segment & 31)
    match mode:
        case "up":
            wanted = lane - offset
            inside = wanted >= last
        case "down":
            wanted = lane + offset
            inside = wanted <= last
        case "bfly":
            wanted = lane ^ offset
            inside = wanted <= last
        case _:
            wanted = low | (offset & ~segment)
            inside = wanted <= last
    return np.where(inside, wanted, lane), inside


def bind_shfl(form: "Form") -> Step:
    """shfl.sync.mode.b32 d|p, a, b, c, mask"""
    form.expect(5)
    (mode,) = form.flags - {"sync"}
    first, second = form.pair(0)
    a, b, c = (form.source(i, "b32") for i in (1, 2, 3))
    mask = form.member_mask = form.source(4, "b32")
    target = form.target(first, 32)
    in_range = form.target(second, 1) if second is not None else None
    absent = absent_reporter(form)

    def run(g: Group) -> None:
        r = g.r
        value, amount, control = r[a], r[b], r[c]
        warps = g.warps()
        if warps.whole and amount.shape[0] == 1 and control.shape[0] == 1:
            sources, inside = shuffled(mode, LANES, amount.astype(np.int64), control.astype(np.int64))
            moved = g.full(value).reshape(-1, 32)[:, sources].ravel()
            inside = np.tile(inside, g.n // 32) if in_range is not None else inside
        else:
            sources, inside = shuffled(mode, warps.lane, amount.astype(np.int64), control.astype(np.int64))
            position = warps.table[warps.row, sources & 31]
            missing = position < 0
            if missing.any():
                absent(g, np.flatnonzero(missing), "the lane that is read does not take part")
                position = np.where(missing, np.arange(g.n), position)
            moved = g.full(value)[position]
        _check_own_bit(g, r[mask], absent)
        target.put(r, moved)
        if in_range is not None:
            in_range.put(r, g.full(inside))

    return run


Reporter = Callable[[Group, Array, str], None]


def absent_reporter(form: "Form") -> Reporter:
    """Reports lanes of a warp operation that go wrong."""
    findings, checks, site = form.machine.findings, form.machine.checks, form.site

    def report(g: Group, positions: Array, message: str) -> None:
        if checks.inactive_lanes:
            findings.add(Kind.INACTIVE_LANES, site, g.threads[positions], message)

    return report


def _check_own_bit(g: Group, mask: Array, absent: Reporter) -> None:
    if mask.shape[0] == 1 and int(mask[0]) == FULL:
        return
    out = np.flatnonzero((g.full(mask) >> g.warps().lane.astype(np.uint32)) & np.uint32(1) == 0)
    if out.size:
        absent(g, out, "the mask does not name the lane itself")


def ballots(g: Group, holds: Array) -> Array:
    """Per lane, the bits of the lanes of its warp where the predicate holds."""
    warps = g.warps()
    if warps.whole:
        bits = np.packbits(g.full(holds).reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)
        return np.repeat(bits.ravel(), 32)
    bits = np.zeros(warps.table.shape[0], np.uint32)
    np.bitwise_or.at(bits, warps.row, g.full(holds).astype(np.uint32) << warps.lane.astype(np.uint32))
    return bits[warps.row]


def bind_vote(form: "Form") -> Step:
    """vote.sync.{all,any,uni}.pred d, a, mask and vote.sync.ballot.b32"""
    form.expect(3)
    (mode,) = form.flags - {"sync"}
    predicate, negated = form.predicate(1)
    mask = form.member_mask = form.source(2, "b32")
    target = form.target(0, 32 if mode == "ballot" else 1)
    everyone = np.ones(1, bool)
    absent = absent_reporter(form)

    def run(g: Group) -> None:
        holds = ~g.r[predicate] if negated else g.r[predicate]
        members = g.r[mask]
        _check_own_bit(g, members, absent)
        yes = ballots(g, holds) & members
        if mode == "ballot":
            target.put(g.r, yes)
            return
        present = ballots(g, everyone) & members
        result = {"all": yes == present, "any": yes != 0, "uni": (yes == 0) | (yes == present)}[mode]
        target.put(g.r, result)

    return run


def _teams(g: Group, mask: Array) -> Array:
    """A number per lane that lanes of one warp with one mask share."""
    return (g.warps().row.astype(np.int64) << 32) | g.full(mask).astype(np.int64)


def bind_match(form: "Form") -> Step:
    """match.{any,all}.sync d, a, mask"""
    form.expect(3)
    is_all = "all" in form.flags
    first, second = form.pair(0)
    a = form.source(1, form.type)
    mask = form.member_mask = form.source(2, "b32")
    target = form.target(first, 32)
    agrees = form.target(second, 1) if second is not None else None

    def run(g: Group) -> None:
        values, members, lane = g.full(g.r[a]), g.full(g.r[mask]), g.warps().lane
        teams = _teams(g, g.r[mask])
        _, same = np.unique(
            np.stack([teams.astype(np.uint64), values.astype(np.uint64)], 1), axis=0, return_inverse=True
        )
        bits = np.zeros(same.max() + 1, np.uint32)
        np.bitwise_or.at(bits, same.ravel(), np.uint32(1) << lane.astype(np.uint32))
        equal = bits[same.ravel()]
        if is_all:
            present = ballots(g, np.ones(1, bool)) & members
            everyone = equal == present
            target.put(g.r, np.where(everyone, members, np.uint32(0)))
            if agrees is not None:
                agrees.put(g.r, everyone)
        else:
            target.put(g.r, equal)

    return run


REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def bind_redux(form: "Form") -> Step:
    """redux.sync.op d, a, mask"""
    form.expect(3)
    (op,) = form.flags - {"sync"}
    reduce = REDUCTIONS[op]
    a = form.source(1, form.type)
    mask = form.member_mask = form.source(2, "b32")
    target = form.target(0, 32)
    view = SIGNED[32] if is_signed(form.type) else DTYPES[32]

    def run(g: Group) -> None:
        values = g.full(g.r[a]).view(view)
        warps = g.warps()
        if warps.whole and g.r[mask].shape[0] == 1:
            total = np.repeat(reduce.reduce(values.reshape(-1, 32), axis=1, dtype=view), 32)
        else:
            _, team = np.unique(_teams(g, g.r[mask]), return_inverse=True)
            order = np.argsort(team, kind="stable")
            starts = np.searchsorted(team[order], np.arange(team.max() + 1))
            total = reduce.reduceat(values[order], starts, dtype=view)[team]
        target.put(g.r, np.ascontiguousarray(total).view(np.uint32))

    return run


def bind_elect(form: "Form") -> Step:
    """elect.sync d|p, mask: the lowest lane that takes part."""
    form.expect(2)
    first, second = form.pair(0)
    mask = form.member_mask = form.source(1, "b32")
    leader, is_leader = form.target(first, 32), form.target(second, 1) if second is not None else None

    def run(g: Group) -> None:
        members = ballots(g, np.ones(1, bool)) & g.r[mask]
        lowest = (np.bitwise_count((members & (~members + np.uint32(1))) - np.uint32(1))).astype(np.uint32)
        leader.put(g.r, lowest)
        if is_leader is not None:
            is_leader.put(g.r, lowest == g.warps().lane)

    return run


def bind_activemask(form: "Form") -> Step:
    """activemask: the lanes that are here now."""
    target = form.target(0, 32)
    return lambda g: target.put(g.r, ballots(g, np.ones(1, bool)))


SECTION = "Parallel Synchronization and Communication Instructions"
ENTRIES = (
    *(
        Opcode(
            "shfl",
            "Data Movement and Conversion Instructions: shfl.sync",
            0,
            bind_shfl,
            words("b32"),
            words("sync"),
            words(mode),
            Role.WARP,
        )
        for mode in ("up", "down", "bfly", "idx")
    ),
    *(
        Opcode("vote", SECTION, 1, bind_vote, words("pred"), words("sync"), words(mode), Role.WARP)
        for mode in ("all", "any", "uni")
    ),
    Opcode("vote", SECTION, 1, bind_vote, words("b32"), needs=words("sync ballot"), role=Role.WARP),
    Opcode("match", SECTION, 1, bind_match, words("b32 b64"), words("any all"), words("sync"), Role.WARP),
    *(
        Opcode("redux", SECTION, 1, bind_redux, words("u32 s32"), words("sync"), words(op), Role.WARP)
        for op in ("add", "min", "max")
    ),
    *(
        Opcode("redux", SECTION, 1, bind_redux, words("b32"), words("sync"), words(op), Role.WARP)
        for op in ("and", "or", "xor")
    ),
    Opcode("elect", SECTION, 2, bind_elect, needs=words("sync"), role=Role.WARP),
    Opcode("activemask", SECTION, 1, bind_activemask, words("b32"), role=Role.EFFECT),
)
