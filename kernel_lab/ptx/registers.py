"""Registers, constants and special registers as slots of one file of arrays."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernel_lab.ptx.form import DTYPES, bits_of
from kernel_lab.ptx.group import HIDDEN, LANE, ROW, THREAD
from kernel_lab.ptx.launch import Launch
from kernel_lab.ptx.opcodes.table import Unsupported
from kernel_lab.ptx.syntax.tree import Function, Name

Array = np.ndarray
POISON = 0x7FFBADBAD7FFBADBA
"""What an unwritten register holds, cut to its width: a NaN as float."""


@dataclass(frozen=True)
class Wave:
    """The CTAs that run together: `count` of them from linear CTA `first`."""

    launch: Launch
    first: int
    count: int
    padded: int
    shared_stride: int
    dynamic_shared_bytes: int
    total_shared_bytes: int


def lanes_of(wave: Wave) -> Array:
    """The padded linear threads of the wave that exist."""
    threads = int(np.prod(wave.launch.block))
    return (np.arange(wave.count)[:, None] * wave.padded + np.arange(threads)).ravel()


class Registers:
    """The register file of one kernel: which slot is what, and what it holds at first."""

    def __init__(self, function: Function, addresses: dict[str, int], launch: Launch) -> None:
        self._types = function.registers
        self._addresses, self._launch = addresses, launch
        self._slots: dict[str, int] = {}
        self._widths: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self._constants: dict[tuple[int, int], int] = {}
        self._specials: dict[str, int] = {}
        self._initial: list[Array] = [np.zeros(1, np.int64)] * HIDDEN
        self.sink = self._new(np.zeros(1, np.uint32))
        self.carry = self._new(np.zeros(1, bool))

    def _new(self, value: Array) -> int:
        self._initial.append(value)
        return len(self._initial) - 1

    @property
    def count(self) -> int:
        """How many slots there are."""
        return len(self._initial)

    @property
    def written_slots(self) -> frozenset[int]:
        """The slots of declared registers."""
        return frozenset(self._slots.values())

    @property
    def special_slots(self) -> tuple[int, ...]:
        """The slots of special registers."""
        return tuple(self._specials.values())

    def destination(self, name: Name) -> tuple[int, int]:
        """Slot and width of a register."""
        if name.text not in self._types:
            raise Unsupported(f"{name.text} is not a register")
        if name.text not in self._slots:
            bits = bits_of(self._types[name.text])
            if bits not in DTYPES:
                raise Unsupported(f"registers of {bits} bits")
            poison = POISON & ((1 << bits) - 1)
            slot = self._new(np.array([poison], DTYPES[bits]))
            self._slots[name.text], self._widths[slot], self.names[slot] = slot, bits, name.text
        slot = self._slots[name.text]
        return slot, self._widths[slot]

    def width(self, slot: int) -> int:
        """The bits of a slot."""
        value = self._initial[slot]
        return self._widths.get(slot, 1 if value.dtype == bool else 8 * value.dtype.itemsize)

    def source(self, name: Name, bits: int) -> int:
        """The slot that holds a name's value in at least so many bits."""
        if name.text in self._types:
            slot, width = self.destination(name)
            if width < bits:
                raise Unsupported(f"{bits} bits from {name.text}, which has {width}")
            return slot
        if name.text in self._addresses:
            return self.constant(self._addresses[name.text], bits)
        return self._special(name)

    def expect_width(self, name: Name, bits: int) -> None:
        """A register of this name has exactly so many bits."""
        if name.text in self._types and (width := bits_of(self._types[name.text])) != bits:
            raise Unsupported(f"{bits} bits from {name.text}, which has {width}")

    def predicate(self, name: Name) -> int:
        """The slot of a guard, which is a .pred register."""
        if self._types.get(name.text) != "pred":
            raise Unsupported(f"{name.text} guards an instruction and is no predicate")
        return self.destination(name)[0]

    def address_of(self, name: str) -> int:
        """The address of a variable."""
        if name not in self._addresses:
            raise Unsupported(f"{name} has no address")
        return self._addresses[name]

    def is_register(self, name: str) -> bool:
        """Whether it was declared with .reg."""
        return name in self._types

    def constant(self, value: int, bits: int) -> int:
        """The slot of a constant."""
        value &= (1 << bits) - 1
        if (value, bits) not in self._constants:
            self._constants[value, bits] = self._new(np.array([value], DTYPES[bits]))
        return self._constants[value, bits]

    def _special(self, name: Name) -> int:
        text = f"{name.text}.{name.component}" if name.component else name.text
        if text not in self._specials:
            if text not in SPECIALS:
                raise Unsupported(f"special register {text}")
            self._specials[text] = self._new(np.zeros(1, np.uint32))
        return self._specials[text]

    def reserve(self, value: Array) -> int:
        """One more slot, for the executor's own use."""
        return self._new(value)

    def initial(self, wave: Wave) -> list[Array]:
        """What every slot holds when a wave starts."""
        registers = list(self._initial)
        lanes = lanes_of(wave)
        registers[LANE] = lanes
        registers[THREAD] = (lanes + wave.first * wave.padded) << 1
        registers[ROW] = lanes // wave.padded * wave.shared_stride
        for text, slot in self._specials.items():
            value = SPECIALS[text](wave, lanes)
            uniform = value.size == 1 or bool((value == value[0]).all())
            registers[slot] = value[:1].copy() if uniform else value
        return registers


def _linear(lanes: Array, wave: Wave) -> Array:
    return lanes % wave.padded


def _cta(lanes: Array, wave: Wave) -> Array:
    return lanes // wave.padded + wave.first


def _axis(linear: Array, sizes: tuple[int, int, int], axis: int) -> Array:
    before = int(np.prod(sizes[:axis]))
    return (linear // before % sizes[axis]).astype(np.uint32)


Special = Callable[[Wave, Array], Array]


def _thread_index(axis: int) -> Special:
    return lambda wave, lanes: _axis(_linear(lanes, wave), wave.launch.block, axis)


def _cta_index(axis: int) -> Special:
    return lambda wave, lanes: _axis(_cta(lanes, wave), wave.launch.grid, axis)


def _uniform(of: Callable[[Wave], int], bits: int = 32) -> Special:
    return lambda wave, _: np.array([of(wave)], DTYPES[bits])


def _size(of: Callable[[Wave], tuple[int, int, int]], axis: int) -> Special:
    return _uniform(lambda wave: of(wave)[axis])


def _lane_mask(of: Callable[[Array], Array]) -> Special:
    """A mask of lanes from the bit of the lane's own."""
    return lambda _, lanes: of(np.uint64(1) << (lanes & 31).astype(np.uint64)).astype(np.uint32)


ONE = np.uint64(1)
WARPS = _uniform(lambda wave: wave.padded // 32)
SPECIALS: dict[str, Special] = {
    **{f"%tid.{axis}": _thread_index(i) for i, axis in enumerate("xyz")},
    **{f"%ctaid.{axis}": _cta_index(i) for i, axis in enumerate("xyz")},
    **{f"%ntid.{axis}": _size(lambda wave: wave.launch.block, i) for i, axis in enumerate("xyz")},
    **{f"%nctaid.{axis}": _size(lambda wave: wave.launch.grid, i) for i, axis in enumerate("xyz")},
    **{f"%clusterid.{axis}": _cta_index(i) for i, axis in enumerate("xyz")},
    **{f"%nclusterid.{axis}": _size(lambda wave: wave.launch.grid, i) for i, axis in enumerate("xyz")},
    **{f"%cluster_ctaid.{axis}": _uniform(lambda _: 0) for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": _uniform(lambda _: 1) for axis in "xyz"},
    "%cluster_ctarank": _uniform(lambda _: 0),
    "%cluster_nctarank": _uniform(lambda _: 1),
    "%laneid": lambda _, lanes: (lanes & 31).astype(np.uint32),
    "%warpid": lambda wave, lanes: (_linear(lanes, wave) >> 5).astype(np.uint32),
    "%nwarpid": WARPS,
    "%gridid": _uniform(lambda _: 1, 64),
    "%lanemask_eq": _lane_mask(lambda bit: bit),
    "%lanemask_lt": _lane_mask(lambda bit: bit - ONE),
    "%lanemask_le": _lane_mask(lambda bit: (bit << ONE) - ONE),
    "%lanemask_gt": _lane_mask(lambda bit: ~((bit << ONE) - ONE)),
    "%lanemask_ge": _lane_mask(lambda bit: ~(bit - ONE)),
    "%dynamic_smem_size": _uniform(lambda wave: wave.dynamic_shared_bytes),
    "%total_smem_size": _uniform(lambda wave: wave.total_shared_bytes),
    "WARP_SZ": _uniform(lambda _: 32),
}
"""Chapter "Special Registers". Clocks and SM numbers are missing: a result that depends on them has no verdict."""
