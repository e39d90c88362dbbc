"""Trusted libraries as arms: `python -m kernel_lab.runner.library WORKLOAD LIBRARY RESTORER CHANNEL_FD` speaks like
runner.c. RESTORER is restore.c as a shared library.

It runs no candidate, so it is tied to its parent's life and limited, but not confined. Control words of the FPU are not
observed here and reported as 0 before and after.
"""

import ctypes
import mmap
import os
import resource
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import cast

import numpy as np

from kernel_lab.baselines.library import LIBRARY, LibraryCall
from kernel_lab.runner import protocol
from kernel_lab.runner.protocol import MappedBuffer, Reply, Request
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Array, Workload

MOST_ATTEMPTS = 6
"""As in runner.c."""
HEADROOM = 1.2
"""As in runner.c: as many calls as take a fifth longer than the sample must."""
NOT_OBSERVED = 0
HOT_BYTES = 16 << 20
"""As in runner.c."""
Restore = Callable[[int, int, int, int], None]


@dataclass(frozen=True)
class Arguments:
    """One mapped set, as the library takes it."""

    inputs: dict[str, Array]
    outputs: dict[str, Array]
    axes: dict[str, int]
    origins: tuple[tuple[Array, Array], ...] = ()
    """Outputs that are read too, and what they are restored from."""

    def restore(self, restore: Restore, count: int = 1) -> None:
        """They hold what was drawn, as in restore.c: past the caches in a cold rotation of `count` such sets."""
        cold = count * sum(to.nbytes for to, _ in self.origins) > HOT_BYTES
        for to, origin in self.origins:
            restore(to.ctypes.data, origin.ctypes.data, to.nbytes, int(cold))


@dataclass
class Library:
    """A library function of one workload, and what it was given so far."""

    workload: Workload
    name: str
    channel: socket.socket
    restore: Restore
    run: LibraryCall | None = None
    sets: dict[int, Arguments] = field(default_factory=dict)
    sample_calls: dict[int, int] = field(default_factory=dict)
    turn: int = 0

    def serve(self) -> None:
        """Every request is answered until the parent is gone or says so."""
        self._reply(Reply.HELLO, 0, struct.pack("<Q", os.getpid()))
        while True:
            packet, descriptors, _, _ = socket.recv_fds(self.channel, protocol.MESSAGE_BYTES, 2)
            if not packet:
                return
            request = protocol.decode_request(packet)
            if request.kind is Request.QUIT:
                return
            self._answer(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, request: protocol.Asked, descriptors: Sequence[int]) -> None:
        match request.kind:
            case Request.LOAD:
                self._load(request.sequence)
            case Request.MAP:
                self._map(request, descriptors)
            case Request.UNMAP:
                self.sets.clear()
                self._reply(Reply.UNMAPPED, request.sequence, b"")
            case Request.CALL:
                self._call(request)
            case Request.TIME:
                self._time(request)

    def _load(self, sequence: int) -> None:
        """Imported now, so that no import is timed."""
        try:
            import_module(self.name)
            self.run = LIBRARY[self.workload.name, self.name]
        except (ImportError, KeyError) as error:
            known = sorted(library for operation, library in LIBRARY if operation == self.workload.name)
            why = f"{self.name} has no {self.workload.name} here ({error}); known: {known}"
            self._reply(Reply.LOAD_FAILED, sequence, why.encode()[:4096])
        else:
            self._reply(Reply.LOADED, sequence, struct.pack("<QQ", NOT_OBSERVED, NOT_OBSERVED))

    def _map(self, request: protocol.Asked, descriptors: Sequence[int]) -> None:
        addresses = [at for asked in protocol.read_map(request.payload) for at in self._map_set(asked, descriptors)]
        self._reply(Reply.MAPPED, request.sequence, struct.pack(f"<{len(addresses)}Q", *addresses))

    def _map_set(self, asked: protocol.AskedMap, descriptors: Sequence[int]) -> list[int]:
        axes = dict(zip(self.workload.axes, asked.sizes, strict=True))
        declared = (*self.workload.inputs, *self.workload.outputs)
        arrays = {
            one.name: _view(mapped, one.extent(axes), descriptors)
            for one, mapped in zip(declared, asked.buffers, strict=True)
        }
        inputs = {one.name: arrays[one.name] for one in self.workload.inputs}
        outputs = {one.name: arrays[one.name] for one in self.workload.outputs}
        origins = tuple(
            (arrays[declared[one.buffer].name], _view(one.place, declared[one.buffer].extent(axes), descriptors))
            for one in asked.origins
        )
        self.sets[asked.number] = Arguments(inputs, outputs, axes, origins)
        return [array.ctypes.data for array in arrays.values()]

    def _call(self, request: protocol.Asked) -> None:
        number, scalars = protocol.read_call(request.payload)
        run, arguments, named = self._loaded(), self.sets[number], self._named(scalars)
        arguments.restore(self.restore)
        started = time.monotonic_ns()
        run(arguments.inputs, arguments.outputs, arguments.axes, named)
        elapsed_ns = time.monotonic_ns() - started
        reply = struct.pack("<QQQQ", elapsed_ns, NOT_OBSERVED, NOT_OBSERVED, len(_threads()))
        self._reply(Reply.RETURNED, request.sequence, reply)

    def _time(self, request: protocol.Asked) -> None:
        asked = protocol.read_time(request.payload)
        sets, named = [self.sets[number] for number in asked.numbers], self._named(asked.scalars)
        calls, sample = self.sample_calls.get(asked.numbers[0], 0), (0, 0, 0, 0, 0, 0)
        self.turn %= len(sets)
        for _ in range(MOST_ATTEMPTS):
            sample = self._attempt(request.sequence, sets, named, asked, calls)
            calls = sample[0]
            enough, far_over = sample[1] >= asked.min_sample_ns, sample[1] > 2 * asked.min_sample_ns
            if not enough or far_over:
                calls = 1 + int(HEADROOM * calls * asked.min_sample_ns / (sample[1] + 1))
            if enough:
                break
        self.sample_calls[asked.numbers[0]] = calls
        self._reply(Reply.TIMED, request.sequence, struct.pack("<QQQQQQQ", *sample, self.turn))

    def _attempt(
        self, sequence: int, sets: Sequence[Arguments], named: dict[str, float], asked: protocol.AskedTime, calls: int
    ) -> tuple[int, int, int, int, int, int]:
        """As in runner.c: pause, one untimed call, then `calls` calls in one round, or in rounds over restored sets."""
        time.sleep(asked.pause_ns / 1e9)
        first_ns = self._untimed(sets, named)
        calls = calls or 1 + asked.min_sample_ns // (first_ns + 1)
        round_ = len(sets) if sets[0].origins else calls
        calls = min(calls, round_ * protocol.MAX_ROUNDS)
        delay, switches, cpu = _run_delay_ns(), _involuntary_switches(), _cpu()
        elapsed_ns = 0
        for done in range(0, calls, round_):
            elapsed_ns += self._timed_round(sequence, sets, named, min(round_, calls - done))
        migrated = _cpu() != cpu
        delayed = max(0, _run_delay_ns() - delay)
        return calls, elapsed_ns, first_ns, delayed, _involuntary_switches() - switches, int(migrated)

    def _untimed(self, sets: Sequence[Arguments], named: dict[str, float]) -> int:
        """One call on the next set, and how long it took."""
        run, one = self._loaded(), sets[self.turn]
        self.turn = (self.turn + 1) % len(sets)
        one.restore(self.restore, len(sets))
        started = time.monotonic_ns()
        run(one.inputs, one.outputs, one.axes, named)
        return time.monotonic_ns() - started

    def _timed_round(self, sequence: int, sets: Sequence[Arguments], named: dict[str, float], calls: int) -> int:
        """As in runner.c: calls between two marks, after whatever is to be restored was."""
        run, at, count = self._loaded(), self.turn, len(sets)
        if sets[at].origins:
            for n in range(calls):
                sets[(at + n) % count].restore(self.restore, count)
        self._reply(Reply.MARK, sequence, b"")
        started = time.monotonic_ns()
        for _ in range(calls):
            one = sets[at]
            run(one.inputs, one.outputs, one.axes, named)
            at = at + 1 if at + 1 < count else 0
        elapsed_ns = time.monotonic_ns() - started
        self._reply(Reply.MARK, sequence, b"")
        self.turn = at
        return elapsed_ns

    def _loaded(self) -> LibraryCall:
        assert self.run is not None, "the parent loads before it calls"
        return self.run

    def _named(self, scalars: Sequence[float]) -> dict[str, float]:
        return dict(zip(self.workload.scalars, scalars, strict=True))

    def _reply(self, kind: Reply, sequence: int, payload: bytes) -> None:
        self.channel.send(protocol.encode(kind, sequence, payload))


def main(arguments: Sequence[str]) -> int:
    """Serves until the parent is gone."""
    workload, name, restorer, descriptor = arguments
    with socket.socket(fileno=int(descriptor)) as channel:
        Library(WORKLOADS[workload], name, channel, _restorer(restorer)).serve()
    return 0


def _view(mapped: MappedBuffer, shape: tuple[int, ...], descriptors: Sequence[int]) -> Array:
    """The buffer as an array, every page of it present."""
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if mapped.writable else 0)
    pages = mmap.mmap(
        descriptors[mapped.descriptor],
        mapped.mapped_bytes,
        mmap.MAP_SHARED | mmap.MAP_POPULATE,
        protection,
        offset=mapped.file_offset,
    )
    count = int(np.prod(shape, dtype=np.int64))
    flat = np.frombuffer(pages, np.float32, count, mapped.pointer_offset)
    if mapped.writable:
        touched = np.frombuffer(pages, np.uint8)[:: mmap.PAGESIZE]
        touched[...] = touched.copy()
    return flat.reshape(shape)


def _restorer(path: str) -> Restore:
    """`restore` of restore.c, which both kinds of runner share: numpy's own copies would stay in the caches."""
    function = ctypes.CDLL(path).restore
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int)
    function.restype = None
    return cast("Restore", function)


def _threads() -> list[Path]:
    return list(Path("/proc/self/task").iterdir())


def _run_delay_ns() -> int:
    """Over all threads of the process, as runner.c has it."""
    delays = 0
    for thread in _threads():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end between listing and reading
            delays += int((thread / "schedstat").read_text().split()[1])
    return delays


def _involuntary_switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _cpu() -> int:
    """The processor this thread last ran on: field 39 of stat, counted behind the command's closing bracket."""
    fields = Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()
    return int(fields[36])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
