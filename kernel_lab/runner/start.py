"""Starting arms: candidates under the sandbox, libraries as trusted processes."""

import os
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kernel_lab.runner import protocol
from kernel_lab.runner.arm import Limits, LoadFailed
from kernel_lab.runner.process import ProcessArm, object_file
from kernel_lab.sandbox.confine import Bounds, Program, Sandbox, open_sandbox, spawn_sandboxed
from kernel_lab.sandbox.filters import runner_filter
from kernel_lab.sandbox.isolation import Isolation
from kernel_lab.sandbox.native import build_once
from kernel_lab.workloads.workload import Workload
from schemas.faults import Bug

RUNNER_SOURCE = Path(__file__).with_name("runner.c")
RESTORE_SOURCE = Path(__file__).with_name("restore.c")
SHARED = ("-shared", "-fPIC")
CHANNEL = "{channel}"
"""Stands for the descriptor of the channel in a command line."""
OPEN_FILES = 256
"""Chosen: a candidate needs ten, torch opens about a hundred while it is imported."""
SANITIZING = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer")
ADDRESS_ERROR_STATUS, UNDEFINED_STATUS = 87, 88
"""What a sanitizer ends its process with (runner.c)."""
SHADOW_BYTES = 1 << 47
"""AddressSanitizer reserves its shadow in private memory, which RLIMIT_DATA counts; V2 has met the limit by then."""
LIBRARY_OPEN_FILES = 20_480
"""Python's mmap keeps a descriptor for each buffer. Chosen: the 2,048 sets of a cold rotation, nine buffers each, and
room to spare."""


@dataclass(frozen=True)
class Lab:
    """Everything that starting an arm needs; calling it is a `StartArm`. Make one with `open_lab` per process."""

    sandbox: Sandbox
    runner: Path
    sanitizes: bool = False
    """The runner was built with sanitizers, for objects that were too."""

    @property
    def isolation(self) -> Isolation:
        """How candidates are confined, for verdicts."""
        return self.sandbox.isolation

    def sanitizing(self, cache_dir: Path | None = None) -> "Lab":
        """A lab for objects built with sanitizers. Raises Misconfigured when the compiler has none."""
        return replace(self, runner=build_once(RUNNER_SOURCE, cache_dir, SANITIZING), sanitizes=True)

    def __call__(
        self,
        object_path: Path | None,
        workload: Workload,
        threads: int,
        limits: Limits,
        *,
        library: str | None = None,
        environment: Mapping[str, str] | None = None,
        inputs_writable: bool = True,
    ) -> ProcessArm | LoadFailed:
        """A fresh process with the candidate, or with the trusted library, loaded; or why it does not load."""
        _check(workload)
        names = {**thread_environment(threads), **(environment or {})}
        if self.sanitizes:
            limits = replace(limits, memory_bytes=SHADOW_BYTES)
        if library is not None:
            return _start_library(workload, library, names, limits, self.sandbox, inputs_writable=inputs_writable)
        if object_path is None:
            raise Bug("an arm needs an object or a library")
        return self._start_candidate(object_path, workload, threads, limits, names, inputs_writable=inputs_writable)

    def _start_candidate(
        self,
        object_path: Path,
        workload: Workload,
        threads: int,
        limits: Limits,
        environment: Mapping[str, str],
        *,
        inputs_writable: bool,
    ) -> ProcessArm | LoadFailed:
        with ExitStack() as cleanup:
            loaded = object_file(object_path)
            cleanup.callback(os.close, loaded)
            tasks = _reserve_descriptor(cleanup) if self.isolation.mode == "landlock" else None
            program = Program(
                (str(self.runner), CHANNEL, str(-1 if tasks is None else tasks)),
                (self.runner,),
                environment=environment,
                bounds=_bounds(limits),
                descriptors=() if tasks is None else (tasks,),
                tasks_descriptor=tasks,
            )
            arm = _open_arm(program, self.sandbox, limits, inputs_writable=inputs_writable)
            pid = arm.hello()
            failed = arm.load(protocol.load(self._nproc(threads), self._filter(pid), workload.name), (loaded,))
        return failed or arm

    def _filter(self, runner_pid: int) -> bytes:
        match self.isolation.mode:
            case "bwrap":
                return runner_filter(None, self.sanitizes)
            case "landlock":
                return runner_filter(runner_pid, self.sanitizes)
            case "none":
                return b""

    def _nproc(self, threads: int) -> int:
        """Enforced where the sandbox has a count of its own: in a user namespace, and not for root (lab fact). The
        namespace's first process counts too, and one thread is room to be caught with."""
        counted = self.isolation.mode == "bwrap" and os.geteuid() != 0 and _namespaces_count_processes()
        return threads + 2 if counted else 0


def open_lab(isolation: Isolation | None = None, cache_dir: Path | None = None) -> Lab:
    """Arms can be started: the runner is compiled and isolation (detected when not given) works."""
    return Lab(open_sandbox(isolation, cache_dir), ensure_runner(cache_dir))


@cache
def own_lab() -> Lab:
    """A lab with the strongest isolation of this machine, which does not change while a process lives."""
    return open_lab()


def ensure_runner(cache_dir: Path | None = None) -> Path:
    """The compiled runner. Raises Misconfigured when there is no compiler."""
    return build_once(RUNNER_SOURCE, cache_dir)


def start_arm(
    object_path: Path | None,
    workload: Workload,
    threads: int,
    limits: Limits,
    *,
    library: str | None = None,
    environment: Mapping[str, str] | None = None,
    inputs_writable: bool = True,
) -> ProcessArm | LoadFailed:
    """A `StartArm` with this machine's own lab: the strongest isolation that works here."""
    return own_lab()(
        object_path,
        workload,
        threads,
        limits,
        library=library,
        environment=environment,
        inputs_writable=inputs_writable,
    )


def thread_environment(threads: int) -> dict[str, str]:
    """The same for every arm, so that no arm wins by policy.

    Waiting threads spin for about half a millisecond (libgomp reckons 100,000 spins a millisecond): long enough to span
    the gap between two calls of a sample, short enough to sleep well inside the pause of 5 ms before the next sample,
    which may be the other arm's. `active` would spin for minutes beside it, `passive` would put a futex into every
    call. OpenBLAS spins for 2^20 cycles for the same reason (its default is 2^26). Threads are not bound: on a shared
    machine a bound thread waits behind whatever holds its core. malloc keeps what it is given, so no page is faulted
    inside a sample.
    """
    return {
        "LC_ALL": "C",
        "OMP_NUM_THREADS": str(threads),
        "OMP_THREAD_LIMIT": str(threads),
        "OMP_DYNAMIC": "false",
        "OMP_PROC_BIND": "false",
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "50000",
        "OMP_STACKSIZE": "16M",
        "OPENBLAS_NUM_THREADS": str(threads),
        "OPENBLAS_THREAD_TIMEOUT": "20",
        "MKL_NUM_THREADS": str(threads),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    }


def _check(workload: Workload) -> None:
    buffers = len(workload.inputs) + len(workload.outputs)
    integers = buffers + len(workload.axes)
    if (
        buffers > protocol.MAX_BUFFERS
        or integers > protocol.MAX_INTEGERS
        or len(workload.scalars) > protocol.MAX_FLOATS
    ):
        raise Bug(f"{workload.name}: more arguments than runner.c passes")


def _namespaces_count_processes() -> bool:
    """Linux counts RLIMIT_NPROC per user namespace from 5.14 on; before, the user's other processes would count too."""
    numbers = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (5, 14)


def _bounds(limits: Limits) -> Bounds:
    return Bounds(
        memory_bytes=limits.memory_bytes,
        cpu_s=max(1, round(limits.cpu_s)),
        file_bytes=limits.output_bytes,
        open_files=OPEN_FILES,
    )


def _reserve_descriptor(cleanup: ExitStack) -> int:
    """A number that the launcher may put its directory under."""
    descriptor = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    cleanup.callback(os.close, descriptor)
    return descriptor


def _start_library(
    workload: Workload,
    library: str,
    environment: Mapping[str, str],
    limits: Limits,
    sandbox: Sandbox,
    *,
    inputs_writable: bool,
) -> ProcessArm | LoadFailed:
    """Trusted code: not confined, but tied to the parent's life and limited in time and memory like any arm."""
    trusted = Sandbox(Isolation("none", "a trusted library"), sandbox.launcher)
    restorer = build_once(RESTORE_SOURCE, sandbox.launcher.parent, SHARED)
    argv = (sys.executable, "-m", "kernel_lab.runner.library", workload.name, library, str(restorer), CHANNEL)
    names = {**environment, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    program = Program(argv, environment=names, bounds=replace(_bounds(limits), open_files=LIBRARY_OPEN_FILES))
    arm = _open_arm(program, trusted, limits, inputs_writable=inputs_writable)
    arm.hello()
    return arm.load(protocol.load(0, b"", workload.name), ()) or arm


def _open_arm(program: Program, sandbox: Sandbox, limits: Limits, *, inputs_writable: bool) -> ProcessArm:
    """`program` is running with its end of a channel in place of `CHANNEL`. The parent keeps no copy of that end, or it
    would never see it close."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ExitStack() as ours_unless_started, theirs:
        ours_unless_started.callback(ours.close)
        number = theirs.fileno()
        argv = tuple(str(number) if part == CHANNEL else part for part in program.argv)
        connected = replace(program, argv=argv, descriptors=(*program.descriptors, number))
        arm = ProcessArm(spawn_sandboxed(connected, sandbox), ours, limits, inputs_writable=inputs_writable)
        ours_unless_started.pop_all()
        return arm
