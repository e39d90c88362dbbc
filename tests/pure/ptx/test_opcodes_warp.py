"""Opcodes of the warp: exchanges, votes, matrices. The oracles follow the manual's pseudocode, lane by lane."""

from collections.abc import Callable

import numpy as np
import pytest

from kernel_lab.ptx.api import Buffer, Kind, Launch, Verdict, run
from kernel_lab.ptx.numbers.formats import FP8, from_bf16, from_f16
from tests.pure.ptx.harness import kernel, lanes_of, outcome

LANES = 96


def _words(seed: int, lanes: int = LANES) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, lanes, np.uint64).astype("u4")


def _shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    bval, cval, mask = b & 31, c & 31, c >> 8 & 31
    highest, lowest = lane & mask | cval & ~mask, lane & mask
    j, fine = {
        "up": (lane - bval, lane - bval >= highest),
        "down": (lane + bval, lane + bval <= highest),
        "bfly": (lane ^ bval, lane ^ bval <= highest),
        "idx": (lowest | bval & ~mask, (lowest | bval & ~mask) <= highest),
    }[mode]
    return (j, True) if fine else (lane, False)


@pytest.mark.parametrize("control", [31, 0x1807, 0x1C03, 0x1000 | 15, 0])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shfl_follows_the_manual(mode: str, control: int) -> None:
    a = _words(1)
    if mode == "up":
        control &= ~31
    for amount in (0, 1, 4, 16, 31):
        text = f"shfl.sync.{mode}.b32 %d|%q, %a0, {amount}, {control}, -1; @!%q add.u32 %d, %d, 1;"
        got = lanes_of(text, "b32", ["b32"], [a])
        for lane in range(LANES):
            source, fine = _shuffled(mode, lane % 32, amount, control)
            assert int(got[lane]) == (int(a[lane // 32 * 32 + source]) + (not fine)) % (1 << 32)


def test_shfl_takes_another_amount_in_every_lane() -> None:
    a, b = _words(2), np.random.default_rng(2).integers(0, 32, LANES).astype("u4")
    got = lanes_of("shfl.sync.idx.b32 %d, %a0, %a1, 31, -1;", "b32", ["b32", "b32"], [a, b])
    assert (got == a[np.arange(LANES) // 32 * 32 + b]).all()


@pytest.mark.parametrize("name", ["all", "any", "uni", "ballot"])
def test_votes_count_the_lanes_in_their_mask(name: str) -> None:
    p = np.random.default_rng(3).integers(0, 2, LANES).astype("u4")
    p[32:64], p[64:] = 1, 0
    masks = np.where(np.arange(LANES) % 32 < 16, 0xFFFF, 0xFFFF0000).astype("u4")
    kind = "b32" if name == "ballot" else "pred"
    got = lanes_of(f"vote.sync.{name}.{kind} %d, %a0, %a1;", kind, ["pred", "b32"], [p, masks])
    for lane in range(LANES):
        team = [i for i in range(lane // 32 * 32, lane // 32 * 32 + 32) if int(masks[lane]) >> i % 32 & 1]
        votes = [bool(p[i]) for i in team]
        wanted = {"all": all(votes), "any": any(votes), "uni": len(set(votes)) == 1}
        assert got[lane] == wanted.get(name, sum(1 << i % 32 for i in team if p[i]))


def test_match_finds_equal_lanes() -> None:
    a = np.random.default_rng(4).integers(0, 5, LANES).astype("u4")
    a[64:] = 7
    got = lanes_of("match.any.sync.b32 %d, %a0, -1;", "b32", ["b32"], [a])
    for lane in range(LANES):
        warp = range(lane // 32 * 32, lane // 32 * 32 + 32)
        assert got[lane] == sum(1 << i % 32 for i in warp if a[i] == a[lane])
    got = lanes_of("match.all.sync.b32 %d|%q, %a0, -1; @!%q mov.b32 %d, 5;", "b32", ["b32"], [a])
    assert (got == np.where(np.arange(LANES) < 64, 5, 0xFFFFFFFF)).all()


@pytest.mark.parametrize(
    ("op", "type_"),
    [("add", "u32"), ("add", "s32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32")],
)
def test_redux_reduces_the_warp(op: str, type_: str) -> None:
    a = _words(5)
    masks = np.where(np.arange(LANES) % 32 < 8, 0xFF, 0xFFFFFF00).astype("u4")
    function = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[op]
    typed = a.view("i4" if type_ == "s32" else "u4")
    whole = lanes_of(f"redux.sync.{op}.{type_} %d, %a0, -1;", "b32", [type_], [a])
    parts = lanes_of(f"redux.sync.{op}.{type_} %d, %a0, %a1;", "b32", [type_, "b32"], [a, masks])
    for lane in range(LANES):
        warp = np.arange(lane // 32 * 32, lane // 32 * 32 + 32)
        team = warp[(int(masks[lane]) >> warp % 32) & 1 == 1]
        assert whole[lane] == function.reduce(typed[warp], dtype=typed.dtype).view("u4")
        assert parts[lane] == function.reduce(typed[team], dtype=typed.dtype).view("u4")


def test_elect_names_the_lowest_lane() -> None:
    got = lanes_of("elect.sync %d|%q, 0xfffffff0; @%q add.u32 %d, %d, 100;", "b32", ["b32"], [_words(6, 32)])
    assert got[4] == 104
    assert (np.delete(got, 4) == 4).all()


def test_activemask_shows_who_is_here() -> None:
    text = "setp.lt.u32 %q, %i, 7; mov.u32 %d, 0; @!%q bra END; activemask.b32 %d; END:"
    got = lanes_of(text, "b32", ["b32"], [_words(7, 32)])
    assert (got == np.where(np.arange(32) < 7, 0x7F, 0)).all()


SHARED = ".shared .align 16 .b8 tile[2048]; .reg .b32 %s, %r<8>; .reg .b64 %w;"


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_spreads_eight_by_eight_matrices(trans: str, count: int) -> None:
    """Every lane first writes one row of 16 bytes; row r of matrix m is lane 8 m + r's."""
    rng = np.random.default_rng(8)
    rows = rng.integers(0, 1 << 16, (32, 8), np.uint16)
    flat = rows.view("u8").reshape(32, 2)
    registers = ", ".join(f"%r{i}" for i in range(count))
    text = f"""
        mov.u32 %s, tile; mad.lo.u32 %s, %i, 16, %s;
        st.shared.v2.b64 [%s], {{%a0, %a1}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%s];
        mov.b64 %d, {{%r0, %r{count - 1}}};
    """
    got = (
        lanes_of(text, "b64", ["b64", "b64"], [flat[:, 0].copy(), flat[:, 1].copy()], SHARED).view("u2").reshape(32, 4)
    )
    for lane in range(32):
        for half, matrix in ((0, 0), (2, count - 1)):
            for i in range(2):
                row, column = lane // 4, 2 * (lane % 4) + i
                if trans:
                    row, column = column, row
                assert got[lane, half + i] == rows[8 * matrix + row, column]


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_undoes_ldmatrix(trans: str) -> None:
    a, b = _words(9, 32), _words(10, 32)
    text = f"""
        mov.u32 %s, tile; mad.lo.u32 %s, %i, 16, %s;
        stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%s], {{%a0, %a1, %a1, %a0}};
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r0, %r1, %r2, %r3}}, [%s];
        mov.b64 %d, {{%r3, %r2}};
    """
    got = lanes_of(text, "b64", ["b32", "b32"], [a, b], SHARED)
    assert (got == (b.astype("u8") << np.uint64(32) | a)).all()


def test_movmatrix_transposes() -> None:
    matrix = np.random.default_rng(11).integers(0, 1 << 16, (8, 8), np.uint16)
    got = lanes_of("movmatrix.sync.aligned.m8n8.trans.b16 %d, %a0;", "b32", ["b32"], [matrix.view("u4").ravel()])
    assert (got.view("u2").reshape(8, 8) == matrix.T).all()


def _place(
    type_: str, rows: int, depth: int
) -> tuple[int, list[tuple[int, int, int, int]], list[tuple[int, int, int, int]]]:
    """Elements per register, and (register, part, row, column) of lane 0 in A and B, as the manual has them."""
    per = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4}[type_]
    halves = rows // 8
    a = [
        (r, i, 8 * (r % halves), 4 * per * (r // halves) + i)
        for r in range(depth * halves // (4 * per))
        for i in range(per)
    ]
    b = [(r, i, 4 * per * r + i, 0) for r in range(depth // (4 * per)) for i in range(per)]
    return per, a, b


VALUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f16": from_f16, "bf16": from_bf16, "tf32": lambda x: (x & np.uint32(0xFFFFE000)).view("f4"),
    "s8": lambda x: x.view("i1"), "u8": lambda x: x, "e4m3": lambda x: FP8["e4m3"][x], "e5m2": lambda x: FP8["e5m2"][x],
}  # fmt: skip
SHAPES = [
    ("f32.f16.f16.f32", 16, 8), ("f32.f16.f16.f32", 16, 16), ("f32.bf16.bf16.f32", 16, 8),
    ("f32.bf16.bf16.f32", 16, 16),
    ("f32.tf32.tf32.f32", 16, 4), ("f32.tf32.tf32.f32", 16, 8), ("s32.s8.s8.s32", 16, 32),
    ("s32.u8.s8.s32", 16, 16),
    ("s32.s8.u8.s32", 8, 16), ("f32.e4m3.e5m2.f32", 16, 32),
]  # fmt: skip


@pytest.mark.parametrize(("types", "rows", "depth"), SHAPES)
def test_mma_multiplies_the_matrices_of_its_fragments(types: str, rows: int, depth: int) -> None:
    _, a_type, b_type, c_type = types.split(".")
    rng = np.random.default_rng(12)
    per, a_places, b_places = _place(a_type, rows, depth)

    def codes(type_: str, shape: tuple[int, int]) -> np.ndarray:
        match type_:
            case "f16":
                return rng.normal(size=shape).astype("f2").view("u2")
            case "bf16":
                return (rng.normal(size=shape).astype("f4").view("u4") >> 16).astype("u2")
            case "tf32":
                return rng.normal(size=shape).astype("f4").view("u4")
            case "e4m3" | "e5m2":
                return rng.integers(0, 0x70, shape).astype("u1")
            case _:
                return rng.integers(0, 256, shape).astype("u1")

    a_codes, b_codes = codes(a_type, (rows, depth)), codes(b_type, (depth, 8))
    a_registers, b_registers = depth * rows // (32 * per), depth * 8 // (32 * per)
    a_words = np.zeros((32, a_registers, per), a_codes.dtype)
    b_words = np.zeros((32, b_registers, per), b_codes.dtype)
    for lane in range(32):
        g, t = divmod(lane, 4)
        for register, part, row, column in a_places:
            a_words[lane, register, part] = a_codes[row + g, column + per * t]
        for register, part, row, _ in b_places:
            b_words[lane, register, part] = b_codes[row + per * t, g]
    words = [
        np.ascontiguousarray(x[:, i]).view("u4").ravel()
        for x, n in ((a_words, a_registers), (b_words, b_registers))
        for i in range(n)
    ]
    names = [f"%a{i}" for i in range(len(words))]
    a_list, b_list = ", ".join(names[:a_registers]), ", ".join(names[a_registers:])
    count = rows // 4
    c_list = ", ".join(f"%c{i}" for i in range(count))
    declarations = f".reg .b32 %c<{count}>;"
    start = " ".join(f"cvt.rn.f32.u32 %c{i}, %i;" if c_type == "f32" else f"mov.b32 %c{i}, %i;" for i in range(count))
    wanted = VALUES[a_type](a_codes).astype("f8") @ VALUES[b_type](b_codes).astype("f8")
    for index in range(count):
        fragments = f"{{{c_list}}}, {{{a_list}}}, {{{b_list}}}, {{{c_list}}}"
        text = f"mma.sync.aligned.m{rows}n8k{depth}.row.col.{types} {fragments}; mov.b32 %d, %c{index};"
        got = lanes_of(text, "b32", ["b32"] * len(words), words, declarations, start)
        values = got.view("f4" if c_type == "f32" else "i4").astype("f8")
        for lane in range(32):
            row, column = lane // 4 + 8 * (index // 2), 2 * (lane % 4) + index % 2
            assert abs(values[lane] - (wanted[row, column] + lane)) <= 2e-6 * (1 + np.abs(wanted).max())


def test_mma_with_half_accumulators_packs_pairs() -> None:
    ones = np.full(32, 0x3C003C00, "u4")
    fragments = "{%c0, %c1}, {%a0, %a0, %a0, %a0}, {%a0, %a0}, {%c0, %c1}"
    text = f"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {fragments}; add.u32 %d, %c0, %c1;"
    got = lanes_of(text, "b32", ["b32"], [ones], ".reg .b32 %c<2>;", "mov.b32 %c0, 0x3C003C00; mov.b32 %c1, 0;")
    assert (got == 0x4C404C40 + 0x4C004C00).all()  # 17 and 16


def test_half_a_warp_cannot_multiply() -> None:
    text = kernel(
        "setp.lt.u32 %q, %i, 16; mov.b32 %d, 0; @!%q bra END; movmatrix.sync.aligned.m8n8.trans.b16 %d, %a0; END:",
        "b32",
        ["b32"],
    )
    report = outcome(text, "b32", [_words(13, 32)])
    assert report.verdict is Verdict.FAIL
    assert report.kinds() == {Kind.INACTIVE_LANES}


ATOMICS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda old, x: old + x, "min.u32": min, "max.u32": max, "and.b32": lambda old, x: old & x,
    "or.b32": lambda old, x: old | x, "xor.b32": lambda old, x: old ^ x, "exch.b32": lambda old, x: x,
    "inc.u32": lambda old, x: 0 if old >= x else old + 1,
    "dec.u32": lambda old, x: x if old == 0 or old > x else old - 1,
}  # fmt: skip
ATOMIC = """
.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 cells, .param .u64 which, .param .u64 values, .param .u64 olds)
{{
    .reg .b32 %i, %w, %v, %o; .reg .b64 %base, %at, %off;
    mov.u32 %i, %tid.x;
    mul.wide.u32 %off, %i, 4;
    ld.param.u64 %base, [which]; add.s64 %at, %base, %off; ld.global.u32 %w, [%at];
    ld.param.u64 %base, [values]; add.s64 %at, %base, %off; ld.global.u32 %v, [%at];
    ld.param.u64 %base, [cells]; mad.wide.u32 %at, %w, 4, %base;
    {0}
    ld.param.u64 %base, [olds]; add.s64 %at, %base, %off; st.global.u32 [%at], %o;
    ret;
}}
"""


@pytest.mark.parametrize("name", sorted(ATOMICS))
def test_atomics_go_one_after_the_other(name: str) -> None:
    rng = np.random.default_rng(14)
    cells, which = rng.integers(0, 50, 7).astype("u4"), rng.integers(0, 7, LANES).astype("u4")
    values = rng.integers(0, 60, LANES).astype("u4")
    buffers = (
        Buffer(cells, "inout", "cells"), Buffer(which, "in", "which"), Buffer(values, "in", "values"),
        Buffer(np.zeros(LANES, "u4"), "out", "olds"),
    )  # fmt: skip
    text = ATOMIC.format(f"atom.global.{name} %o, [%at], %v;")
    report = run(text, Launch("k", (1, 1, 1), (LANES, 1, 1), buffers))
    assert report.verdict is Verdict.PASS, report.diagnostics
    state = cells.tolist()
    for lane in range(LANES):
        cell = int(which[lane])
        assert report.outputs["olds"][lane] == state[cell]
        state[cell] = ATOMICS[name](state[cell], int(values[lane]))
    assert report.outputs["cells"].tolist() == state


def test_cas_lets_one_lane_win() -> None:
    buffers = (
        Buffer(np.zeros(1, "u4"), "inout", "cells"), Buffer(np.zeros(LANES, "u4"), "in", "which"),
        Buffer(np.arange(1, LANES + 1, dtype="u4"), "in", "values"), Buffer(np.zeros(LANES, "u4"), "out", "olds"),
    )  # fmt: skip
    report = run(ATOMIC.format("atom.global.cas.b32 %o, [%at], 0, %v;"), Launch("k", (1, 1, 1), (LANES, 1, 1), buffers))
    assert report.verdict is Verdict.PASS
    assert report.outputs["cells"].tolist() == [1]
    assert report.outputs["olds"].tolist() == [0] + [1] * (LANES - 1)


def test_float_atomics_add() -> None:
    values = np.random.default_rng(15).normal(size=LANES).astype("f4")
    buffers = (
        Buffer(np.zeros(1, "f4"), "inout", "cells"), Buffer(np.zeros(LANES, "u4"), "in", "which"),
        Buffer(values, "in", "values"), Buffer(np.zeros(LANES, "f4"), "out", "olds"),
    )  # fmt: skip
    report = run(ATOMIC.format("atom.global.add.f32 %o, [%at], %v;"), Launch("k", (1, 1, 1), (LANES, 1, 1), buffers))
    total = np.float32(0)
    for value in values:
        total += value
    assert report.outputs["cells"][0] == total
