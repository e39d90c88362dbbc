"""The parser: both compiler front ends, scopes, and errors that say where."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.ptx.api import PtxSyntaxError, parse
from kernel_lab.ptx.syntax.tree import (
    Address,
    Instruction,
    Integer,
    Label,
    Location,
    Module,
    Name,
    Pair,
    Real,
    Space,
    Vector,
)

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def _module(body: str, before: str = "", parameters: str = "") -> Module:
    return parse(f"{HEADER}{before}\n.visible .entry k({parameters})\n{{\n{body}\nret;\n}}\n")


def _instructions(body: str, before: str = "", parameters: str = "") -> list[Instruction]:
    found = _module(body, before, parameters).functions["k"].body
    return [item for item in found if isinstance(item, Instruction)][:-1]


def test_the_header_is_read() -> None:
    module = parse(".version 9.5\n.target sm_90a, debug\n.address_size 64\n")
    assert (module.version, module.target, module.address_size) == ((9, 5), "sm_90a", 64)


def test_typed_and_untyped_parameters_of_both_front_ends() -> None:
    parameters = (
        ".param .u64 a, .param .u64 .ptr .align 1 b, .param .align 8 .b8 c[24], .param .u64 .ptr .global .align 16 d"
    )
    a, b, c, d = _module("", parameters=parameters).functions["k"].parameters
    assert (a.type, a.bytes, a.is_pointer) == ("u64", 8, False)
    assert (b.type, b.bytes, b.is_pointer) == ("u64", 8, True)
    assert (c.bytes, c.align, c.is_array) == (24, 8, True)
    assert d.is_pointer


def test_opcodes_modifiers_and_guards() -> None:
    first, second = _instructions(".reg .pred %p; .reg .b32 %r<3>; @!%p bra L; L: add.sat.s32 %r0, %r1, -5;")
    assert (first.guard, first.guard_negated) == (Name("%p"), True)
    assert second.text == "add.sat.s32"
    assert second.operands == (Name("%r0"), Name("%r1"), Integer(-5))


def test_operands_of_every_kind() -> None:
    (found,) = _instructions(".reg .b32 %r<9>; .reg .b64 %d; ld.global.v2.u32 {%r1, _}, [%d+-16];")
    assert found.operands == (Vector((Name("%r1"), Name("_"))), Address(Name("%d"), -16))
    (found,) = _instructions(".reg .b32 %r<9>; .reg .pred %p; shfl.sync.idx.b32 %r1|%p, %r2, 0x1F, 31, 0xffffffffU;")
    assert found.operands[0] == Pair(Name("%r1"), Name("%p"))
    assert found.operands[4] == Integer(0xFFFFFFFF)
    (found,) = _instructions(".reg .b32 %r; mov.u32 %r, %tid.x;")
    assert found.operands[1] == Name("%tid", "x")


def test_floating_constants_keep_their_bits() -> None:
    body = ".reg .f32 %f; .reg .f64 %d; mov.f32 %f, 0fFFC00001; mov.f64 %d, 0d3FF8000000000000; mov.f32 %f, 1.5;"
    nan, double, decimal = (found.operands[1] for found in _instructions(body))
    assert isinstance(nan, Real)
    assert nan.single_bits == 0xFFC00001
    assert double == Real(1.5)
    assert decimal == Real(1.5)


def test_integer_constants_in_every_base() -> None:
    body = ".reg .b32 %r; mov.u32 %r, 0x1f; mov.u32 %r, 017; mov.u32 %r, 0b101; mov.u32 %r, 7U; mov.u32 %r, ~1;"
    assert [found.operands[1] for found in _instructions(body)] == [Integer(v) for v in (31, 15, 5, 7, -2)]


def test_register_names_repeat_in_scopes() -> None:
    inner = "{ .reg .f32 t; mov.f32 t, 0f3F800000; { .reg .b64 t; mov.u64 t, 2; } }"
    body = f".reg .b32 t; mov.u32 t, 1; {inner} mov.u32 t, 3;"
    outer, middle, innermost, again = (found.operands[0] for found in _instructions(body))
    assert outer == again
    assert len({outer, middle, innermost}) == 3
    registers = _module(body).functions["k"].registers
    assert sorted(registers.values()) == ["b32", "b64", "f32"]


def test_labels_repeat_in_scopes_and_branches_run_ahead() -> None:
    body = "{ bra W; W: } { bra W; bra OUT; W: } OUT:"
    function = _module(body).functions["k"]
    targets = [item.operands[0].text for item in function.body if isinstance(item, Instruction) and item.operands]  # type: ignore[union-attr]
    labels = [item.name for item in function.body if isinstance(item, Label)]
    assert targets[0] != targets[1]
    assert targets == [labels[0], labels[1], "OUT"]


def test_a_label_before_a_directive_stays() -> None:
    function = _module('L: .pragma "nounroll"; bra L;').functions["k"]
    assert [item.name for item in function.body if isinstance(item, Label)] == ["L"]


def test_line_information_belongs_to_what_follows() -> None:
    inlined = ".loc 1 9 1, function_name $L__info0, inlined_at 1 12 4"
    body = f".reg .b32 %r; .loc 1 7 3\nmov.u32 %r, 1;\n{inlined}\nmov.u32 %r, 2;"
    module = parse(f'{HEADER}.file 1 "k.cu"\n.visible .entry k()\n{{\n{body}\nret;\n}}\n')
    found = [item for item in module.functions["k"].body if isinstance(item, Instruction)]
    assert [item.source for item in found[:2]] == [Location(1, 7), Location(1, 9)]
    assert module.files == {1: "k.cu"}
    assert found[0].line == 8


def test_variables_of_every_space() -> None:
    before = (
        ".extern .shared .align 16 .b8 dynamic[];\n.global .align 4 .f32 table[2] = {0f3F800000, 2.0};\n"
        ".const .u32 c = 7;\n"
        ".visible .global .align 8 .u64 pointer[1] = {table};"
    )
    module = _module(".local .align 16 .b8 depot[32]; .shared .align 4 .b8 tile[16];", before)
    dynamic, table, constant, pointer = module.variables
    assert (dynamic.space, dynamic.count) == (Space.SHARED, 0)
    assert (table.initial, table.bytes) == ((1.0, 2.0), 8)
    assert (constant.space, constant.initial) == (Space.CONST, (7,))
    assert pointer.initial == (Name("table"),)
    assert {v.name: v.bytes for v in module.functions["k"].variables} == {"depot": 32, "tile": 16}


def test_functions_sections_and_pragmas_are_passed_over() -> None:
    before = '.func (.param .b32 r) f(.param .b32 a)\n;\n.section .debug_str { .b8 1,2 }\n.pragma "x";'
    assert _module("", before).entries == ("k",)


def test_directives_of_an_entry() -> None:
    module = parse(f"{HEADER}.entry k()\n.maxntid 128, 1, 1\n.reqntid 64\n.minnctapersm 2\n{{ ret; }}")
    assert module.functions["k"].directives == {"maxntid": (128, 1, 1), "reqntid": (64,), "minnctapersm": (2,)}


def test_branch_targets_of_a_table() -> None:
    function = _module(".reg .b32 %r; brx.idx %r, T; T: .branchtargets A, B; A: B:").functions["k"]
    assert function.branch_targets == {"T": ("A", "B")}


ERRORS = [
    ("", 1, "'.version'"),
    (".version eight\n.target sm_80", 1, "version"),
    (HEADER + ".entry k()\n{\n  mov.u32 %r9, 1;\n}", 6, "'%r9' is not declared"),
    (HEADER + ".entry k()\n{\n  .reg .b32 %r;\n  mov.u32 %r 1;\n}", 7, "';'"),
    (HEADER + ".entry k()\n{\n  .reg .b33 %r;\n}", 6, "expected a type"),
    (HEADER + ".entry k()\n{\n  ret;\n", 7, "has no end"),
    (HEADER + "\n\nhello;", 6, "begins no declaration"),
    (HEADER + '.file 1 "unfinished\n', 4, "no end"),
    (HEADER + ".entry k()\n{\n  ret;\n}\n€", 8, "starts nothing"),
    (HEADER + ".entry k()\n{\n .reg .b64 %d;\n ld.u32 %d, [%d+%d];\n}", 7, "expected an integer"),
    (HEADER + ".entry k()\n{\n  .nonsense 4;\n}", 6, "no directive"),
]


@pytest.mark.parametrize(("text", "line", "message"), ERRORS)
def test_an_error_says_where_and_what(text: str, line: int, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    assert caught.value.line == line
    assert message in caught.value.message
    assert caught.value.column >= 1
    assert str(caught.value).startswith(f"{line}:{caught.value.column}: ")


@given(st.text(max_size=80))
def test_any_text_is_a_module_or_a_syntax_error(text: str) -> None:
    with pytest.raises(PtxSyntaxError):
        parse(HEADER + ".entry k() {\n" + text + "\nneither;")


TOKENS = (
    ".", ",", ";", "{", "}", "(", ")", "[", "]", ":", "@", "!", "+", "-", ".reg", ".b32", "%r", "mov.u32", "ret", "1",
    "0f", ".loc", ".version", '"',
)  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=30))
def test_any_tokens_are_a_module_or_a_syntax_error(tokens: list[str]) -> None:
    text = HEADER + ".entry k() { " + " ".join(tokens) + " }"
    with contextlib.suppress(PtxSyntaxError):
        assert parse(text).entries == ("k",)
