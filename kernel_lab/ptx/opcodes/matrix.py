"""Matrices spread over a warp: ldmatrix, stmatrix, movmatrix and mma.sync.

Fragment layouts are those of "Matrix Fragments for mma", with g = lane / 4, t = lane mod 4, and p elements a register.
Of A, element i of register r is row g + 8 (r mod 2) and column 4 p (r / 2) + p t + i; with 8 rows there is one register
a block of columns. Of B it is row 4 p r + p t + i, column g. Of C, element i is row g + 8 (i / 2), column 2 t + i % 2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.form import bits_of
from kernel_lab.ptx.group import HIDDEN, Array, Group
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.numbers.formats import from_bf16, from_f16, from_fp8, to_f16
from kernel_lab.ptx.opcodes.memory import place_of
from kernel_lab.ptx.opcodes.table import Opcode, Role, Step, Unsupported, words
from kernel_lab.ptx.report import Kind

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

COUNTS = {"x1": 1, "x2": 2, "x4": 4}
F8 = np.float64


def whole_warps(form: "Form") -> Callable[[Group], bool]:
    """Whether every warp of the group is complete; reports those that are not."""
    findings, checks, site = form.machine.findings, form.machine.checks, form.site

    def check(g: Group) -> bool:
        warps = g.warps()
        if warps.whole:
            return True
        if checks.inactive_lanes:
            partial = (warps.table.min(axis=1) < 0)[warps.row]
            findings.add(Kind.INACTIVE_LANES, site, g.threads[partial], "the whole warp must take part")
        return False

    return check


def _zeros(g: Group, targets: list[int]) -> None:
    for slot in targets:
        g.r[slot] = np.zeros(g.n, np.uint32)


def bind_ldmatrix(form: "Form") -> Step:
    """ldmatrix: lanes 8 m to 8 m + 7 give the rows of matrix m; lane l gets two elements of each matrix."""
    form.expect(2)
    count = next(COUNTS[flag] for flag in form.flags if flag in COUNTS)
    transposed = "trans" in form.flags
    targets = [form.target(item, 32).slot for item in form.parts(0)]
    if len(targets) != count:
        raise Unsupported(f"{len(targets)} destinations in {form.instruction.text}")
    place, access, memory = place_of(form, 1, "shared"), Access(form.site, 16), form.machine.shared
    view, complete, note = memory.view(2, 8), whole_warps(form), form.machine.note("shared", access)

    def run(g: Group) -> None:
        if not complete(g):
            _zeros(g, targets)
            return
        rows_of, addresses = _row_lanes(g, place.addresses(g), 8 * count)
        if note is not None:
            note(rows_of, addresses)
        rows = memory.rows_to_read(rows_of, access, addresses)
        matrices = view.take(rows, 0, None, "clip").reshape(-1, count, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        words_ = np.ascontiguousarray(matrices.swapaxes(0, 1)).view(np.uint32).reshape(count, -1)
        for slot, values in zip(targets, words_, strict=True):
            g.r[slot] = values

    form.member_mask = None
    return run


def _row_lanes(g: Group, addresses: Array, rows: int) -> tuple[Group, Array]:
    """The lanes whose addresses count, and those addresses."""
    addresses = g.full(addresses)
    if rows == 32:
        return g, addresses
    chosen = np.tile(np.arange(32) < rows, g.n // 32)
    return g.part(chosen, range(HIDDEN), g.block), addresses[chosen]


def bind_stmatrix(form: "Form") -> Step:
    """stmatrix: the inverse of ldmatrix."""
    form.expect(2)
    count = next(COUNTS[flag] for flag in form.flags if flag in COUNTS)
    transposed = "trans" in form.flags
    place, access, memory = place_of(form, 0, "shared"), Access(form.site, 16), form.machine.shared
    sources = [form.source(item, "b32") for item in form.parts(1)]
    if len(sources) != count:
        raise Unsupported(f"{len(sources)} sources in {form.instruction.text}")
    view, complete = memory.view(2, 8), whole_warps(form)

    def run(g: Group) -> None:
        if not complete(g):
            return
        words_ = np.stack([g.full(g.r[slot]).reshape(-1, 32) for slot in sources], axis=1)
        matrices = np.ascontiguousarray(words_).view(np.uint16).reshape(-1, count, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        rows_of, addresses = _row_lanes(g, place.addresses(g), 8 * count)
        rows, allowed = memory.rows_to_write(rows_of, access, addresses)
        memory.store(rows_of, access, addresses, rows, view, np.ascontiguousarray(matrices).reshape(-1, 8), allowed)

    return run


def bind_movmatrix(form: "Form") -> Step:
    """movmatrix: an 8 × 8 matrix of 16-bit elements, transposed."""
    form.expect(2)
    source, target = form.source(1, "b32"), form.target(0, 32).slot
    complete = whole_warps(form)

    def run(g: Group) -> None:
        if not complete(g):
            _zeros(g, [target])
            return
        matrices = np.ascontiguousarray(g.full(g.r[source])).view(np.uint16).reshape(-1, 8, 8)
        g.r[target] = np.ascontiguousarray(matrices.swapaxes(1, 2)).view(np.uint32).ravel()

    return run


@dataclass(frozen=True)
class Element:
    """A multiplicand type: how many a register holds, and their values."""

    per_register: int
    values: Callable[[Array], Array]


def _bytes(kind: str) -> Callable[[Array], Array]:
    return lambda registers: registers.view(kind).astype(F8)


def _fp8(kind: str) -> Callable[[Array], Array]:
    return lambda registers: from_fp8(registers.view(np.uint8), kind).astype(F8)


def _tf32(registers: Array) -> Array:
    """The hardware reads the upper 19 bits."""
    return (registers & np.uint32(0xFFFFE000)).view(np.float32).astype(F8)


ELEMENTS = {
    "f16": Element(2, lambda registers: from_f16(registers.view(np.uint16)).astype(F8)),
    "bf16": Element(2, lambda registers: from_bf16(registers.view(np.uint16)).astype(F8)),
    "tf32": Element(1, _tf32),
    "f64": Element(1, lambda registers: registers.view(F8)),
    "s8": Element(4, _bytes("i1")),
    "u8": Element(4, _bytes("u1")),
    "e4m3": Element(4, _fp8("e4m3")),
    "e5m2": Element(4, _fp8("e5m2")),
}


def multiplicand_a(registers: Array, element: Element, rows: int) -> Array:
    """A of every warp, from its registers (register, lane): (warp, row, column)."""
    halves, p = rows // 8, element.per_register
    values = element.values(np.ascontiguousarray(registers)).reshape(-1, halves, registers.shape[1] // 32, 8, 4, p)
    return values.transpose(2, 1, 3, 0, 4, 5).reshape(-1, rows, values.shape[0] * 4 * p)


def multiplicand_b(registers: Array, element: Element) -> Array:
    """B of every warp: (warp, row, column)."""
    p = element.per_register
    values = element.values(np.ascontiguousarray(registers)).reshape(-1, registers.shape[1] // 32, 8, 4, p)
    return values.transpose(1, 0, 3, 4, 2).reshape(-1, values.shape[0] * 4 * p, 8)


def accumulator(values: Array, rows: int) -> Array:
    """C of every warp, from values (element, lane): (warp, row, column)."""
    shaped = values.reshape(rows // 8, 2, -1, 8, 4)
    return shaped.transpose(2, 0, 3, 4, 1).reshape(-1, rows, 8)


def fragment(matrices: Array) -> Array:
    """The inverse of `accumulator`."""
    rows = matrices.shape[1]
    shaped = matrices.reshape(-1, rows // 8, 8, 4, 2)
    return np.ascontiguousarray(shaped.transpose(1, 4, 0, 2, 3)).reshape(rows // 4, -1)


SHAPES = {
    "m16n8k4": (16, 4), "m16n8k8": (16, 8), "m16n8k16": (16, 16), "m16n8k32": (16, 32), "m8n8k16": (8, 16),
    "m8n8k4": (8, 4),
}  # fmt: skip


def bind_mma(form: "Form") -> Step:
    """mma.sync.aligned.shape.row.col.d.a.b.c: products and sums in float64, rounded once to the accumulator's type.

    Tensor cores round otherwise inside; the task's tolerance has to cover both.
    """
    form.expect(4)
    shape = next(flag for flag in form.flags if flag in SHAPES)
    rows, depth = SHAPES[shape]
    d_type, a_type, b_type, c_type = form.types
    a_element, b_element = ELEMENTS[a_type], ELEMENTS[b_type]
    wide = "b64" if a_type == "f64" else "b32"
    a, b, c = ([form.source(item, wide) for item in form.parts(index)] for index in (1, 2, 3))
    targets = [form.target(item, bits_of(wide)).slot for item in form.parts(0)]
    if len(a) * a_element.per_register * 4 != depth * rows // 8 or len(b) * b_element.per_register * 4 != depth:
        raise Unsupported(f"the fragments of {form.instruction.text}")
    complete = whole_warps(form)
    clamps = "satfinite" in form.flags

    def stack(g: Group, slots: list[int]) -> Array:
        return np.stack([g.full(g.r[slot]) for slot in slots])

    def run(g: Group) -> None:
        if not complete(g):
            _zeros(g, targets)
            return
        left = multiplicand_a(stack(g, a), a_element, rows)
        right = multiplicand_b(stack(g, b), b_element)
        total = np.matmul(left, right)
        total += accumulator(_from_accumulator(stack(g, c), c_type), rows)
        for slot, values in zip(targets, _to_accumulator(fragment(total), d_type, clamps=clamps), strict=True):
            g.r[slot] = values

    return run


def _from_accumulator(registers: Array, type_: str) -> Array:
    """Values (element, lane) in float64."""
    match type_:
        case "f32":
            return registers.view(np.float32).astype(F8)
        case "s32":
            return registers.view(np.int32).astype(F8)
        case "f64":
            return registers.view(F8)
        case _:
            halves = from_f16(registers.view(np.uint16)).reshape(registers.shape[0], -1, 2)
            return halves.transpose(0, 2, 1).reshape(2 * registers.shape[0], -1).astype(F8)


def _to_accumulator(values: Array, type_: str, *, clamps: bool) -> Array:
    """Registers (register, lane) from values (element, lane)."""
    match type_:
        case "f32":
            return values.astype(np.float32).view(np.uint32)
        case "s32":
            if clamps:
                values = np.clip(values, -(2.0**31), 2.0**31 - 1)
            return values.astype(np.int64).astype(np.uint32)
        case "f64":
            return values.view(np.uint64)
        case _:
            halves = to_f16(values).reshape(-1, 2, values.shape[1]).transpose(0, 2, 1)
            return np.ascontiguousarray(halves).view(np.uint32)[..., 0]


SECTION = "Warp Level Matrix Multiply-Accumulate Instructions"
LOADS = words("aligned trans shared shared::cta x1 x2 x4")
WARP = Role.WARP
FORMS = (
    ("m16n8k8 m16n8k16", "f32.f16.f16.f32 f16.f16.f16.f16 f32.f16.f16.f16 f16.f16.f16.f32", 1),
    ("m16n8k8 m16n8k16", "f32.bf16.bf16.f32", 1),
    ("m16n8k4 m16n8k8", "f32.tf32.tf32.f32", 1),
    ("m8n8k16 m16n8k16 m16n8k32", "s32.s8.s8.s32 s32.u8.u8.s32 s32.s8.u8.s32 s32.u8.s8.s32", 1),
    ("m16n8k16 m16n8k32", "f32.e4m3.e4m3.f32 f32.e4m3.e5m2.f32 f32.e5m2.e4m3.f32 f32.e5m2.e5m2.f32", 1),
    ("m8n8k4 m16n8k4 m16n8k8 m16n8k16", "f64.f64.f64.f64", 1),
)
ENTRIES = (
    *(
        Opcode(
            "mma",
            SECTION,
            tier,
            bind_mma,
            words(types),
            words("aligned satfinite rn"),
            words(f"sync row col {shape}"),
            WARP,
        )
        for shapes, types, tier in FORMS
        for shape in shapes.split()
    ),
    *(
        Opcode("ldmatrix", SECTION, 1, bind_ldmatrix, words("b16"), LOADS, words(f"sync m8n8 {count}"), WARP)
        for count in COUNTS
    ),
    *(
        Opcode("stmatrix", SECTION, 2, bind_stmatrix, words("b16"), LOADS, words(f"sync m8n8 {count}"), WARP)
        for count in COUNTS
    ),
    Opcode("movmatrix", SECTION, 1, bind_movmatrix, words("b16"), words("aligned"), words("sync m8n8 trans"), WARP),
)
