"""A program under isolation: no network, no files but its own, bounded memory, time and output, killed with everything
it started."""

import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from landlockpy import AccessFS, LandlockError, Ruleset, Scope

from kernel_lab.sandbox.filters import compiler_filter
from kernel_lab.sandbox.isolation import LOADER_CACHE, SYSTEM_FOLDERS, Isolation, detect, namespaces, system_mounts
from kernel_lab.sandbox.native import build_once
from schemas.faults import Misconfigured, Transient

TRIAL = ("/bin/true",)
LAUNCHER_SOURCE = Path(__file__).with_name("launch.c")
CANNOT_START = 125
"""What launch.c exits with when it, not the program, failed."""
BWRAP_FAILED = 1
"""What bwrap exits with when it failed itself; its program may do so too."""
END_GRACE_S = 5.0
"""How long the end of a killed sandbox may take before it is a fault of the machine; chosen, ends take about 1 ms."""

READING = AccessFS.READ_FILE | AccessFS.READ_DIR | AccessFS.EXECUTE
WRITING = (
    READING | AccessFS.WRITE_FILE | AccessFS.TRUNCATE | AccessFS.MAKE_REG | AccessFS.MAKE_DIR
    | AccessFS.REMOVE_FILE | AccessFS.REMOVE_DIR
)  # fmt: skip


@dataclass(frozen=True)
class Bounds:
    """What one process of the program may use; `wall_s` is for the whole of it."""

    memory_bytes: int = 2 << 30
    """Private memory (RLIMIT_DATA): shared buffers do not count."""
    cpu_s: int = 60
    wall_s: float = 60.0
    file_bytes: int = 64 << 20
    """The largest file, standard output included."""
    open_files: int = 256
    stack_bytes: int = 64 << 20
    """Address space only; a kernel may put large arrays there."""

    def options(self) -> list[str]:
        """As launch.c takes them."""
        limits = {
            "data": self.memory_bytes, "cpu": self.cpu_s, "fsize": self.file_bytes, "nofile": self.open_files,
            "stack": self.stack_bytes, "core": 0, "memlock": 0, "msgqueue": 0,
        }  # fmt: skip
        return [part for name, value in limits.items() for part in ("--rlimit", name, str(value))]


@dataclass(frozen=True)
class Sandbox:
    """Isolation that works here plus the compiled launcher. Make one with `open_sandbox` and hand it on."""

    isolation: Isolation
    launcher: Path


@dataclass(frozen=True)
class Program:
    """What to run, and all that it may see. Paths inside are the paths outside."""

    argv: tuple[str, ...]
    read_only: tuple[Path, ...] = ()
    work_dir: Path | None = None
    """The only writable place, and the current folder."""
    environment: Mapping[str, str] = field(default_factory=dict)
    bounds: Bounds = Bounds()
    filter: bytes = b""
    """Seccomp BPF in force from the start; a runner installs its own later, since it still has to load."""
    descriptors: tuple[int, ...] = ()
    """Inherited, under the same numbers."""
    tasks_descriptor: int | None = None
    """Under this number the program gets /proc/self/task where it cannot open it itself (Landlock)."""


@dataclass(frozen=True)
class Completed:
    """The program ended by itself, or was over its time (`timed_out`). Output is standard output and error together."""

    exit_status: int
    """128 + the signal for a death by signal."""
    output: str
    timed_out: bool
    elapsed_s: float

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it."""
        return signal_name(self.exit_status)


def open_sandbox(isolation: Isolation | None = None, cache_dir: Path | None = None) -> Sandbox:
    """A sandbox of the given isolation, detected when not given, in which a program has run. Raises Misconfigured."""
    sandbox = Sandbox(isolation or detect(), build_once(LAUNCHER_SOURCE, cache_dir))
    try:
        with spawn_sandboxed(Program(TRIAL, filter=compiler_filter()), sandbox) as trial:
            status = trial.wait(END_GRACE_S)
            said = trial.output()
    except Transient as error:
        raise Misconfigured(f"the {sandbox.isolation} sandbox starts nothing here: {error}") from error
    if status != 0:
        raise Misconfigured(f"the {sandbox.isolation} sandbox starts nothing here (status {status}): {said[:500]}")
    return sandbox


@cache
def own_sandbox() -> Sandbox:
    """The strongest sandbox of this machine, which does not change while a process lives."""
    return open_sandbox()


def signal_name(exit_status: int) -> str | None:
    """`SIGSEGV` for 139; None for an ordinary status."""
    with suppress(ValueError):
        return signal.Signals(exit_status - 128).name
    return None


class Confined:
    """A running program. Closing it leaves nothing of it behind. The thread that started it must outlive it: the kernel
    ties the program's life to that thread."""

    def __init__(self, process: subprocess.Popen[bytes], output: int, told: int | None, kept: ExitStack) -> None:
        self._process = process
        self._output = output
        self._told = told
        self._kept = kept
        self._pidfd = os.pidfd_open(process.pid)
        self._kept.callback(os.close, self._pidfd)
        self._closed = False

    def wait(self, timeout_s: float) -> int | None:
        """The exit status, or None when the program is still running after `timeout_s`."""
        if not _readable(self._pidfd, timeout_s):
            return None
        returncode = self._process.wait()
        if self._told is not None and returncode == BWRAP_FAILED and not self._told_its_end:
            return CANNOT_START
        return _as_shell(returncode)

    def kill(self) -> int:
        """Nothing of the program is left; its exit status. Raises Transient when the machine cannot end it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)  # launch.c kills and reaps all descendants before it ends
        status = self.wait(END_GRACE_S)
        if status is None:
            raise Transient(f"sandbox process {self._process.pid} did not end within {END_GRACE_S} s of being told to")
        return status

    def output(self, most_bytes: int = 1 << 14) -> str:
        """What it wrote to standard output and error, cut."""
        return os.pread(self._output, most_bytes, 0).decode(errors="replace")

    def close(self) -> None:
        """Killed if need be, and all descriptors closed."""
        if not self._closed:
            self._closed = True
            with self._kept:
                self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def _told_its_end(self) -> bool:
        """bwrap, which is gone by now, told the exit status of its program. It exits with the same status when it
        fails itself, and tells nothing."""
        assert self._told is not None
        with suppress(BlockingIOError):
            return b'"exit-code"' in os.read(self._told, 4096)
        return False


def spawn_sandboxed(program: Program, sandbox: Sandbox) -> Confined:
    """`program` is running. Raises Transient when no process can be started."""
    with ExitStack() as passing, ExitStack() as kept:
        output, told = _output_file(kept), None
        command, passed = [str(sandbox.launcher), *program.bounds.options()], list(program.descriptors)
        if program.filter and sandbox.isolation.mode != "none":
            passed.append(_memory_file(program.filter, passing))
            command += ["--seccomp", str(passed[-1])]
        match sandbox.isolation.mode:
            case "bwrap":
                told, telling = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                kept.callback(os.close, told)
                passing.callback(os.close, telling)
                passed.append(telling)
                command = [str(sandbox.launcher), "--supervise", "--", *_bwrap(program, sandbox, telling), *command]
            case "landlock":
                passed.append(_ruleset(program, passing))
                command += ["--supervise", "--landlock", str(passed[-1]), *_tasks(program)]
            case "none":
                command += ["--supervise"]
        process = _start([*command, "--", *program.argv], program, output, passed)
        return Confined(process, output, told, kept.pop_all())


def run_sandboxed(
    argv: Sequence[str],
    *,
    work_dir: Path,
    sandbox: Sandbox | None = None,
    read_only: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    bounds: Bounds | None = None,
    keep_bytes: int = 1 << 14,
) -> Completed:
    """A compiler has run, with `work_dir` as its only writable place; `keep_bytes` of its output are kept. Raises
    Transient when the sandbox failed."""
    bounds = bounds or Bounds()
    names = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": str(work_dir), **(environment or {})}
    program = Program(tuple(argv), tuple(read_only), work_dir, names, bounds, compiler_filter())
    started = time.monotonic()
    with spawn_sandboxed(program, sandbox or own_sandbox()) as running:
        status = running.wait(bounds.wall_s)
        ended = running.kill()
        elapsed_s = time.monotonic() - started
        completed = Completed(
            ended if status is None else status, running.output(keep_bytes), status is None, elapsed_s
        )
    if completed.exit_status == CANNOT_START and not completed.timed_out:
        raise Transient(f"the sandbox could not start {argv[0]}: {completed.output[:500]}")
    return completed


def _start(command: list[str], program: Program, output: int, passed: Sequence[int]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(program.environment),
            cwd=program.work_dir or "/",
            pass_fds=passed,
            start_new_session=True,
        )
    except OSError as error:
        raise Transient(f"cannot start {command[0]}: {error}") from error


def _output_file(kept: ExitStack) -> int:
    """Memory, so that a flood fills no disk and blocks nobody; RLIMIT_FSIZE bounds it."""
    output = os.memfd_create("output", os.MFD_CLOEXEC)
    kept.callback(os.close, output)
    fcntl.fcntl(output, fcntl.F_SETFL, os.O_APPEND)
    return output


def _bwrap(program: Program, sandbox: Sandbox, telling: int) -> list[str]:
    """The command line of bwrap up to the program that it is to run."""
    mounts = _mounts(program, sandbox.launcher)
    return [str(sandbox.isolation.bwrap), *namespaces(), *mounts, "--json-status-fd", str(telling), "--"]


def _tasks(program: Program) -> list[str]:
    return [] if program.tasks_descriptor is None else ["--tasks", str(program.tasks_descriptor)]


def _mounts(program: Program, launcher: Path) -> list[str]:
    mounts = [*system_mounts(), "--proc", "/proc", "--dev-bind", "/dev/null", "/dev/null"]
    for path in (launcher, *program.read_only):
        mounts += ["--ro-bind", str(path), str(path)]
    if program.work_dir:
        mounts += ["--bind", str(program.work_dir), str(program.work_dir), "--chdir", str(program.work_dir)]
    for name, value in program.environment.items():
        mounts += ["--setenv", name, value]
    return [*mounts, "--remount-ro", "/"]


def _ruleset(program: Program, passing: ExitStack) -> int:
    """A Landlock ruleset with the same view of the file system as bwrap's mounts."""
    try:
        rules = passing.enter_context(Ruleset(scoped=Scope.SIGNAL | Scope.ABSTRACT_UNIX_SOCKET))
        _allow_paths(rules, program)
    except (LandlockError, OSError) as error:
        raise Transient(f"Landlock refuses a rule: {error}") from error
    return rules.fileno()


def _allow_paths(rules: Ruleset, program: Program) -> None:
    for path in (*map(Path, SYSTEM_FOLDERS), *program.read_only):
        if path.exists():
            rules.allow_path(path, READING if path.is_dir() else READING & ~AccessFS.READ_DIR)
    if LOADER_CACHE.is_file():
        rules.allow_path(LOADER_CACHE, AccessFS.READ_FILE)
    rules.allow_path("/dev/null", AccessFS.READ_FILE | AccessFS.WRITE_FILE)
    if program.work_dir:
        rules.allow_path(program.work_dir, WRITING)


def _memory_file(content: bytes, cleanup: ExitStack) -> int:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    cleanup.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _readable(descriptor: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def _as_shell(returncode: int) -> int:
    """Popen tells a death by signal as a negative number."""
    return returncode if returncode >= 0 else 128 - returncode
