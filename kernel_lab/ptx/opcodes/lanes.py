"""How lane functions become steps: read slots, compute, put."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_lab.ptx.form import DTYPES, Target, bits_of
from kernel_lab.ptx.group import Group
from kernel_lab.ptx.opcodes.table import Bind, Step, Unsupported

if TYPE_CHECKING:
    from kernel_lab.ptx.form import Form

Array = np.ndarray
Lanes = Callable[..., Array]
LanesOf = Callable[["Form"], Lanes]

SIGNED: dict[int, np.dtype[Any]] = {8: np.dtype("i1"), 16: np.dtype("i2"), 32: np.dtype("i4"), 64: np.dtype("i8")}
FLOAT: dict[str, np.dtype[Any]] = {"f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8")}


def is_signed(type_: str) -> bool:
    """Whether results are extended with their sign."""
    return type_[0] == "s"


def step_of(lanes: Lanes, sources: list[int], target: Target) -> Step:
    """The step that puts lanes(sources) into the target."""
    match sources, target.exact:
        case [a], True:
            return _one(lanes, a, target.slot)
        case [a, b], True:
            return _two(lanes, a, b, target.slot)
        case [a, b, c], True:
            return _three(lanes, a, b, c, target.slot)
        case _:
            return _any(lanes, sources, target)


def _one(lanes: Lanes, a: int, d: int) -> Step:
    def run(g: Group) -> None:
        r = g.r
        r[d] = lanes(r[a])

    return run


def _two(lanes: Lanes, a: int, b: int, d: int) -> Step:
    def run(g: Group) -> None:
        r = g.r
        r[d] = lanes(r[a], r[b])

    return run


def _three(lanes: Lanes, a: int, b: int, c: int, d: int) -> Step:
    def run(g: Group) -> None:
        r = g.r
        r[d] = lanes(r[a], r[b], r[c])

    return run


def _any(lanes: Lanes, sources: list[int], target: Target) -> Step:
    def run(g: Group) -> None:
        r = g.r
        target.put(r, lanes(*[r[slot] for slot in sources]))

    return run


def alu(lanes_of: LanesOf, arity: int, result: str | None = None, operands: tuple[str, ...] = ()) -> Bind:
    """An entry's bind: `arity` sources of the instruction's type (or of `operands`), one result of it (or `result`)."""

    def bind(form: "Form") -> Step:
        form.expect(arity + 1)
        lanes = lanes_of(form)
        types = operands or (form.type,) * arity
        sources = [narrowed(form, index + 1, type_) for index, type_ in enumerate(types)]
        type_ = result or form.type
        return step_of(lanes, sources, form.target(0, bits_of(type_), signed=is_signed(type_)))

    return bind


def narrowed(form: "Form", index: int, type_: str) -> int:
    """The slot of a source that has the type's width exactly."""
    slot = form.source(index, type_)
    width, bits = form.registers.width(slot), bits_of(type_)
    if width != bits:
        raise Unsupported(f"{form.instruction.text} on a register of {width} bits")
    return slot


def plain(lanes: Lanes) -> LanesOf:
    """The same lane function for every form."""
    return lambda form: lanes  # noqa: ARG005


def signed(lanes: Lanes, bits: int) -> Lanes:
    """A function of signed integers, on raw bits."""
    view, raw = SIGNED[bits], DTYPES[bits]
    return lambda *values: lanes(*[value.view(view) for value in values]).view(raw)


def floating(lanes: Lanes, type_: str) -> Lanes:
    """A function of floats of a numpy type, on raw bits."""
    view, raw = FLOAT[type_], DTYPES[bits_of(type_)]
    if lanes.__class__ is np.ufunc:
        if lanes.nin == 1:
            return lambda a: lanes(a.view(view)).view(raw)
        return lambda a, b: lanes(a.view(view), b.view(view)).view(raw)
    return lambda *values: lanes(*[value.view(view) for value in values]).view(raw)
