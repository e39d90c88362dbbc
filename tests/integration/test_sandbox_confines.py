"""Programs in the sandbox: a compiler works, nothing else does, and nothing of it lives on."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kernel_lab.sandbox import Bounds, Completed, Sandbox, confine, detect, isolation, open_sandbox, run_sandboxed
from kernel_lab.sandbox.native import build_once, find_compiler
from schemas.faults import Misconfigured, Transient
from tests.fixtures.factory import wait_until
from tests.integration.runner_lab import MODES, landlock_is_there

SHELL = ("/bin/sh", "-c")


@pytest.fixture(params=MODES)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "landlock" and not landlock_is_there():
        pytest.skip("this kernel has no Landlock (before 5.13, or not among its security modules)")
    return open_sandbox(isolation(request.param))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def run(sandbox: Sandbox, work: Path, script: str, bounds: Bounds | None = None) -> Completed:
    return run_sandboxed((*SHELL, script), work_dir=work, sandbox=sandbox, bounds=bounds)


def compiled(work: Path, source: str) -> str:
    """A program built outside, to be run inside."""
    (work / "program.c").write_text(source)
    subprocess.run(["gcc", "-w", "-o", work / "program", work / "program.c"], check=True)
    return str(work / "program")


def running_with(name: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if name in line and str(os.getpid()) != path.parent.name:
            found.append(line)
    return found


@pytest.fixture
def unmistakable() -> str:
    """A number of seconds that no other sleep uses."""
    return f"{4000 + os.getpid() % 1000}.{time.monotonic_ns() % 1000003}"


def test_a_compiler_finds_its_parts_and_writes_its_object(sandbox: Sandbox, work: Path) -> None:
    (work / "k.c").write_text("#include <math.h>\n#include <omp.h>\nfloat f(float x) { return sinf(x); }\n")
    command = (str(find_compiler()), "-O3", "-fopenmp", "-fPIC", "-shared", "k.c", "-o", "k.so", "-lm", "-lmvec")
    completed = run_sandboxed(command, work_dir=work, sandbox=sandbox)
    assert (completed.exit_status, completed.output) == (0, "")
    assert (work / "k.so").read_bytes().startswith(b"\x7fELF")


def test_diagnostics_of_a_failed_compilation_come_back(sandbox: Sandbox, work: Path) -> None:
    (work / "k.c").write_text("this is no C\n")
    completed = run_sandboxed((str(find_compiler()), "-c", "k.c"), work_dir=work, sandbox=sandbox)
    assert completed.exit_status == 1
    assert "k.c:1" in completed.output


def test_only_the_work_folder_can_be_written(sandbox: Sandbox, work: Path) -> None:
    beside = work.parent / "beside"
    script = f"echo a > inside; echo b > {beside} || echo refused; echo c > /tmp/assay-sandbox-test || echo refused"
    completed = run(sandbox, work, script)
    assert completed.output.count("refused") == 2
    assert (work / "inside").read_text() == "a\n"
    assert not beside.exists()
    assert not Path("/tmp/assay-sandbox-test").exists()


def test_files_of_the_host_cannot_be_read(sandbox: Sandbox, work: Path) -> None:
    secret = work.parent / "secret"
    secret.write_text("secret")
    script = f"cat /etc/passwd {secret} ~/.profile || echo refused; test -r /proc/{os.getpid()}/mem || echo hidden"
    completed = run(sandbox, work, script + f"; cat /proc/{os.getpid()}/environ || echo hidden")
    assert "root:" not in completed.output
    assert "secret\n" not in completed.output.replace(str(secret), "")
    assert completed.output.count("refused") == 1
    assert "hidden" in completed.output


def test_the_environment_of_the_host_stays_outside(
    sandbox: Sandbox, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_A_PASSWORD", "hunter2")
    assert "hunter2" not in run(sandbox, work, "env").output


@pytest.mark.parametrize(
    "call",
    ["socket(AF_INET, SOCK_STREAM, 0)", "socket(AF_UNIX, SOCK_STREAM, 0)", "socket(AF_NETLINK, SOCK_RAW, 0)",
     "syscall(SYS_ptrace, 16, getppid(), 0, 0)", "syscall(SYS_io_uring_setup, 8, 0)", "syscall(SYS_bpf, 0, 0, 0)",
     "syscall(SYS_unshare, 0x10000000)", "syscall(SYS_mount, 0, 0, 0, 0, 0)"],
)  # fmt: skip
def test_a_compiler_may_not(sandbox: Sandbox, work: Path, call: str) -> None:
    includes = "#include <errno.h>\n#include <sys/socket.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
    program = compiled(work, f"{includes}int main(void) {{ return {call} == -1 && errno == EPERM ? 7 : 1; }}")
    assert run_sandboxed((program,), work_dir=work, sandbox=sandbox).exit_status == 7


def test_a_program_over_its_time_is_gone_with_all_that_it_started(
    sandbox: Sandbox, work: Path, unmistakable: str
) -> None:
    escapes = f"setsid sleep {unmistakable} & (setsid setsid sleep {unmistakable} &) & sleep {unmistakable}"
    completed = run(sandbox, work, escapes, Bounds(wall_s=0.5))
    assert completed.timed_out
    assert completed.signal == "SIGKILL"
    assert running_with(unmistakable) == []


def test_what_a_finished_program_left_behind_is_gone(sandbox: Sandbox, work: Path, unmistakable: str) -> None:
    completed = run(sandbox, work, f"setsid sleep {unmistakable} & echo done")
    assert (completed.exit_status, completed.output, completed.timed_out) == (0, "done\n", False)
    assert running_with(unmistakable) == []


def test_a_fork_bomb_ends_with_its_time(sandbox: Sandbox, work: Path) -> None:
    source = """#include <unistd.h>
    int main(void) { for (int i = 0; i < 60; i++) if (fork() == 0) { setsid(); pause(); } pause(); }"""
    program = compiled(work, source)
    completed = run_sandboxed((program,), work_dir=work, sandbox=sandbox, bounds=Bounds(wall_s=0.5))
    assert completed.timed_out
    assert running_with(program) == []


ENDLESS = {
    "memory": ("for (;;) memset(malloc(1 << 20), 1, 1 << 20);", Bounds(memory_bytes=64 << 20), {"SIGSEGV"}),
    "time": ('for (;;) __asm__ volatile("");', Bounds(cpu_s=1), {"SIGXCPU", "SIGKILL"}),
    "output": ('for (;;) write(1, "endless ", 8);', Bounds(file_bytes=1 << 16), {"SIGXFSZ"}),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_bounded(sandbox: Sandbox, work: Path, what: str) -> None:
    body, bounds, signals = ENDLESS[what]
    includes = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    program = compiled(work, f"{includes}int main(void) {{ {body} }}")
    completed = run_sandboxed((program,), work_dir=work, sandbox=sandbox, bounds=bounds)
    assert completed.signal in signals
    assert not completed.timed_out
    assert len(completed.output) <= 1 << 14


def test_a_program_that_is_not_there_is_a_fault_of_the_tool(sandbox: Sandbox, work: Path) -> None:
    with pytest.raises(Transient, match="no-such-program"):
        run_sandboxed((str(work / "no-such-program"),), work_dir=work, sandbox=sandbox)


def test_a_parent_that_is_killed_takes_the_sandbox_with_it(sandbox: Sandbox, work: Path, unmistakable: str) -> None:
    program = f"""
        from pathlib import Path
        from kernel_lab.sandbox import isolation, open_sandbox, run_sandboxed
        box = open_sandbox(isolation({sandbox.isolation.mode!r}))
        run_sandboxed(("/bin/sh", "-c", "setsid sleep {unmistakable} & echo up > up; sleep {unmistakable}"),
                      work_dir=Path({str(work)!r}), sandbox=box)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    wait_until((work / "up").exists, "the sandbox is up")
    assert running_with(unmistakable) != []
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_until(lambda: running_with(unmistakable) == [], "nothing of the sandbox is left")


def test_detection_takes_the_strongest_that_works() -> None:
    found = detect()
    assert found.mode == "bwrap"
    assert found.reason


def test_landlock_is_next_and_none_is_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    target = sys.modules["kernel_lab.sandbox.isolation"]
    monkeypatch.setattr(target, "try_bwrap", lambda: "user namespaces are refused")
    if landlock_is_there():
        assert detect().mode == "landlock"
    monkeypatch.setattr(target, "try_landlock", lambda: "the kernel has no Landlock")
    with pytest.raises(Misconfigured, match="user namespaces are refused; the kernel has no Landlock"):
        detect()


@pytest.mark.parametrize("name", ["", "None", "docker"])
def test_an_unknown_isolation_is_refused(name: str) -> None:
    with pytest.raises(Misconfigured, match="not one of"):
        isolation(name)


def test_no_isolation_must_be_asked_for_by_name(work: Path, unmistakable: str) -> None:
    sandbox = open_sandbox(isolation("none"))
    completed = run(sandbox, work, f"setsid sleep {unmistakable} & test -r /etc/passwd && echo open")
    assert completed.output == "open\n"
    assert running_with(unmistakable) == [], "limits and an end hold without isolation too"


def test_a_tool_is_compiled_once(tmp_path: Path) -> None:
    first = build_once(confine.LAUNCHER_SOURCE, tmp_path)
    stamp = first.stat().st_mtime_ns
    assert build_once(confine.LAUNCHER_SOURCE, tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    other = tmp_path / "launch.c"
    other.write_text(confine.LAUNCHER_SOURCE.read_text() + "/* changed */\n")
    assert build_once(other, tmp_path) != first
    assert [path.name for path in tmp_path.glob("launch-*.*")] == [], "no partial file is left"


def test_a_source_that_does_not_compile_says_what_is_missing(tmp_path: Path) -> None:
    source = tmp_path / "launch.c"
    source.write_text("#include <no/such/header.h>\n")
    with pytest.raises(Misconfigured, match="libc6-dev"):
        build_once(source, tmp_path / "cache")
