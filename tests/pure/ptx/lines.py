"""Small hand-written kernels for tests of the interpreter and the checkers."""

import numpy as np

from kernel_lab.ptx.api import ALL, Buffer, Checks, Launch, Report, run

Array = np.ndarray
REGISTERS = """
    .reg .pred %p, %q; .reg .b16 %h<4>; .reg .b32 %r<20>, %i, %c; .reg .f32 %f<9>; .reg .b64 %d<20>, %out, %in;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x;
"""
"""Every kernel has the thread in %i, the CTA in %c, and two buffers."""
STORE = (
    "mov.u32 %r18, %ntid.x; mad.lo.u32 %r19, %c, %r18, %i; mul.wide.u32 %d19, %r19, 4; add.s64 %d19, %out, %d19; "
    "st.global.u32 [%d19], %r0;"
)
"""out[CTA × threads + thread] = %r0"""
TARGET = "sm_90"


def text_of(body: str, module: str = "") -> str:
    """A whole file around a body; the line of the body's first line is 7."""
    return (
        f".version 8.7\n.target {TARGET}\n.address_size 64\n{module or ' '}\n"
        f".visible .entry k(.param .u64 in, .param .u64 out)\n{{ {' '.join(REGISTERS.split())}\n{body}\nret;\n}}\n"
    )


def ran(
    body: str,
    block: int = 32,
    grid: int = 1,
    *,
    checks: Checks = ALL,
    given: Array | None = None,
    size: int | None = None,
    module: str = "",
    role: str = "out",
    shared_bytes: int = 0,
    budget: int = 20_000,
    stats: bool = False,
) -> Report:
    """The report on a body: `in` holds 0, 1, 2 …, `out` one word a thread unless `size` says otherwise."""
    words = np.arange(block * grid, dtype=np.uint32) if given is None else given
    out = Buffer(np.zeros(block * grid if size is None else size, np.uint32), role, "out")  # type: ignore[arg-type]
    launch = Launch("k", (grid, 1, 1), (block, 1, 1), (Buffer(words, "in", "in"), out), shared_bytes, budget)
    return run(text_of(body, module), launch, checks=checks, stats=stats)
