"""Shared buffers: memory files that the parent owns and any arm may map.

An arena has two files, one for inputs and one for outputs, so that a measuring candidate can be given the inputs
through a read-only descriptor: no mapping of its own can then become writable. Every buffer has its own pages, filled
with a canary around the data; what lies beyond them in a runner are guard pages.
"""

import hashlib
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernel_lab.runner.arm import Alignment
from kernel_lab.runner.protocol import MappedBuffer
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Workload
from schemas.faults import Bug, Transient

PAGE_BYTES = mmap.PAGESIZE
LINE_BYTES = 64
ELEMENT = np.dtype(np.float32)
MOST_LINES = 64
"""A natural buffer begins up to one page into its mapping: chosen, the offset within a page is what caches see."""
CANARY = 0xA5


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: its pages in the file and its data within them."""

    buffer: Buffer
    is_input: bool
    shape: tuple[int, ...]
    file_offset: int
    mapped_bytes: int
    pointer_offset: int

    @property
    def data_bytes(self) -> int:
        """Bytes of the data alone."""
        return int(np.prod(self.shape, dtype=np.int64)) * ELEMENT.itemsize


class MemfdBuffers:
    """A `BufferSet`. The parent's views stay valid until `close`."""

    def __init__(self, arena: "MemfdArena", number: int, axes: Axes, places: tuple[Place, ...]) -> None:
        self.number = number
        self.places = places
        self._arena = arena
        self._axes = dict(axes)
        self._maps = {p.buffer.name: arena.map(p) for p in places}
        for pages in self._maps.values():
            np.frombuffer(pages, np.uint8)[:] = CANARY

    @property
    def axes(self) -> Axes:
        """Concrete sizes by axis name."""
        return self._axes

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """Files of the inputs (read-only), the inputs and the outputs."""
        return self._arena.descriptors

    def mapped(self, *, inputs_writable: bool) -> list[MappedBuffer]:
        """As a runner is to map them, in argument order."""
        return [self._as_mapped(p, writable=inputs_writable or not p.is_input) for p in self.places]

    def fill_inputs(self, inputs: Arrays) -> None:
        """Every input holds the given values. Raises Bug when one is missing or has another shape."""
        for place in self._inputs():
            given = np.asarray(inputs[place.buffer.name], ELEMENT)
            if given.shape != place.shape:
                raise Bug(f"input {place.buffer.name}: shape {given.shape}, buffer {place.shape}")
            self._view(place)[...] = given

    def poison_outputs(self, pattern: int) -> None:
        """Every output byte is set from a 32-bit pattern."""
        for place in self.places:
            if not place.is_input:
                self._view(place).view(np.uint32)[...] = np.uint32(pattern)

    def output(self, name: str) -> Array:
        """A copy of the output as it is now."""
        return self._view(self._place(name)).copy()

    def input_digest(self) -> str:
        """sha256 over all input bytes as they are now."""
        digest = hashlib.sha256()
        for place in self._inputs():
            digest.update(self._view(place).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def slack_written(self) -> tuple[str, ...]:
        """Buffers whose surroundings within their own pages were written: an overrun that met no guard page."""
        return tuple(p.buffer.name for p in self.places if not self._slack_intact(p))

    def where(self, address: int, bases: Mapping[str, int], guard_bytes: int) -> str | None:
        """The guard or buffer that holds `address` in a runner that mapped the buffers at `bases`."""
        for place in self.places:
            name, base = place.buffer.name, bases[place.buffer.name]
            if base - guard_bytes <= address < base:
                return f"{name}:before"
            if base + place.mapped_bytes <= address < base + place.mapped_bytes + guard_bytes:
                return f"{name}:after"
            if base <= address < base + place.mapped_bytes:
                return f"{name}:readonly" if place.is_input else f"{name}:inside"
        return None

    def close(self) -> None:
        """The memory is given back; the set is of no more use."""
        maps, self._maps = self._maps, {}
        for pages in maps.values():  # a view itself goes with the last array over it
            pages.madvise(mmap.MADV_REMOVE)

    @staticmethod
    def _as_mapped(place: Place, *, writable: bool) -> MappedBuffer:
        file = 0 if place.is_input else 1
        return MappedBuffer(file, writable, place.file_offset, place.mapped_bytes, place.pointer_offset)

    def _inputs(self) -> list[Place]:
        return [p for p in self.places if p.is_input]

    def _place(self, name: str) -> Place:
        return next(p for p in self.places if p.buffer.name == name)

    def _view(self, place: Place) -> Array:
        count = place.data_bytes // ELEMENT.itemsize
        flat = np.frombuffer(self._maps[place.buffer.name], ELEMENT, count, place.pointer_offset)
        return flat.reshape(place.shape)

    def _slack_intact(self, place: Place) -> bool:
        pages = np.frombuffer(self._maps[place.buffer.name], np.uint8)
        end = place.pointer_offset + place.data_bytes
        return bool((pages[: place.pointer_offset] == CANARY).all() and (pages[end:] == CANARY).all())


class MemfdArena:
    """An `Arena` over two memory files. Close it after every arm that maps its buffers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._inputs = os.memfd_create("inputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._outputs = os.memfd_create("outputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._inputs_read_only = os.open(f"/proc/self/fd/{self._inputs}", os.O_RDONLY | os.O_CLOEXEC)
        self._length = {self._inputs: 0, self._outputs: 0}
        self._made = 0

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """Inputs read-only, inputs, outputs."""
        return self._inputs_read_only, self._inputs, self._outputs

    def buffers(
        self, workload: Workload, axes: Axes, alignment: Alignment, *, offset_elements: int = 0
    ) -> MemfdBuffers:
        """Buffers for one set of arguments, full of canaries until filled. `offset_elements` moves every buffer away
        from the edge that `alignment` puts it on. Raises Transient when memory is short."""
        shift = offset_elements * ELEMENT.itemsize
        places = [self._place(b, axes, alignment, shift, is_input=True) for b in workload.inputs]
        places += [self._place(b, axes, alignment, shift, is_input=False) for b in workload.outputs]
        self._made += 1
        return MemfdBuffers(self, self._made, {a: axes[a] for a in workload.axes}, tuple(places))

    def map(self, place: Place) -> mmap.mmap:
        """The parent's view of a buffer's pages."""
        descriptor = self._inputs if place.is_input else self._outputs
        try:
            return mmap.mmap(descriptor, place.mapped_bytes, mmap.MAP_SHARED, offset=place.file_offset)
        except OSError as error:
            raise Transient(f"no memory for buffer {place.buffer.name} ({place.mapped_bytes} bytes)") from error

    def close(self) -> None:
        """All files are closed; memory lives on only where an arm still maps it."""
        descriptors, self._length = list(self._length), {}
        if descriptors:
            for descriptor in (*descriptors, self._inputs_read_only):
                os.close(descriptor)

    def _place(self, buffer: Buffer, axes: Axes, alignment: Alignment, shift: int, *, is_input: bool) -> Place:
        shape = buffer.extent(axes)
        data = int(np.prod(shape, dtype=np.int64)) * ELEMENT.itemsize
        lead = LINE_BYTES * int(self._rng.integers(MOST_LINES)) if alignment == "natural" else 0
        mapped = max(PAGE_BYTES, -(-(data + lead + shift) // PAGE_BYTES) * PAGE_BYTES)
        pointer = mapped - data - shift if alignment == "end" else lead + shift
        descriptor = self._inputs if is_input else self._outputs
        offset = self._length[descriptor]
        self._length[descriptor] += mapped
        os.ftruncate(descriptor, offset + mapped)
        return Place(buffer, is_input, shape, offset, mapped, pointer)
