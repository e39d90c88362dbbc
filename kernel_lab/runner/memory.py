"""Shared buffers: memory files that the parent owns and any arm may map.

An arena has two files, one for inputs and one for outputs, so that a measuring candidate can be given the inputs
through a read-only descriptor: no mapping of its own can then become writable. Every buffer has its own pages, filled
with a canary around the data; what lies beyond them in a runner are guard pages.
"""

import fcntl
import hashlib
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel_lab.runner.arm import Alignment, BufferSet
from kernel_lab.runner.protocol import MappedBuffer, Origin
from kernel_lab.workloads.workload import Array, Arrays, Axes, Buffer, Workload
from schemas.faults import Bug, Transient

PAGE_BYTES = mmap.PAGESIZE
LINE_BYTES = 64
ELEMENT = np.dtype(np.float32)
MOST_LINES = 64
"""A natural buffer begins up to one page into its mapping: chosen, the offset within a page is what caches see."""
CANARY = 0xA5
SLAB_BYTES = 1 << 30
"""Chosen: a mapping or two for the largest cold rotation. A page that nobody touched costs nothing."""


@dataclass(frozen=True)
class Pages:
    """A run of pages of a memory file, as the parent sees it."""

    slab: mmap.mmap
    start: int
    file_offset: int
    length: int

    @property
    def content(self) -> NDArray[np.uint8]:
        """All bytes, the parent's to write."""
        return np.frombuffer(self.slab, np.uint8, self.length, self.start)

    def release(self) -> None:
        """The memory is given back to the system."""
        self.slab.madvise(mmap.MADV_REMOVE, self.start, self.length)


@dataclass(frozen=True)
class Slab:
    """A part of a memory file, as the parent maps it."""

    content: mmap.mmap
    file_offset: int


class MemoryFile:
    """A memory file that only grows. The parent maps it in slabs, since every mapping of Python's costs a descriptor
    and a cold rotation has thousands of buffers."""

    def __init__(self, name: str) -> None:
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # nobody who holds the descriptor can pull pages from under the parent
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        self.length = 0
        self._slabs: list[Slab] = []
        self._current, self._at = 0, 0

    def take(self, length: int) -> Pages:
        """Pages that nobody else has. Raises Transient when memory is short."""
        while self._current < len(self._slabs) and self._at + length > len(self._slabs[self._current].content):
            self._current, self._at = self._current + 1, 0
        if self._current == len(self._slabs):
            self._slabs.append(self._grown(max(length, SLAB_BYTES)))
        slab, start = self._slabs[self._current], self._at
        self._at += length
        return Pages(slab.content, start, slab.file_offset + start, length)

    def rewind(self) -> None:
        """Pages are given out from the first one on again: nobody uses those given out so far."""
        self._current, self._at = 0, 0

    def close(self) -> None:
        """The file lives on only where it is mapped."""
        self._slabs.clear()
        os.close(self.descriptor)

    def _grown(self, length: int) -> Slab:
        offset = self.length
        try:
            os.ftruncate(self.descriptor, offset + length)
            slab = mmap.mmap(self.descriptor, length, mmap.MAP_SHARED, offset=offset)
        except OSError as error:
            raise Transient(f"no memory for {length} bytes of shared buffers: {error.strerror}") from error
        self.length += length
        return Slab(slab, offset)


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: its pages and its data within them."""

    buffer: Buffer
    is_input: bool
    shape: tuple[int, ...]
    pages: Pages
    pointer_offset: int

    @property
    def mapped_bytes(self) -> int:
        """Bytes between the guard pages."""
        return self.pages.length

    @property
    def data_bytes(self) -> int:
        """Bytes of the data alone."""
        return int(np.prod(self.shape, dtype=np.int64)) * ELEMENT.itemsize

    @property
    def slack(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """What lies before and after the data in its own pages."""
        content = self.pages.content
        return content[: self.pointer_offset], content[self.pointer_offset + self.data_bytes :]


class MemfdBuffers:
    """A `BufferSet`. The parent's views stay valid until `close`."""

    def __init__(
        self, arena: "MemfdArena", axes: Axes, places: tuple[Place, ...], origins: tuple[Place, ...] = ()
    ) -> None:
        self.places = places
        self._origins = origins
        """What the outputs that are read too are restored from: inputs that no candidate is given."""
        self._arena = arena
        self._axes = dict(axes)
        self._closed = False
        for place in (*places, *origins):
            before, after = place.slack
            before[:] = after[:] = CANARY

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

    @property
    def origins(self) -> tuple[Origin, ...]:
        """What a runner is to restore, and from where."""
        at = {place.buffer.name: index for index, place in enumerate(self.places)}
        return tuple(
            Origin(at[one.buffer.name], self._as_mapped(one, writable=False), one.data_bytes) for one in self._origins
        )

    def fill_inputs(self, inputs: Arrays) -> None:
        """Every input, and every origin of an output that is read too, holds the given values. Raises Bug when one is
        missing or has another shape."""
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

    def fill_outputs(self, outputs: Arrays) -> None:
        """Every output holds the given bits."""
        for place in self.places:
            if not place.is_input:
                self._view(place).view(np.uint32)[...] = np.asarray(outputs[place.buffer.name], ELEMENT).view(np.uint32)

    def view(self, name: str) -> Array:
        """The buffer itself, the parent's to read and write."""
        return self._view(self._place(name))

    def output(self, name: str) -> Array:
        """A copy of the output as it is now."""
        return self.view(name).copy()

    def input_digest(self) -> str:
        """sha256 over all input bytes as they are now, origins included."""
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
        if not self._closed:
            self._closed = True
            for place in (*self.places, *self._origins):
                place.pages.release()

    @staticmethod
    def _as_mapped(place: Place, *, writable: bool) -> MappedBuffer:
        file = 0 if place.is_input else 1
        return MappedBuffer(file, writable, place.pages.file_offset, place.mapped_bytes, place.pointer_offset)

    def _inputs(self) -> list[Place]:
        return [*(p for p in self.places if p.is_input), *self._origins]

    def _place(self, name: str) -> Place:
        return next(p for p in self.places if p.buffer.name == name)

    def _view(self, place: Place) -> Array:
        count = place.data_bytes // ELEMENT.itemsize
        flat = np.frombuffer(place.pages.slab, ELEMENT, count, place.pages.start + place.pointer_offset)
        return flat.reshape(place.shape)

    def _slack_intact(self, place: Place) -> bool:
        return all(bool((part == CANARY).all()) for part in place.slack)


class MemfdArena:
    """An `Arena` over two memory files. Close it after every arm that maps its buffers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._inputs, self._outputs = MemoryFile("inputs"), MemoryFile("outputs")
        self._read_only = os.open(f"/proc/self/fd/{self._inputs.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        self._closed = False

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """Inputs read-only, inputs, outputs."""
        return self._read_only, self._inputs.descriptor, self._outputs.descriptor

    def buffers(
        self,
        workload: Workload,
        axes: Axes,
        alignment: Alignment,
        *,
        offset_elements: int = 0,
        outputs_of: BufferSet | None = None,
    ) -> MemfdBuffers:
        """Buffers for one set of arguments, canaries around the data. `offset_elements` moves every buffer away
        from the edge that `alignment` puts it on. With `outputs_of` the outputs are those of another set of the same
        sizes, and live as long as either, but for those that are read too. Raises Transient when memory is short."""
        shift = offset_elements * ELEMENT.itemsize
        places = [self._place(b, axes, alignment, shift, is_input=True) for b in workload.inputs]
        read_too = [b for b in workload.outputs if b.in_out]
        places += [self._output_place(b, axes, alignment, shift, outputs_of) for b in workload.outputs]
        origins = [self._place(b, axes, "natural", shift, is_input=True) for b in read_too]
        return MemfdBuffers(self, {a: axes[a] for a in workload.axes}, tuple(places), tuple(origins))

    def recycle(self) -> None:
        """Every buffer set made so far is of no more use; those to come are made of the same memory."""
        self._inputs.rewind()
        self._outputs.rewind()

    def close(self) -> None:
        """All files are closed; memory lives on only where an arm still maps it."""
        if not self._closed:
            self._closed = True
            os.close(self._read_only)
            self._inputs.close()
            self._outputs.close()

    def _output_place(
        self, buffer: Buffer, axes: Axes, alignment: Alignment, shift: int, outputs_of: BufferSet | None
    ) -> Place:
        if isinstance(outputs_of, MemfdBuffers) and not buffer.in_out:
            return next(place for place in outputs_of.places if place.buffer.name == buffer.name)
        return self._place(buffer, axes, alignment, shift, is_input=False)

    def _place(self, buffer: Buffer, axes: Axes, alignment: Alignment, shift: int, *, is_input: bool) -> Place:
        shape = buffer.extent(axes)
        data = int(np.prod(shape, dtype=np.int64)) * ELEMENT.itemsize
        lead = LINE_BYTES * int(self._rng.integers(MOST_LINES)) if alignment == "natural" else 0
        mapped = max(PAGE_BYTES, -(-(data + lead + shift) // PAGE_BYTES) * PAGE_BYTES)
        pointer = mapped - data - shift if alignment == "end" else lead + shift
        pages = (self._inputs if is_input else self._outputs).take(mapped)
        return Place(buffer, is_input, shape, pages, pointer)
