"""A CTA that counts itself in and then reads what others wrote may be right: it is unproven, which is not a race."""

import numpy as np

from kernel_lab.ptx.api import Buffer, Kind, Launch, Report, Verdict, run

LAST_ONE_SUMS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 parts, .param .u64 counter, .param .u64 total)
{
    .reg .pred %p<2>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [parts];
    ld.param.u64 %rd2, [counter];
    ld.param.u64 %rd3, [total];
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd4, %rd1, %rd4;
    st.global.u32 [%rd4], %r1;
    membar.gl;
    COUNT
    setp.ne.u32 %p1, %r2, 2;
    @%p1 bra done;
    membar.gl;
    ld.global.u32 %r3, [%rd1];
    ld.global.u32 %r4, [%rd1+4];
    ld.global.u32 %r5, [%rd1+8];
    add.s32 %r6, %r3, %r4;
    add.s32 %r6, %r6, %r5;
    st.global.u32 [%rd3], %r6;
done:
    ret;
}
"""


def _summed(count: str) -> Report:
    parts = Buffer(np.zeros(3, np.uint32), "out", "parts")
    counter = Buffer(np.zeros(1, np.uint32), "inout", "counter")
    total = Buffer(np.zeros(1, np.uint32), "out", "total")
    return run(LAST_ONE_SUMS.replace("COUNT", count), Launch("sum", (3, 1, 1), (1, 1, 1), (parts, counter, total)))


def test_the_last_cta_to_count_itself_in_may_read_what_the_others_wrote() -> None:
    report = _summed("atom.global.add.u32 %r2, [%rd2], 1;")
    assert report.outputs["total"].tolist() == [3]
    assert report.kinds() == {Kind.UNPROVEN_HANDOFF}
    assert report.verdict is not Verdict.PASS


def test_without_a_counter_it_is_a_race() -> None:
    assert _summed("mov.u32 %r2, %r1;").kinds() == {Kind.GLOBAL_RACE}
