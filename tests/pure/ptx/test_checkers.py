"""Every checker sees its bug and lets it through once it is switched off; right code has no findings."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from kernel_lab.ptx.api import ALL, NONE, Checks, Kind, Verdict
from tests.pure.ptx.lines import STORE, ran

TILE = ".shared .align 16 .b8 tile[1024]; mov.u32 %r1, tile; mad.lo.u32 %r2, %i, 4, %r1;"
MIRROR = "xor.b32 %r3, %i, 63; mad.lo.u32 %r3, %r3, 4, %r1;"
NEXT = "xor.b32 %r3, %i, 1; mad.lo.u32 %r3, %r3, 4, %r1;"
INPUT = "mul.wide.u32 %d0, %i, 4; add.s64 %d0, %in, %d0;"
OUTPUT = "mul.wide.u32 %d1, %i, 4; add.s64 %d1, %out, %d1;"
BARRIERS = ".shared .align 8 .b8 bars[16]; mov.u32 %r10, bars;"


@dataclass(frozen=True)
class Bug:
    """A body with one bug: what it is, and the switch of its checker."""

    name: str
    kind: Kind
    switch: str
    body: str
    block: int = 32
    grid: int = 1
    words: int | None = None


BUGS = (
    Bug("read past the end", Kind.OUT_OF_BOUNDS, "bounds", f"{INPUT} ld.global.u32 %r0, [%d0+4]; {STORE}"),
    Bug("read before the start", Kind.OUT_OF_BOUNDS, "bounds", f"{INPUT} ld.global.u32 %r0, [%d0+-4]; {STORE}"),
    Bug("null", Kind.OUT_OF_BOUNDS, "bounds", f"ld.global.u32 %r0, [8]; {STORE}"),
    Bug(
        "shared past the end", Kind.OUT_OF_BOUNDS, "bounds",
        f"{TILE} st.shared.u32 [%r2+900], %i; mov.u32 %r0, 1; {STORE}",
    ),
    Bug(
        "wild shared", Kind.OUT_OF_BOUNDS, "bounds",
        f"mov.u32 %r1, 0x40000000; st.shared.u32 [%r1], %i; mov.u32 %r0, 1; {STORE}",
    ),
    Bug(
        "write to an input", Kind.WRITE_TO_INPUT, "bounds",
        f"{INPUT} st.global.u32 [%d0], %i; mov.u32 %r0, 1; {STORE}",
    ),
    Bug("half a word off", Kind.MISALIGNED, "alignment", f"{INPUT} ld.global.u32 %r0, [%d0+2]; {STORE}", words=40),
    Bug(
        "shared off by two", Kind.MISALIGNED, "alignment",
        f"{TILE} st.shared.u32 [%r2+2], %i; mov.u32 %r0, 1; {STORE}",
    ),
    Bug(
        "read of the output", Kind.UNINITIALISED_GLOBAL, "uninitialised_global",
        f"{OUTPUT} ld.global.u32 %r0, [%d1]; {STORE}",
    ),
    Bug(
        "read of blank shared", Kind.UNINITIALISED_SHARED, "uninitialised_shared",
        f"{TILE} ld.shared.u32 %r0, [%r2]; {STORE}",
    ),
    Bug(
        "read of blank local", Kind.UNINITIALISED_LOCAL, "uninitialised_local",
        f".local .align 8 .b8 depot[16]; mov.u32 %r1, depot; ld.local.u32 %r0, [%r1+4]; {STORE}",
    ),
    Bug("unwritten register", Kind.UNINITIALISED_REGISTER, "uninitialised_register", f"add.u32 %r0, %r7, 1; {STORE}"),
    Bug(
        "register written on one path", Kind.UNINITIALISED_REGISTER, "uninitialised_register",
        f"setp.lt.u32 %p, %i, 30; @%p mov.u32 %r7, 5; mov.u32 %r6, %r7; add.u32 %r0, %r6, 1; {STORE}",
    ),
    Bug(
        "no barrier before a read", Kind.SHARED_RACE, "shared_race",
        f"{TILE} {MIRROR} st.shared.u32 [%r2], %i; ld.shared.u32 %r0, [%r3]; {STORE}", 64,
    ),
    Bug(
        "no barrier before a write", Kind.SHARED_RACE, "shared_race",
        f"{TILE} {MIRROR} st.shared.u32 [%r2], %i; bar.sync 0; ld.shared.u32 %r0, [%r3]; "
        f"st.shared.u32 [%r2], %r0; {STORE}", 64,
    ),
    Bug(
        "no __syncwarp", Kind.SHARED_RACE, "shared_race",
        f"{TILE} {NEXT} st.shared.u32 [%r2], %i; ld.shared.u32 %r0, [%r3]; {STORE}",
    ),
    Bug(
        "a shuffle is no barrier", Kind.SHARED_RACE, "shared_race",
        f"{TILE} {NEXT} st.shared.u32 [%r2], %i; shfl.sync.idx.b32 %r5, %i, 0, 31, -1; "
        f"ld.shared.u32 %r0, [%r3]; {STORE}",
    ),
    Bug(
        "__syncwarp does not reach another warp", Kind.SHARED_RACE, "shared_race",
        f"{TILE} {MIRROR} st.shared.u32 [%r2], %i; bar.warp.sync -1; ld.shared.u32 %r0, [%r3]; {STORE}", 64,
    ),
    Bug(
        "half a __syncwarp", Kind.SHARED_RACE, "shared_race",
        f"""{TILE} xor.b32 %r3, %i, 16; mad.lo.u32 %r3, %r3, 4, %r1; st.shared.u32 [%r2], %i;
        setp.lt.u32 %p, %i, 16; selp.b32 %r4, 0xffff, 0xffff0000, %p; bar.warp.sync %r4;
        ld.shared.u32 %r0, [%r3]; {STORE}""",
    ),
    Bug(
        "one byte of a word", Kind.SHARED_RACE, "shared_race",
        f"""{TILE} st.shared.u32 [%r2], %i; bar.sync 0; add.u32 %r4, %r1, 5; cvt.u16.u32 %h1, %i; setp.eq.u32 %p, %i, 9;
        @%p st.shared.u8 [%r4], %h1; ld.shared.u32 %r0, [%r2]; {STORE}""",
    ),
    Bug(
        "two values in one place", Kind.SHARED_RACE, "shared_race",
        f"{TILE} st.shared.u32 [%r1], %i; mov.u32 %r0, 1; {STORE}",
    ),
    Bug(
        "a named barrier that forgets a warp", Kind.SHARED_RACE, "shared_race",
        f"""{TILE} {MIRROR} st.shared.u32 [%r2], %i; setp.lt.u32 %p, %i, 64; @!%p bra REST; bar.sync 1, 64; bra JOIN;
        REST: bar.sync 2, 64; JOIN: xor.b32 %r3, %i, 64; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r0, [%r3];
        {STORE}""", 128,
    ),
    Bug(
        "two CTAs count without atomics", Kind.GLOBAL_RACE, "global_race",
        f"""setp.eq.u32 %p, %i, 0; mov.u32 %r0, 1; {STORE} add.u32 %r5, %c, 1;
        @%p st.global.u32 [%out], %r5;""", 32, 2,
    ),
    Bug(
        "one value from two CTAs", Kind.GLOBAL_RACE, "global_race",
        f"mov.u32 %r0, 1; {STORE} setp.eq.u32 %p, %i, 1; @%p st.global.u32 [%out+252], 5;", 32, 2,
    ),
    Bug(
        "reading what another CTA writes", Kind.GLOBAL_RACE, "global_race",
        f"mov.u32 %r0, 1; {STORE} xor.b32 %r5, %c, 1; mad.lo.u32 %r5, %r5, %r18, %i; mul.wide.u32 %d2, %r5, 4; "
        "add.s64 %d2, %out, %d2; ld.global.u32 %r6, [%d2];", 32, 2,
    ),
    Bug(
        "a plain read of an atomic counter", Kind.GLOBAL_RACE, "global_race",
        f"mov.u32 %r0, 1; {STORE} bar.sync 0; red.global.add.u32 [%out], 1; ld.global.u32 %r6, [%out];", 32, 2,
    ),
    Bug(
        "neighbours in one CTA", Kind.GLOBAL_RACE, "global_race",
        f"mov.u32 %r0, %i; {STORE} xor.b32 %r5, %i, 63; mul.wide.u32 %d2, %r5, 4; add.s64 %d2, %out, %d2; "
        "ld.global.u32 %r6, [%d2];", 64,
    ),
    Bug(
        "a barrier in a branch", Kind.DIVERGENT_BARRIER, "divergent_barrier",
        f"mov.u32 %r0, 1; setp.lt.u32 %p, %i, 32; @!%p bra PAST; bar.sync 0; PAST: {STORE}", 64,
    ),
    Bug(
        "two barriers for one", Kind.DIVERGENT_BARRIER, "divergent_barrier",
        f"mov.u32 %r0, 1; setp.lt.u32 %p, %i, 32; @!%p bra ELSE; bar.sync 0; bra JOIN; ELSE: bar.sync 0; "
        f"JOIN: {STORE}", 64,
    ),
    Bug(
        "some return before the barrier", Kind.DIVERGENT_BARRIER, "divergent_barrier",
        f"mov.u32 %r0, 1; {STORE} setp.gt.u32 %p, %i, 40; @%p ret; bar.sync 0;", 64,
    ),
    Bug(
        "__syncwarp in a branch", Kind.DIVERGENT_BARRIER, "divergent_barrier",
        f"mov.u32 %r0, 1; setp.lt.u32 %p, %i, 7; @!%p bra PAST; bar.warp.sync -1; PAST: {STORE}",
    ),
    Bug(
        "a full mask in a branch", Kind.INACTIVE_LANES, "inactive_lanes",
        f"mov.u32 %r0, 1; setp.lt.u32 %p, %i, 16; @!%p bra PAST; shfl.sync.down.b32 %r0, %i, 4, 31, -1; PAST: {STORE}",
    ),
    Bug(
        "a lane outside its mask", Kind.INACTIVE_LANES, "inactive_lanes",
        f"shfl.sync.idx.b32 %r0, %i, 0, 31, 0x7fffffff; {STORE}",
    ),
    Bug(
        "a vote in a branch", Kind.INACTIVE_LANES, "inactive_lanes",
        f"mov.u32 %r0, 1; setp.lt.u32 %p, %i, 16; @!%p bra PAST; vote.sync.ballot.b32 %r0, %p, -1; PAST: {STORE}",
    ),
    Bug(
        "a copy that nobody waited for", Kind.ASYNC_BEFORE_WAIT, "async_before_wait",
        f"{TILE} {INPUT} st.shared.u32 [%r2], 0; cp.async.ca.shared.global [%r2], [%d0], 4; cp.async.commit_group; "
        f"ld.shared.u32 %r0, [%r2]; {STORE}",
    ),
    Bug(
        "a wait for one group too few", Kind.ASYNC_BEFORE_WAIT, "async_before_wait",
        f"{TILE} {INPUT} cp.async.ca.shared.global [%r2], [%d0], 4; cp.async.commit_group; cp.async.wait_group 1; "
        f"st.shared.u32 [%r2], 3; ld.shared.u32 %r0, [%r2]; {STORE}",
    ),
    Bug(
        "an mbarrier that nobody made", Kind.BARRIER_MISUSE, "barrier_misuse",
        f"{BARRIERS} setp.eq.u32 %p, %i, 0; @%p st.shared.u64 [%r10], 0; bar.sync 0; "
        f"@%p mbarrier.arrive.shared.b64 _, [%r10]; mov.u32 %r0, 1; {STORE}",
    ),
    Bug(
        "a thread count that is no multiple of a warp", Kind.BARRIER_MISUSE, "barrier_misuse",
        f"mov.u32 %r0, 1; bar.sync 1, 40; {STORE}", 40,
    ),
    Bug(
        "a missing tail", Kind.UNCOVERED_OUTPUT, "output_coverage",
        f"mov.u32 %r0, 1; setp.gt.u32 %p, %i, 30; @%p ret; {STORE}",
    ),
)  # fmt: skip


def _report(bug: Bug, checks: Checks):  # type: ignore[no-untyped-def]
    given = np.arange(bug.words or bug.block * bug.grid, dtype=np.uint32)
    return ran(bug.body, bug.block, bug.grid, checks=checks, given=given)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found_and_nothing_else(bug: Bug) -> None:
    report = _report(bug, ALL)
    assert report.kinds() == {bug.kind}
    assert report.verdict is Verdict.FAIL
    assert all(found.count >= 1 and found.message for found in report.diagnostics)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_switched_off_checker_lets_its_bug_through(bug: Bug) -> None:
    report = _report(bug, replace(ALL, **{bug.switch: False}))
    assert report.diagnostics == ()
    assert report.verdict is Verdict.PASS


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_checker_needs_no_other(bug: Bug) -> None:
    assert bug.kind in _report(bug, Checks.only(bug.switch)).kinds()
    assert _report(bug, NONE).verdict is Verdict.PASS


def test_every_switch_has_a_bug() -> None:
    assert {bug.switch for bug in BUGS} == set(Checks.__dataclass_fields__)


CLEAN = {
    "barrier": f"{TILE} {MIRROR} st.shared.u32 [%r2], %i; bar.sync 0; ld.shared.u32 %r0, [%r3]; {STORE}",
    "own word": f"{TILE} st.shared.u32 [%r2], %i; ld.shared.u32 %r0, [%r2]; st.shared.u32 [%r2], %r0; {STORE}",
    "syncwarp": f"{TILE} {NEXT} st.shared.u32 [%r2], %i; bar.warp.sync -1; ld.shared.u32 %r0, [%r3]; bar.warp.sync -1; "
    f"st.shared.u32 [%r3], %r0; {STORE}",
    "one value in one place": f"{TILE} st.shared.u32 [%r1], 5; bar.sync 0; ld.shared.u32 %r0, [%r1]; {STORE}",
    "atomics": f"{TILE} setp.eq.u32 %p, %i, 0; @%p st.shared.u32 [%r1], 0; bar.sync 0; "
    f"atom.shared.add.u32 %r4, [%r1], 1; "
    f"bar.sync 0; ld.shared.u32 %r0, [%r1]; {STORE}",
    "named barriers": f"""{TILE} setp.lt.u32 %p, %i, 32; @!%p bra CONSUMER;
    st.shared.u32 [%r2], %i; bar.arrive 1, 64; mov.u32 %r0, 0; bra JOIN;
    CONSUMER: bar.sync 1, 64; {NEXT.replace("1;", "33;", 1)} ld.shared.u32 %r0, [%r3]; JOIN: {STORE}""",
    "half a syncwarp for each half": f"""{TILE} {NEXT} st.shared.u32 [%r2], %i;
    and.b32 %r5, %i, 31; setp.lt.u32 %p, %r5, 16; selp.b32 %r4, 0xffff, 0xffff0000, %p; bar.warp.sync %r4;
    ld.shared.u32 %r0, [%r3]; {STORE}""",
    "mbarrier": f"""{BARRIERS} {TILE} {MIRROR} setp.eq.u32 %p, %i, 0; @%p mbarrier.init.shared.b64 [%r10], 64;
    bar.sync 0;
    st.shared.u32 [%r2], %i; mbarrier.arrive.shared.b64 %d5, [%r10];
    WAIT: mbarrier.try_wait.shared.b64 %q, [%r10], %d5; @!%q bra WAIT; ld.shared.u32 %r0, [%r3]; {STORE}""",
    "bytes of one word, each by its thread": f"""{TILE} add.u32 %r4, %r1, %i; cvt.u16.u32 %h1, %i;
    st.shared.u8 [%r4], %h1;
    ld.shared.u8 %h2, [%r4]; cvt.u32.u16 %r0, %h2; {STORE}""",
    "register written on both paths": f"""setp.lt.u32 %p, %i, 9; @%p bra A; mov.u32 %r7, 1; bra B; A: mov.u32 %r7, 2; B:
    mov.u32 %r0, %r7; {STORE}""",
    "register written and read under one guard": f"""setp.lt.u32 %p, %i, 9; mov.u32 %r0, 0; @%p mov.u32 %r7, 1;
    @%p add.u32 %r0, %r7, 1; {STORE}""",
    "copies of a register that nobody uses": f"mov.u32 %r6, %r7; mov.u32 %r0, 1; {STORE}",
    "whole CTAs leave": f"mov.u32 %r0, 1; {STORE} setp.eq.u32 %p, %c, 1; @%p ret; bar.sync 0;",
    "warps leave before a counted barrier": f"mov.u32 %r0, 1; {STORE} setp.gt.u32 %p, %i, 31; @%p ret; bar.sync 1, 32;",
    "a shuffle within its mask": f"""mov.u32 %r0, 1; and.b32 %r5, %i, 31; setp.lt.u32 %p, %r5, 16; @!%p bra PAST;
    shfl.sync.bfly.b32 %r0, %i, 4, 31, 0xffff; PAST: {STORE}""",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_right_code_has_no_findings(name: str) -> None:
    report = ran(CLEAN[name], 64, 3)
    assert report.diagnostics == ()
    assert report.verdict is Verdict.PASS


def test_a_diagnostic_names_line_lane_cta_address_and_buffer() -> None:
    report = ran(
        f"{INPUT}\nsetp.gt.u32 %p, %i, 5;\nmov.u32 %r0, 1;\n@%p ld.global.u32 %r0, [%d0];\n{STORE}",
        given=np.arange(6, dtype="u4"),
    )
    (found,) = report.diagnostics
    assert (found.kind, found.line, found.opcode) == (Kind.OUT_OF_BOUNDS, 10, "ld.global.u32")
    assert (found.lane, found.cta, found.count, found.buffer) == (6, 0, 26, "in")
    assert found.address == 65536 + 24
    assert found.source_line is None
    assert "0 bytes past the end of in" in found.message


HANDOFF = f"""
    mov.u32 %r0, 1; {STORE} setp.eq.u32 %p, %i, 0; setp.eq.u32 %q, %c, 0; @!%q bra READ;
    bar.sync 0; fence.acq_rel.gpu; @%p red.release.gpu.global.add.u32 [%out+256], 1; bra END;
    READ: @!%p bra END;
    SPIN: ld.acquire.gpu.global.u32 %r5, [%out+256]; setp.eq.u32 %q, %r5, 0; @%q bra SPIN;
    ld.global.u32 %r6, [%out+4]; END:"""


def test_a_flag_between_ctas_is_unproven_and_no_verdict() -> None:
    report = ran(HANDOFF, 32, 2, size=65, role="inout", budget=100_000)
    assert report.kinds() == {Kind.UNPROVEN_HANDOFF}
    assert report.verdict is Verdict.UNSUPPORTED


def test_without_the_flag_it_is_a_race() -> None:
    body = HANDOFF.replace("@%q bra SPIN;", "").replace("ld.acquire.gpu.global.u32 %r5, [%out+256]", "mov.u32 %r5, 1")
    report = ran(body, 32, 2, size=65, role="inout")
    assert report.kinds() == {Kind.GLOBAL_RACE}


def test_waiting_for_an_mbarrier_that_nobody_completes_is_a_deadlock() -> None:
    body = f"""{BARRIERS} setp.eq.u32 %p, %i, 0; @%p mbarrier.init.shared.b64 [%r10], 2; bar.sync 0;
    @%p mbarrier.arrive.shared.b64 _, [%r10];
    WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%r10], 0; @!%q bra WAIT; mov.u32 %r0, 1; {STORE}"""
    report = ran(body)
    assert report.verdict is Verdict.FAIL
    assert Kind.DEADLOCK in report.kinds()


BULK = f"""{BARRIERS} .shared .align 16 .b8 stage[256]; mov.u32 %r1, stage; setp.eq.u32 %p, %i, 0;
    @%p mbarrier.init.shared.b64 [%r10], 1; bar.sync 0;
    @%p mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 128;
    @%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%in], 128, [%r10];
    WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%r10], 0; @!%q bra WAIT;
    mad.lo.u32 %r2, %i, 4, %r1; ld.shared.u32 %r0, [%r2]; {STORE}"""


def test_a_bulk_copy_is_there_for_who_waited() -> None:
    report = ran(BULK)
    assert report.verdict is Verdict.PASS, report.diagnostics
    assert report.outputs["out"].tolist() == list(range(32))


def test_a_bulk_copy_is_not_there_for_who_did_not() -> None:
    assert ran(BULK.replace("@!%q bra WAIT;", "")).verdict is Verdict.PASS  # the first try succeeds: the wait is one
    skipped = BULK.replace("WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%r10], 0; @!%q bra WAIT;", "")
    assert Kind.ASYNC_BEFORE_WAIT in ran(skipped).kinds()


def test_a_bulk_copy_with_fewer_bytes_than_expected_is_waited_for_in_vain() -> None:
    report = ran(BULK.replace("[%in], 128, [%r10]", "[%in], 112, [%r10]"))
    assert Kind.DEADLOCK in report.kinds()
