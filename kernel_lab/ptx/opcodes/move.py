"""mov, cvta and isspacep: values from register to register, and addresses from space to space."""

from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.form import DTYPES, bits_of
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.memory.windows import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from kernel_lab.ptx.opcodes.lanes import Array, step_of
from kernel_lab.ptx.opcodes.table import Opcode, Step, Unsupported, words
from kernel_lab.ptx.syntax.tree import Vector

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form


def bind_mov(form: "Form") -> Step:
    """A copy, or packing into and unpacking from a wider register."""
    form.expect(2)
    to, of = form.operands
    bits = bits_of(form.type)
    if isinstance(to, Vector):
        return _unpack(form, to, bits)
    if isinstance(of, Vector):
        return _pack(form, of, bits)
    source, target = form.source(1, form.type), form.target(0, bits)
    if form.registers.width(source) > bits:
        cut = DTYPES[bits]
        return step_of(lambda value: value.astype(cut), [source], target)
    if not target.exact:
        return step_of(lambda value: value, [source], target)
    slot = target.slot

    def run(g: Group) -> None:
        r = g.r
        r[slot] = r[source]

    return run


def _pack(form: "Form", of: Vector, bits: int) -> Step:
    part = bits // len(of.items)
    sources = [form.source(item, f"b{part}") for item in of.items]
    whole, narrow = DTYPES[bits], DTYPES[part]

    def lanes(*parts: Array) -> Array:
        together = np.stack(np.broadcast_arrays(*(value.astype(narrow) for value in parts)), axis=-1)
        return np.ascontiguousarray(together).view(whole)[..., 0]

    return step_of(lanes, sources, form.target(0, bits))


def _unpack(form: "Form", to: Vector, bits: int) -> Step:
    part = bits // len(to.items)
    if part not in DTYPES:
        raise Unsupported(form.instruction.text)
    source = form.source(1, form.type)
    targets = [form.target(item, part) for item in to.items]
    narrow = DTYPES[part]

    def run(g: Group) -> None:
        parts = np.ascontiguousarray(g.r[source]).view(narrow).reshape(-1, len(targets))
        for index, target in enumerate(targets):
            target.put(g.r, np.ascontiguousarray(parts[:, index]))

    return run


OFFSETS = {
    "global": 0, "const": 0, "param": 0, "param::entry": 0, "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
}  # fmt: skip


def bind_cvta(form: "Form") -> Step:
    """cvta: adds the base of a space's window, or takes it away (.to)."""
    form.expect(2)
    (space,) = form.flags - {"to"}
    offset = np.uint64(OFFSETS[space])
    leaves = "to" in form.flags
    source = form.source(1, form.type)
    bits = bits_of(form.type)
    if bits == 32 and offset:
        raise Unsupported("32-bit generic addresses")
    if not offset:
        return step_of(lambda a: a, [source], form.target(0, bits))
    if form.registers.width(source) < 64:
        raise Unsupported(form.instruction.text)
    return step_of((lambda a: a - offset) if leaves else (lambda a: a + offset), [source], form.target(0, 64))


def bind_isspacep(form: "Form") -> Step:
    """isspacep: whether a generic address lies in a space's window."""
    form.expect(2)
    (space,) = form.flags
    source = form.source(1, "u64")
    offset, size = OFFSETS[space], WINDOW_BYTES if OFFSETS[space] else SHARED_WINDOW
    return step_of(lambda a: (a - np.uint64(offset)) < np.uint64(size), [source], form.target(0, 1))


SECTION = "Data Movement and Conversion Instructions"
ENTRIES = (
    Opcode(
        "mov", SECTION, 0, bind_mov, words("b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 bf16 pred f16x2 bf16x2")
    ),
    *(
        Opcode("cvta", SECTION, 0, bind_cvta, words("u32 u64"), words("to"), words(space))
        for space in ("global", "shared", "shared::cta", "local", "const", "param", "param::entry")
    ),
    *(
        Opcode("isspacep", SECTION, 1, bind_isspacep, needs=words(space))
        for space in ("global", "shared", "shared::cta", "local", "const")
    ),
)
