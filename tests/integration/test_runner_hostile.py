"""Candidates that do what no kernel does. Each ends in its own outcome, nothing runs on, the parent never hangs."""

import os
import platform
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernel_lab.runner import Alignment, Died, Limits, LoadFailed, OverTime, Returned
from tests.fixtures.factory import wait_until
from tests.integration.runner_lab import AXPY, HONEST, MARK, MODES, Rig, rigs

QUICK = Limits(call_timeout_s=0.5, memory_bytes=256 << 20)


@pytest.fixture(params=MODES)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    yield from rigs(request.param, tmp_path)


def call(
    rig: Rig, body: str, *, before: str = "", limits: Limits | None = None, alignment: Alignment = "end"
) -> object:
    """One call of a candidate that holds its inputs read-only."""
    with rig.started(body, before=before, limits=limits, inputs_writable=False) as arm:
        return arm.call(rig.buffers(alignment=alignment), AXPY.scalars)


FORBIDDEN = {
    "opens a socket": "socket(AF_INET, SOCK_DGRAM, 0);",
    "opens a pair of sockets": "int two[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, two);",
    "forks": "fork();",
    "forks with vfork": "vfork();",
    "executes": 'char *argv[] = {"/bin/true", 0}; execv(argv[0], argv);',
    "opens a file for writing": 'open("/tmp/x", O_WRONLY | O_CREAT, 0600);',
    "opens a file for reading and writing": 'open("/proc/self/mem", O_RDWR);',
    "kills its parent": "kill(getppid(), SIGKILL);",
    "kills its parent through tgkill": "syscall(SYS_tgkill, getppid(), getppid(), SIGKILL);",
    "kills everyone": "kill(-1, SIGKILL);",
    "installs a handler of SIGSEGV": "signal(SIGSEGV, SIG_IGN);",
    "traces": "syscall(SYS_ptrace, 0, 0, 0, 0);",
    "reads another process": "syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0);",
    "sets up io_uring": "syscall(SYS_io_uring_setup, 8, 0);",
    "loads BPF": "syscall(SYS_bpf, 0, 0, 0);",
    "counts events": "syscall(SYS_perf_event_open, 0, 0, -1, -1, 0);",
    "mounts": "syscall(SYS_mount, 0, 0, 0, 0, 0);",
    "leaves its namespaces": "syscall(SYS_unshare, 0x10000000);",
    "makes a memory file": 'memfd_create("x", 0);',
    "maps memory that no limit counts": "mmap(0, 1 << 20, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0); raise(SIGSYS);",
    "grows a file": "ftruncate(1, 1 << 30);",
    "changes another's limits": "syscall(SYS_prlimit64, getppid(), 0, 0, 0);",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_no_kernel_asks_of_the_system_ends_it_with_sigsys(rig: Rig, what: str) -> None:
    outcome = call(rig, FORBIDDEN[what])
    assert isinstance(outcome, Died)
    assert outcome.signal == "SIGSYS"


def test_a_file_outside_the_sandbox_cannot_be_read(rig: Rig) -> None:
    secret = rig.folder / "secret"
    secret.write_text("expected output")
    body = f'y[0] = open("/etc/passwd", O_RDONLY); y[1] = open("{secret}", O_RDONLY); y[2] = open("/bin/sh", O_RDONLY);'
    with rig.started(body) as arm:
        buffers = rig.buffers()
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.output("y")[0] == -1
    assert buffers.output("y")[1] == -1
    assert buffers.output("y")[2] >= 0, "the test would pass if nothing could be opened at all"


def test_the_memory_of_the_parent_cannot_be_read(rig: Rig) -> None:
    body = f'y[0] = open("/proc/{os.getpid()}/mem", O_RDONLY); y[1] = open("/proc/{os.getpid()}/environ", O_RDONLY);'
    with rig.started(body) as arm:
        buffers = rig.buffers()
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.output("y")[:2].tolist() == [-1, -1]


def test_one_that_spins_is_over_time_and_gone(rig: Rig) -> None:
    with rig.started('for (;;) __asm__ volatile("");', limits=QUICK) as arm:
        assert arm.call(rig.buffers(), AXPY.scalars) == OverTime(0.5)
        assert rig.left_running() == []
        assert arm.call(rig.buffers(), AXPY.scalars) == OverTime(0.5), "an ended arm says how it ended"


def test_one_that_spins_in_a_sample_is_over_time(rig: Rig) -> None:
    with rig.started('for (;;) __asm__ volatile("");', limits=QUICK) as arm:
        assert isinstance(arm.time([rig.buffers()], AXPY.scalars, 1_000_000, 0), OverTime)


def test_one_that_uses_up_its_processor_time_is_killed(rig: Rig) -> None:
    limits = Limits(call_timeout_s=60.0, memory_bytes=256 << 20, cpu_s=1.0)
    outcome = call(rig, 'for (;;) __asm__ volatile("");', limits=limits)
    assert isinstance(outcome, Died)
    assert outcome.signal in {"SIGXCPU", "SIGKILL"}


def test_one_that_allocates_for_ever_meets_its_limit(rig: Rig) -> None:
    outcome = call(rig, "for (;;) memset(malloc(1 << 20), 1, 1 << 20);")
    assert isinstance(outcome, Died)
    assert outcome.signal == "SIGSEGV"
    assert outcome.fault_address_in is None


@pytest.mark.parametrize(
    ("alignment", "body", "where"),
    [
        ("end", "y[n] = 1;", "y:after"),
        ("end", "y[n + 100000] = 1;", "y:after"),
        ("end", "y[0] = x[n];", "x:after"),
        ("end", "y[0] = z[n];", "z:after"),
        ("start", "y[-1] = 1;", "y:before"),
        ("start", "y[0] = x[-1];", "x:before"),
        ("start", "((float *)x)[0] = 1;", "x:readonly"),
        ("end", "((float *)z)[n - 1] = 1;", "z:readonly"),
        ("end", "mprotect((void *)((uintptr_t)x & -4096), 4096, 3); ((float *)x)[0] = 1;", "x:readonly"),
        ("end", "*(volatile int *)16 = 1;", None),
    ],
)
def test_a_fault_names_the_guard_page_it_hit(rig: Rig, alignment: Alignment, body: str, where: str | None) -> None:
    outcome = call(rig, body, alignment=alignment)
    assert isinstance(outcome, Died)
    assert outcome.signal == "SIGSEGV"
    assert outcome.fault_address_in == where


def test_a_fault_in_a_worker_thread_is_named_too(rig: Rig) -> None:
    body = "\n#pragma omp parallel num_threads(2)\n{ if (omp_get_thread_num() == 1) y[n] = 1; }"
    with rig.started(body, before="#include <omp.h>", threads=2) as arm:
        outcome = arm.call(rig.buffers(), AXPY.scalars)
    assert isinstance(outcome, Died)
    assert outcome.fault_address_in == "y:after"


def test_an_overrun_that_meets_no_guard_page_is_seen_in_the_slack(rig: Rig) -> None:
    with rig.started(HONEST + "y[n] = 1;") as arm:
        buffers = rig.buffers(alignment="natural", n=1001)
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.slack_written() == ("y",)


def test_a_write_to_a_writable_input_changes_its_digest(rig: Rig) -> None:
    with rig.started("((float *)x)[0] += 1;", inputs_writable=True) as arm:
        buffers = rig.buffers()
        before = buffers.input_digest()
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.input_digest() != before


@pytest.mark.parametrize("body", ["exit(0);", "_exit(0);", "syscall(SYS_exit_group, 0);"])
def test_an_exit_with_status_zero_inside_a_call_is_a_death(rig: Rig, body: str) -> None:
    assert call(rig, body) == Died(None, 0, None, "")


def test_an_abort_carries_what_was_printed(rig: Rig) -> None:
    outcome = call(rig, 'fprintf(stderr, "the reason"); abort();')
    assert outcome == Died("SIGABRT", None, None, "the reason")


def test_a_crash_by_instruction_has_its_own_signal(rig: Rig) -> None:
    outcome = call(rig, "__builtin_trap();")
    assert isinstance(outcome, Died)
    assert outcome.signal in {"SIGILL", "SIGTRAP"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AArch64 has no switch for its counter")
@pytest.mark.parametrize("read", ["__builtin_ia32_rdtsc();", "unsigned core; __builtin_ia32_rdtscp(&core);"])
@pytest.mark.parametrize("where", ["", "#pragma omp parallel num_threads(2)\nif (omp_get_thread_num() == 1)"])
def test_reading_the_time_stamp_counter_is_a_death_and_named(rig: Rig, read: str, where: str) -> None:
    with rig.started(f"\n{where}\n{{ {read} }}", before="#include <omp.h>", threads=2) as arm:
        outcome = arm.call(rig.buffers(), AXPY.scalars)
    assert isinstance(outcome, Died)
    assert (outcome.signal, outcome.read_clock) == ("SIGSEGV", True)


def test_garbage_on_standard_output_changes_nothing(rig: Rig) -> None:
    body = "char junk[4096]; memset(junk, 0xff, 4096); write(1, junk, 4096); write(2, junk, 4096);" + HONEST
    with rig.started(body) as arm:
        buffers = rig.buffers()
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert np.array_equal(buffers.output("y"), 3 * np.arange(1000, dtype=np.float32) + 1)


def test_endless_output_meets_its_limit(rig: Rig) -> None:
    outcome = call(rig, 'for (;;) write(2, "endless ", 8);')
    assert isinstance(outcome, Died)
    assert outcome.signal == "SIGXFSZ"
    assert len(outcome.stderr) <= Limits().output_bytes


@pytest.mark.parametrize("size", [1, 16, 17, 48, 4096])
def test_garbage_on_the_channel_is_a_death_and_never_believed(rig: Rig, size: int) -> None:
    body = f"char junk[{size}]; memset(junk, 0x41, {size}); for (int i = 3; i < 4096; i++) write(i, junk, {size});"
    outcome = call(rig, body + HONEST)
    assert isinstance(outcome, Died)
    assert (outcome.signal, outcome.exit_status) == (None, None)
    assert "not a runner's" in outcome.stderr


@pytest.mark.parametrize(
    "kind",
    [100, 101, 103, 104, 105, 106, 108, 109, 250],
)
def test_a_forged_reply_with_a_wrong_sequence_is_not_believed(rig: Rig, kind: int) -> None:
    forged = f"uint32_t forged[12] = {{0x59415341, {kind}, 77, 32}};"
    body = forged + "for (int i = 3; i < 4096; i++) for (int j = 0; j < 40; j++) write(i, forged, sizeof forged);"
    outcome = call(rig, body + HONEST)
    assert isinstance(outcome, Died)
    assert "not a runner's" in outcome.stderr


def test_a_flood_of_marks_does_not_hold_the_parent(rig: Rig) -> None:
    body = "uint32_t mark[4] = {0x59415341, 109, 0, 0}; int ways[64], found = 0;"
    body += "for (int i = 3; i < 4096 && found < 64; i++) if (write(i, mark, 16) == 16) ways[found++] = i;"
    body += "for (;;) for (int i = 0; i < found; i++) write(ways[i], mark, 16);"
    with rig.started(body, limits=QUICK) as arm:
        assert isinstance(arm.call(rig.buffers(), AXPY.scalars), Died | OverTime), "at its limit at the latest"


def test_closing_every_descriptor_is_a_death(rig: Rig) -> None:
    with rig.started("for (int i = 0; i < 1024; i++) close(i); pause_for_ever: goto pause_for_ever;") as arm:
        outcome = arm.call(rig.buffers(), AXPY.scalars)
    assert isinstance(outcome, Died)
    assert "closed its channel" in outcome.stderr


def test_eating_the_next_request_does_not_hold_the_parent(rig: Rig) -> None:
    body = "char all[4096]; for (int i = 3; i < 4096; i++) if (i != 4) while (recv(i, all, 4096, MSG_DONTWAIT) > 0);"
    outcome = call(rig, "char all[64]; for (int i = 3; i < 4096; i++) read(i, all, 64);", limits=QUICK)
    assert isinstance(outcome, OverTime | Returned | Died)
    assert isinstance(call(rig, body), Died), "recv is nothing a kernel asks"


IN_A_SAMPLE = {
    "exits": ("exit(0);", Died(None, 0, None, "")),
    "aborts": ("abort();", Died("SIGABRT", None, None, "")),
    "runs past the end": ("y[n] = 1;", Died("SIGSEGV", None, "y:after", "")),
    "forks": ("fork();", Died("SIGSYS", None, None, "")),
}


@pytest.mark.parametrize("what", IN_A_SAMPLE)
def test_an_end_inside_a_sample_is_the_same_end(rig: Rig, what: str) -> None:
    body, expected = IN_A_SAMPLE[what]
    with rig.started(body) as arm:
        outcome = arm.time([rig.buffers()], AXPY.scalars, 1_000_000, 0)
    assert isinstance(outcome, Died)
    assert replace(outcome, private_bytes=None) == expected


def test_marks_without_a_sample_are_not_believed(rig: Rig) -> None:
    body = "for (int i = 3; i < 4096; i++) for (uint32_t s = 0; s < 9; s++) {"
    body += "uint32_t forged[14] = {0x59415341, 106, s, 40, 1}; write(i, forged, sizeof forged); }"
    with rig.started(body) as arm:
        outcome = arm.time([rig.buffers()], AXPY.scalars, 1_000_000, 0)
    assert isinstance(outcome, Died)
    assert "not a runner's" in outcome.stderr


def test_a_thread_that_outlives_the_call_is_counted_and_then_gone(rig: Rig) -> None:
    before = "static void *forever(void *p) { for (;;) usleep(1000); }"
    with rig.started("pthread_t t; pthread_create(&t, 0, forever, 0);", before=before) as arm:
        outcome = arm.call(rig.buffers(), AXPY.scalars)
    assert isinstance(outcome, Returned)
    assert outcome.threads_after == 2


def test_a_bomb_of_threads_meets_a_limit(rig: Rig) -> None:
    before = "static void *forever(void *p) { for (;;) usleep(100000); }"
    body = "pthread_t t; int64_t i = 0; while (i < 100000 && !pthread_create(&t, 0, forever, 0)) i++; y[0] = i;"
    with rig.started(body, before=before) as arm:
        buffers = rig.buffers()
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.output("y")[0] < 100


def test_a_big_stack_array_is_good(rig: Rig) -> None:
    body = "volatile float big[1 << 20]; for (int i = 0; i < 1 << 20; i++) big[i] = i; y[0] = big[12345];"
    with rig.started(body) as arm:
        buffers = rig.buffers()
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.output("y")[0] == 12345


def test_a_big_stack_array_in_a_worker_thread_is_good(rig: Rig) -> None:
    body = (
        "\n#pragma omp parallel num_threads(2)\n{ volatile float big[1 << 20]; big[5] = 1; big[1 << 19] = 1; }" + HONEST
    )
    with rig.started(body, threads=2) as arm:
        assert isinstance(arm.call(rig.buffers(), AXPY.scalars), Returned)


def test_a_stack_without_end_is_a_death(rig: Rig) -> None:
    before = "static int deep(volatile int n) { volatile char a[4096]; a[n % 4096] = 1; return deep(n + 1) + a[7]; }"
    outcome = call(rig, "y[0] = deep(1);", before=before)
    assert isinstance(outcome, Died)
    assert outcome.signal == "SIGSEGV"


def test_a_constructor_runs_under_the_filter(rig: Rig) -> None:
    path = rig.compile(
        HONEST, before="__attribute__((constructor)) static void early(void) { socket(AF_INET, SOCK_STREAM, 0); }"
    )
    outcome = rig.start(path)
    assert isinstance(outcome, LoadFailed)
    assert "SIGSYS" in outcome.message


def test_a_constructor_that_never_returns_is_a_failure_to_load(rig: Rig) -> None:
    path = rig.compile(HONEST, before="__attribute__((constructor)) static void early(void) { for (;;); }")
    assert isinstance(rig.start(path, limits=QUICK), LoadFailed)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="MXCSR is a register of x86-64")
def test_flush_to_zero_set_by_a_call_is_reported_once_and_undone(rig: Rig) -> None:
    store, load = '__asm__ volatile("stmxcsr %0" : "=m"(c));', '__asm__ volatile("ldmxcsr %0" :: "m"(c));'
    body = f"if (n == 1000) {{ int c; {store} c |= 0x8040; {load} }}"
    with rig.started(body) as arm:
        first = arm.call(rig.buffers(1000), AXPY.scalars)
        second = arm.call(rig.buffers(10), AXPY.scalars)
    assert isinstance(first, Returned)
    assert isinstance(second, Returned)
    assert first.fp_control_after == first.fp_control_before | 0x8040
    assert second.fp_control_after == second.fp_control_before == first.fp_control_before


def test_flush_to_zero_set_while_loading_shows_in_the_first_call(rig: Rig) -> None:
    arm = rig.start(rig.compile(HONEST, flags=("-ffast-math",)))
    assert not isinstance(arm, LoadFailed)
    with arm:
        outcome = arm.call(rig.buffers(), AXPY.scalars)
    assert isinstance(outcome, Returned)
    assert outcome.fp_control_after != outcome.fp_control_before


def test_a_parent_that_is_killed_takes_its_runner_with_it(rig: Rig) -> None:
    path = rig.compile('for (;;) __asm__ volatile("");')
    program = f"""
        import os, signal, threading
        from pathlib import Path
        import numpy as np
        from kernel_lab.runner import Limits, MemfdArena, open_lab
        from kernel_lab.sandbox.isolation import isolation
        from tests.integration.runner_lab import AXPY
        lab = open_lab(isolation({rig.lab.isolation.mode!r}))
        arm = lab(Path({str(path)!r}), AXPY, 1, Limits(), environment={{{MARK!r}: {rig.mark!r}}})
        print("started", flush=True)
        arm.call(MemfdArena(np.random.default_rng(1)).buffers(AXPY, {{"n": 10}}, "end"), AXPY.scalars)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    assert rig.left_running() != []
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: rig.left_running() == [], "nothing of the runner is left")
