"""One fresh process per arm, started, spoken to, limited and ended by the parent."""

import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

from kernel_lab.runner import protocol
from kernel_lab.runner.arm import BufferSet, CallOutcome, Died, Limits, LoadFailed, OverTime, Returned, Timing
from kernel_lab.runner.memory import MemfdBuffers
from kernel_lab.runner.protocol import Garbage, Message, Reply, Request
from kernel_lab.sandbox.confine import Confined, signal_name
from kernel_lab.workloads.workload import Scalars
from schemas.faults import Bug, Transient

START_TIMEOUT_S = 20.0
"""Chosen: a start takes 10 ms, a library's 200 ms; mapping a gigabyte half
a second. More is a machine in trouble, not a candidate."""
DEATH_GRACE_S = 5.0
"""How long a process whose channel closed, or that reported a fault, may take to end; chosen, it takes under 1 ms."""
ATTEMPTS = 6
"""MAX_ATTEMPTS of runner.c."""
MARKS_PER_ROUND = 2
MOST_MARKS = MARKS_PER_ROUND * protocol.MAX_ROUNDS * ATTEMPTS
RESTORING = 3.0
"""Chosen: a sample over sets that are restored takes up to three times its span, since a call of such a kernel moves
about as many bytes as restoring does. The parent sleeps that long."""
SO_TIMESTAMPNS = 35
"""asm-generic/socket.h: the kernel stamps every packet when it is sent, on Unix sockets too (af_unix.c)."""
TIMESPEC = struct.Struct("=qq")
STAMP_SPACE = socket.CMSG_SPACE(TIMESPEC.size)


@dataclass(frozen=True)
class Packet:
    """What came, and when the kernel took it from the sender."""

    content: bytes
    stamp_ns: int


@dataclass
class Mapped:
    """A buffer set inside the process: its number there, and where each buffer begins."""

    number: int
    bases: Mapping[str, int]


class ProcessArm:
    """An `Arm`. Once its process has ended, every request is answered with how it ended."""

    def __init__(self, running: Confined, channel: socket.socket, limits: Limits, *, inputs_writable: bool) -> None:
        self._running = running
        self._channel = channel
        self._limits = limits
        self._inputs_writable = inputs_writable
        self._sequence = 0
        self._sets: dict[MemfdBuffers, Mapped] = {}
        self._marks_ns: list[int] = []
        self._ended: Died | OverTime | None = None
        channel.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def hello(self) -> int:
        """The process is there; its pid as it sees it. Raises Transient when it did not start."""
        answer = self._answer(Reply.HELLO, 0, START_TIMEOUT_S)
        if isinstance(answer, Message):
            return answer.numbers[0]
        self.close()
        raise Transient(f"the runner did not start: {answer}")

    def load(self, payload: bytes, descriptors: Sequence[int]) -> LoadFailed | None:
        """The candidate is loaded, or why not. Dying of it is a failure to load."""
        answer = self._ask(Request.LOAD, payload, Reply.LOADED, self._limits.call_timeout_s, descriptors)
        if isinstance(answer, Message) and answer.kind is Reply.LOADED:
            return None
        self.close()
        return LoadFailed(answer.text if isinstance(answer, Message) else f"the process ended while loading: {answer}")

    def call(self, buffers: BufferSet, scalars: Scalars) -> CallOutcome:
        """The candidate was called once on `buffers`, or how it ended."""
        if ended := self._map([_memory(buffers)]):
            return ended
        payload = protocol.call(self._sets[_memory(buffers)].number, tuple(scalars.values()))
        started = time.monotonic_ns()
        answer = self._ask(Request.CALL, payload, Reply.RETURNED, self._limits.call_timeout_s)
        parent_ns = time.monotonic_ns() - started
        if not isinstance(answer, Message):
            return answer
        elapsed_ns, before, after, threads = answer.numbers
        return Returned(elapsed_ns, parent_ns, before, after, threads)

    def time(
        self, buffers: Sequence[BufferSet], scalars: Scalars, min_sample_ns: int, pause_ns: int
    ) -> Timing | Died | OverTime:
        """One sample over `buffers` in turn, or how the process ended."""
        memories = [_memory(one) for one in buffers]
        if ended := self._map(memories):
            return ended
        numbers, restored = [self._sets[one].number for one in memories], any(one.origins for one in memories[:1])
        payload = protocol.time(numbers, tuple(scalars.values()), min_sample_ns, pause_ns)
        answer = self._ask(
            Request.TIME,
            payload,
            Reply.TIMED,
            self._sample_limit_s(min_sample_ns, pause_ns),
            undisturbed_s=(min_sample_ns + pause_ns) / 1e9 * (RESTORING if restored else 1.0),
        )
        if not isinstance(answer, Message):
            return answer
        calls, elapsed_ns, first_ns, run_delay_ns, switches, migrated, turn = answer.numbers
        if turn >= len(buffers):
            return self._distrust(f"its next call would be to set {turn} of {len(buffers)}")
        rounds = -(-calls // len(numbers)) if restored else 1
        if rounds < 1 or len(self._marks_ns) < MARKS_PER_ROUND * rounds:
            return self._distrust("a sample without its marks")
        parent_ns = _between_marks(self._marks_ns[-MARKS_PER_ROUND * rounds :])
        return Timing(calls, elapsed_ns, first_ns, parent_ns, run_delay_ns, switches, bool(migrated), turn)

    def release(self) -> None:
        """The process maps no buffer set any longer; closing the arm does the same."""
        if self._sets and self._ended is None:
            self._ask(Request.UNMAP, b"", Reply.UNMAPPED, START_TIMEOUT_S)
        self._sets.clear()

    def close(self) -> None:
        """Nothing of the process is left."""
        self._channel.close()
        self._running.close()
        self._sets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _sample_limit_s(self, min_sample_ns: int, pause_ns: int) -> float:
        """Two calls at their limit, and the pauses and samples of every attempt twice over."""
        return 2 * self._limits.call_timeout_s + 2 * ATTEMPTS * (min_sample_ns + pause_ns) / 1e9

    def _map(self, wanted: Sequence[MemfdBuffers]) -> Died | OverTime | None:
        """All of `wanted` are mapped, or how the process ended. As many as fit go in one message."""
        todo = [one for one in dict.fromkeys(wanted) if one not in self._sets]
        if len(self._sets) + len(todo) > protocol.MAX_SETS:
            raise Bug(f"more than {protocol.MAX_SETS} buffer sets in one arm: release them first")
        asked = [(one, self._asked(one, len(self._sets) + at)) for at, one in enumerate(todo)]
        while asked:
            fitting = _fitting([payload for _, payload in asked])
            if ended := self._map_at_once(asked[:fitting]):
                return ended
            asked = asked[fitting:]
        return None

    def _asked(self, memory: MemfdBuffers, number: int) -> bytes:
        rows = memory.mapped(inputs_writable=self._inputs_writable)
        return protocol.map_set(protocol.AskedMap(number, tuple(rows), tuple(memory.axes.values()), memory.origins))

    def _map_at_once(self, asked: Sequence[tuple[MemfdBuffers, bytes]]) -> Died | OverTime | None:
        read_only, inputs, outputs = asked[0][0].descriptors
        files = (inputs if self._inputs_writable else read_only, outputs)
        payload = b"".join(one for _, one in asked)
        answer = self._ask(Request.MAP, payload, Reply.MAPPED, START_TIMEOUT_S, files)
        if not isinstance(answer, Message):
            return answer
        places = sum(len(memory.places) for memory, _ in asked)
        if len(answer.numbers) != places:
            return self._distrust(f"{len(answer.numbers)} addresses for {places} buffers")
        addresses = iter(answer.numbers)
        for memory, _ in asked:
            bases = {place.buffer.name: base for place, base in zip(memory.places, addresses, strict=False)}
            self._sets[memory] = Mapped(len(self._sets), bases)
        return None

    def _ask(
        self,
        kind: Request,
        payload: bytes,
        wanted: Reply,
        limit_s: float,
        descriptors: Sequence[int] = (),
        undisturbed_s: float = 0.0,
    ) -> Message | Died | OverTime:
        """The reply to one request, or how the process ended. The parent sleeps for the first `undisturbed_s`."""
        if self._ended is not None:
            return self._ended
        self._sequence += 1
        packet = protocol.encode(kind, self._sequence, payload)
        with suppress(OSError):  # a process that is gone is told by the answer
            self._channel.settimeout(limit_s)
            socket.send_fds(self._channel, [packet], list(descriptors))
        self._marks_ns = []
        if undisturbed_s > 0:  # sleeping for nothing still costs a timer's slack, at every one of V3's calls
            time.sleep(undisturbed_s)
        return self._answer(wanted, self._sequence, limit_s)

    def _answer(self, wanted: Reply, sequence: int, limit_s: float) -> Message | Died | OverTime:
        """The next reply that is no mark; the marks before it are kept."""
        deadline = time.monotonic() + limit_s
        while True:
            packet = self._receive(deadline - time.monotonic())
            if packet is None:
                return self._over_time(limit_s)
            reply = protocol.decode(packet.content) if packet.content else None
            if not isinstance(reply, Message) or reply.kind is not Reply.MARK or len(self._marks_ns) >= MOST_MARKS:
                return self._judge(reply, wanted, sequence)
            self._marks_ns.append(packet.stamp_ns)

    def _judge(self, reply: Message | Garbage | None, wanted: Reply, sequence: int) -> Message | Died | OverTime:
        match reply:
            case None:
                return self._died(None)
            case Message(kind=Reply.FAULT, numbers=(_, address, private_bytes, read_clock)):
                return self._died(self._where(address), private_bytes, read_clock=bool(read_clock))
            case Message(kind=Reply.LOAD_FAILED) if wanted is Reply.LOADED:
                return reply
            case Message(kind=Reply.REFUSED, sequence=number) if number == sequence:
                return self._distrust(f"it refused: {reply.text[:200]}")
            case Message(kind=kind, sequence=number) if kind is wanted and number == sequence:
                return reply
            case Message():
                return self._distrust(f"{reply.kind.name} {reply.sequence} in place of {wanted.name} {sequence}")
            case Garbage():
                return self._distrust(reply.why)

    def _receive(self, limit_s: float) -> Packet | None:
        """One packet, empty at the end of the channel; None when the time is over."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        if not poll.poll(max(0.0, limit_s) * 1000):
            return None
        try:
            content, extra, _, _ = self._channel.recvmsg(protocol.MESSAGE_BYTES, STAMP_SPACE)
        except ConnectionError:
            return Packet(b"", 0)
        return Packet(content, _stamp_ns(extra))

    def _where(self, address: int) -> str | None:
        for memory, mapped in self._sets.items():
            found = memory.where(address, mapped.bases, protocol.GUARD_BYTES)
            if found:
                return found
        return None

    def _died(
        self, fault_address_in: str | None, private_bytes: int | None = None, *, read_clock: bool = False
    ) -> Died:
        """How it ended; a process that lives on after its channel closed is ended, and that is said."""
        status = self._running.wait(DEATH_GRACE_S)
        if status is None:
            return self._distrust("it closed its channel and lived on")
        signal = signal_name(status)
        ended = Died(signal, None if signal else status, fault_address_in, self._output(), private_bytes, read_clock)
        self._ended = ended
        return self._ended

    def _distrust(self, why: str) -> Died:
        """What it says is not what a runner says: it is ended, and nothing of what it said is used."""
        self._running.kill()
        self._ended = Died(None, None, None, f"[the reply was not a runner's: {why}]\n{self._output()}")
        return self._ended

    def _over_time(self, limit_s: float) -> OverTime:
        self._running.kill()
        self._ended = OverTime(limit_s)
        return self._ended

    def _output(self) -> str:
        return self._running.output(self._limits.output_bytes)


def _fitting(payloads: Sequence[bytes]) -> int:
    """How many of `payloads` fit one message; at least one, which always does."""
    ends = accumulate(len(one) for one in payloads)
    return max(1, sum(end <= protocol.MESSAGE_BYTES - protocol.HEADER.size for end in ends))


def object_file(path: Path) -> int:
    """A sealed memory file with the bytes of `path` as they are now: what is hashed is what gets loaded. Raises
    Transient when it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Transient(f"the object {path} cannot be read: {error.strerror}") from error
    descriptor = os.memfd_create("candidate.so", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, content)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def _between_marks(marks_ns: Sequence[int]) -> int:
    """Time between the first and second mark of each round."""
    return sum(after - before for before, after in zip(marks_ns[::2], marks_ns[1::2], strict=True))


def _stamp_ns(extra: Sequence[tuple[int, int, bytes]]) -> int:
    for level, kind, content in extra:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(content) == TIMESPEC.size:
            seconds, nanoseconds = TIMESPEC.unpack(content)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return 0


def _memory(buffers: BufferSet) -> MemfdBuffers:
    if not isinstance(buffers, MemfdBuffers):
        raise Bug(f"{type(buffers).__name__} is not shared memory")
    return buffers
