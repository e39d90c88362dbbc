"""The interpreter: divergence, spaces, barriers, waves, statistics, limits."""

import numpy as np
import pytest

from kernel_lab.ptx.api import Buffer, Kind, Launch, Verdict, run
from tests.pure.ptx.lines import STORE, ran, text_of


def _out(body: str, block: int = 32, grid: int = 1, **more: object) -> list[int]:
    report = ran(body, block, grid, **more)  # type: ignore[arg-type]
    assert report.verdict is Verdict.PASS, report.diagnostics
    found: list[int] = report.outputs["out"].tolist()
    return found


def test_lanes_that_diverge_come_together_again() -> None:
    body = f"""
    and.b32 %r1, %i, 3; setp.eq.u32 %p, %r1, 0; @%p bra FOUR;
    setp.lt.u32 %q, %r1, 2; @%q bra ONE; mov.u32 %r0, 100; bra JOIN;
    ONE: mov.u32 %r0, 1; bra JOIN;
    FOUR: mov.u32 %r0, 4;
    JOIN: add.u32 %r0, %r0, 1000; {STORE}"""
    assert _out(body, 40) == [1000 + {0: 4, 1: 1}.get(i & 3, 100) for i in range(40)]


def test_every_lane_loops_as_often_as_it_wants() -> None:
    body = f"""
    mov.u32 %r0, 0; mov.u32 %r1, 0;
    LOOP: setp.ge.u32 %p, %r1, %i; @%p bra DONE; add.u32 %r1, %r1, 1; add.u32 %r0, %r0, %r1; bra LOOP;
    DONE: {STORE}"""
    assert _out(body, 70, 3) == [i * (i + 1) // 2 for _ in range(3) for i in range(70)]


def test_nested_loops_diverge_inside_each_other() -> None:
    body = f"""
    mov.u32 %r0, 0; mov.u32 %r1, 0;
    OUTER: setp.ge.u32 %p, %r1, %i; @%p bra DONE; mov.u32 %r2, 0;
    INNER: setp.ge.u32 %q, %r2, %r1; @%q bra NEXT; add.u32 %r0, %r0, 1; add.u32 %r2, %r2, 1; bra INNER;
    NEXT: add.u32 %r1, %r1, 1; bra OUTER;
    DONE: {STORE}"""
    assert _out(body, 20) == [i * (i - 1) // 2 for i in range(20)]


def test_guarded_instructions_keep_the_old_value_elsewhere() -> None:
    body = f"mov.u32 %r0, 7; setp.gt.u32 %p, %i, 9; @%p mov.u32 %r0, 8; @!%p add.u32 %r0, %r0, %i; {STORE}"
    assert _out(body) == [8 if i > 9 else 7 + i for i in range(32)]


def test_guarded_loads_touch_only_their_lanes() -> None:
    body = f"""
    setp.lt.u32 %p, %i, 4; mov.u32 %r0, 50; mul.wide.u32 %d0, %i, 4; add.s64 %d0, %in, %d0;
    @%p ld.global.u32 %r0, [%d0]; {STORE}"""
    assert _out(body, given=np.arange(4, dtype=np.uint32)) == [0, 1, 2, 3] + [50] * 28


def test_a_guarded_return_ends_its_lanes() -> None:
    body = f"mov.u32 %r0, 1; setp.gt.u32 %p, %i, 4; {STORE} @%p ret; mov.u32 %r0, 2; {STORE}"
    assert _out(body, role="inout") == [2] * 5 + [1] * 27


def test_a_table_of_branches() -> None:
    body = f"""
    and.b32 %r1, %i, 1; brx.idx %r1, T; T: .branchtargets A, B;
    A: mov.u32 %r0, 10; bra END; B: mov.u32 %r0, 20; END: {STORE}"""
    assert _out(body) == [10, 20] * 16


def test_special_registers_in_three_dimensions() -> None:
    body = """
    mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y;
    mad.lo.u32 %r5, %r2, %r4, %r1; mad.lo.u32 %r5, %r5, %r3, %i;
    mov.u32 %r6, %ctaid.y; mov.u32 %r7, %nctaid.x; mad.lo.u32 %r6, %r6, %r7, %c; mul.lo.u32 %r6, %r6, 30;
    add.u32 %r6, %r6, %r5; mul.wide.u32 %d0, %r6, 4; add.s64 %d0, %out, %d0;
    mov.u32 %r8, %laneid; mad.lo.u32 %r8, %r6, 100, %r8; st.global.u32 [%d0], %r8;"""
    arguments = (Buffer(np.zeros(1, "u4"), "in", "in"), Buffer(np.zeros(180, "u4"), "out", "out"))
    report = run(text_of(body), Launch("k", (3, 2, 1), (5, 3, 2), arguments))
    assert report.verdict is Verdict.PASS, report.diagnostics
    assert report.outputs["out"].tolist() == [100 * n + n % 30 for n in range(180)]


def test_lane_masks() -> None:
    body = f"mov.u32 %r0, %lanemask_lt; mov.u32 %r1, %lanemask_ge; xor.b32 %r0, %r0, %r1; {STORE}"
    assert _out(body, 64) == [0xFFFFFFFF] * 64
    assert _out(f"mov.u32 %r0, %lanemask_le; {STORE}")[31] == 0xFFFFFFFF


LOCAL = ".local .align 16 .b8 depot[32];"


def test_local_memory_is_each_threads_own() -> None:
    body = f"""{LOCAL}
    mov.u32 %r1, depot; st.local.u32 [%r1+8], %i; st.local.v2.u32 [%r1+16], {{%i, %i}};
    ld.local.u32 %r0, [%r1+8]; ld.local.u32 %r2, [%r1+20]; add.u32 %r0, %r0, %r2; {STORE}"""
    assert _out(body, 64, 2) == [2 * i for _ in range(2) for i in range(64)]


def test_generic_addresses_reach_every_space() -> None:
    body = f"""{LOCAL} .shared .align 4 .b8 tile[256];
    mov.u64 %d1, depot; cvta.local.u64 %d1, %d1;
    mov.u64 %d2, tile; cvta.shared.u64 %d2, %d2; mul.wide.u32 %d4, %i, 4; add.s64 %d2, %d2, %d4;
    add.s64 %d3, %in, %d4;
    st.u32 [%d1+4], %i; st.u32 [%d2], %i; ld.u32 %r1, [%d1+4]; ld.u32 %r2, [%d2]; ld.u32 %r3, [%d3];
    isspacep.shared %p, %d2; selp.b64 %d5, %d1, %d2, %q; add.u32 %r0, %r1, %r2; add.u32 %r0, %r0, %r3;
    and.b32 %r4, %i, 1; setp.eq.u32 %q, %r4, 0; selp.b64 %d5, %d2, %d3, %q; ld.u32 %r5, [%d5]; add.u32 %r0, %r0, %r5;
    @!%p mov.u32 %r0, 0; {STORE}""".replace("selp.b64 %d5, %d1, %d2, %q; ", "")
    assert _out(body, 64) == [4 * i for i in range(64)]


def test_variables_of_the_module_have_their_initial_values() -> None:
    module = ".global .align 4 .u32 table[4] = {5, 6, 7, 8}; .const .align 4 .f32 half = 0.5;"
    body = f"""
    and.b32 %r1, %i, 3; mul.wide.u32 %d0, %r1, 4; mov.u64 %d1, table; add.s64 %d0, %d1, %d0; ld.global.u32 %r0, [%d0];
    ld.const.f32 %f0, [half]; cvt.rn.f32.u32 %f1, %r0; mul.f32 %f1, %f1, %f0; cvt.rzi.u32.f32 %r0, %f1; {STORE}"""
    assert _out(body, module=module) == [2, 3, 3, 4] * 8


def test_dynamic_shared_memory() -> None:
    body = f"""
    mov.u32 %r1, dyn; mad.lo.u32 %r2, %i, 4, %r1; st.shared.u32 [%r2], %i; bar.sync 0;
    xor.b32 %r3, %i, 63; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r0, [%r3]; {STORE}"""
    module = ".extern .shared .align 16 .b8 dyn[];"
    assert _out(body, 64, 2, module=module, shared_bytes=256) == [63 - i for _ in range(2) for i in range(64)]
    assert ran(body, 64, module=module, shared_bytes=252).kinds() == {Kind.OUT_OF_BOUNDS}


def test_barriers_reduce() -> None:
    body = f"""
    setp.lt.u32 %p, %i, 40; bar.red.popc.u32 %r0, 0, %p; bar.red.and.pred %q, 0, %p; @%q add.u32 %r0, %r0, 1; {STORE}"""
    assert _out(body, 64, 2) == [40] * 128


def test_warps_meet_at_a_barrier_from_different_trips() -> None:
    body = f""".shared .align 4 .b8 tile[512];
    mov.u32 %r1, tile; shr.u32 %r2, %i, 5; mov.u32 %r3, 0;
    LOOP: setp.ge.u32 %p, %r3, %r2; @%p bra DONE; add.u32 %r3, %r3, 1; bra LOOP;
    DONE: mad.lo.u32 %r4, %i, 4, %r1; st.shared.u32 [%r4], %r3; bar.sync 0;
    xor.b32 %r5, %i, 96; mad.lo.u32 %r5, %r5, 4, %r1; ld.shared.u32 %r0, [%r5]; {STORE}"""
    assert _out(body, 128) == [3 - i // 32 for i in range(128)]


def test_shuffles_meet_their_warp_after_divergence() -> None:
    body = f"""
    mov.u32 %r1, %i; setp.lt.u32 %p, %i, 9; @%p bra LOW; add.u32 %r1, %r1, 100; LOW:
    shfl.sync.bfly.b32 %r0, %r1, 16, 31, -1; {STORE}"""
    assert _out(body) == [(i ^ 16) + (100 if i ^ 16 >= 9 else 0) for i in range(32)]


def test_warp_barriers_in_both_arms_meet() -> None:
    body = f""".shared .align 4 .b8 tile[128];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %i, 4, %r1; st.shared.u32 [%r2], %i; xor.b32 %r3, %i, 16;
    mad.lo.u32 %r3, %r3, 4, %r1;
    setp.lt.u32 %p, %i, 16; @%p bra LOW; bar.warp.sync -1; bra JOIN; LOW: bar.warp.sync -1; JOIN:
    ld.shared.u32 %r0, [%r3]; {STORE}"""
    assert _out(body) == [i ^ 16 for i in range(32)]


def test_a_spinning_thread_lets_the_one_it_waits_for_run() -> None:
    """Thread 0 spins at a lower address than the code that frees it: only fairness ends this."""
    body = f""".shared .align 4 .b8 flag[4];
    mov.u32 %r1, flag; setp.eq.u32 %p, %i, 0; @%p st.volatile.shared.u32 [%r1], 0; bar.sync 0; @!%p bra FREE;
    SPIN: ld.volatile.shared.u32 %r0, [%r1]; setp.eq.u32 %q, %r0, 0; @%q bra SPIN; bra END;
    FREE: st.volatile.shared.u32 [%r1], 5; mov.u32 %r0, 5; END: {STORE}"""
    assert _out(body, 2, budget=50_000) == [5, 5]


def test_an_endless_loop_times_out_with_its_place() -> None:
    report = ran("setp.eq.u32 %p, %i, 3;\nEVER: @%p bra EVER;")
    assert report.verdict is Verdict.TIMEOUT
    (found,) = [d for d in report.diagnostics if d.kind is Kind.STEP_BUDGET]
    assert (found.line, found.lane, found.cta) == (8, 3, 0)


def test_waiting_for_a_cta_of_a_later_wave_times_out() -> None:
    """The last of 70 CTAs of 1,024 threads frees the first: that may work on hardware, and cannot be told here."""
    body = f"""
    setp.eq.u32 %p, %c, 69; setp.eq.u32 %q, %i, 0; mov.u32 %r0, 1; {STORE} @!%q bra END; @!%p bra SPIN;
    st.volatile.global.u32 [%out+286720], 1; bra END;
    SPIN: nanosleep.u32 100; ld.volatile.global.u32 %r5, [%out+286720]; setp.eq.u32 %p, %r5, 0; @%p bra SPIN; END:"""
    report = ran(body, 1024, 70, size=70 * 1024 + 1, role="inout", budget=10_000_000)
    assert report.verdict is Verdict.TIMEOUT
    assert report.kinds() == {Kind.STEP_BUDGET}


def test_many_ctas_run_in_waves_with_the_same_result() -> None:
    body = f"mad.lo.u32 %r0, %c, 3, %i; {STORE}"
    assert _out(body, 1024, 70) == [3 * c + i for c in range(70) for i in range(1024)]


def test_the_same_module_runs_again_and_gives_the_same() -> None:
    body = f"mul.lo.u32 %r0, %i, %i; {STORE}"
    first, second = ran(body), ran(body)
    assert (first.outputs["out"] == second.outputs["out"]).all()


def test_cp_async_arrives_with_its_group() -> None:
    body = f""".shared .align 16 .b8 tile[1024];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %i, 4, %r1; mul.wide.u32 %d0, %i, 4; add.s64 %d0, %in, %d0;
    cp.async.ca.shared.global [%r2], [%d0], 4; cp.async.commit_group;
    mov.u32 %r4, 0; setp.lt.u32 %p, %i, 8; selp.b32 %r5, 4, 0, %p;
    cp.async.ca.shared.global [%r2+256], [%d0], 4, %r5; cp.async.commit_group;
    cp.async.wait_group 1; ld.shared.u32 %r0, [%r2]; cp.async.wait_all; ld.shared.u32 %r3, [%r2+256];
    mad.lo.u32 %r0, %r0, 100, %r3; {STORE}"""
    assert _out(body) == [100 * i + (i if i < 8 else 0) for i in range(32)]


def test_statistics_count_instructions_conflicts_and_sectors() -> None:
    body = f""".shared .align 16 .b8 tile[8192];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %i, 128, %r1; st.shared.u32 [%r2], %i; mad.lo.u32 %r3, %i, 4, %r1;
    setp.lt.u32 %p, %i, 8; @!%p bra OUT; mul.wide.u32 %d0, %i, 32; add.s64 %d0, %in, %d0; ld.global.u32 %r4, [%d0];
    OUT: mov.u32 %r0, 1; {STORE}"""
    stats = ran(body, given=np.zeros(64, np.uint32), stats=True).stats
    assert stats is not None
    assert stats.instructions["st.shared.u32"] == 1
    assert stats.bank_conflicts == 31
    assert (stats.shared_requests, stats.shared_wavefronts) == (1, 32)
    assert (stats.global_requests, stats.global_sectors) == (2, 8 + 4)
    assert stats.sectors_per_request == 6.0
    assert 0.5 < stats.lane_utilisation < 1.0


def test_wide_and_broadcast_accesses_conflict_with_nobody() -> None:
    body = f""".shared .align 16 .b8 tile[512];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %i, 16, %r1; st.shared.v4.u32 [%r2], {{%i, %i, %i, %i}}; bar.sync 0;
    ld.shared.u32 %r0, [%r1]; {STORE}"""
    stats = ran(body, stats=True).stats
    assert stats is not None
    assert (stats.bank_conflicts, stats.shared_requests, stats.shared_wavefronts) == (0, 2, 5)


UNKNOWN = [
    "wgmma.fence.sync.aligned;",
    "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%d0, {%r0}];",
    "mov.u32 %r0, %clock;",
    "add.f32.nonsense %f0, %f1, %f2;",
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0, {%r1}], [%r2];",
    "frobnicate.b32 %r0;",
    "lop3.or.b32 %r0|%p, %r1, %r2, %r3, 1, %p;",
    "add.s32 %h0, %h1, %h2;",
    "barrier.cluster.arrive;",
]


@pytest.mark.parametrize("instruction", UNKNOWN)
def test_what_the_table_does_not_know_is_unsupported_never_a_pass(instruction: str) -> None:
    report = ran(f"{instruction} mov.u32 %r0, 1; {STORE}")
    assert report.verdict is Verdict.UNSUPPORTED
    assert report.kinds() == {Kind.UNSUPPORTED}
    assert report.diagnostics[0].line == 7


def test_a_trap_fails_the_launch() -> None:
    report = ran("setp.eq.u32 %p, %i, 5; @%p trap;")
    assert report.verdict is Verdict.FAIL
    assert Kind.TRAP in report.kinds()
