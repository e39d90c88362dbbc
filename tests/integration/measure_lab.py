"""What the measuring tests share: small summing kernels, honest and not, and a bench with short schedules."""

import hashlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, Protocol, Racer, open_bench
from kernel_lab.measure.compare import Contest, Fought
from kernel_lab.measure.pairs import Duel
from kernel_lab.measure.statistics import NOISE_PAIRS, Noise, level_per_look
from kernel_lab.runner.arm import Arm, BufferSet, CallOutcome, Died, Limits, LoadFailed, OverTime, Timing
from kernel_lab.runner.start import Lab, open_lab
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Scalars, Workload
from schemas.enums import Regime
from schemas.goal import Shape

SHORT = Protocol(looks=(5, 8, 16), quads=2, min_sample_ns=2_000_000, pause_ns=1_000_000)
QUIET_MACHINE = Noise((0.005, -0.005) * (NOISE_PAIRS // 2))
"""Pretends a noise floor of 0.5 %: these tests compare kernels that differ by much or not at all."""
SUM = WORKLOADS["reduce_sum"]
SHAPE = Shape(axes={"N": 1 << 16})
SIGNATURE = "void reduce_sum(const float *x, float *y, int64_t N)"
ADDING = """
#define _GNU_SOURCE
#include <stdint.h>
__attribute__((noinline)) static float add(const float *x, int64_t n) {
    float s[32] = {0};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) for (int j = 0; j < 32; j++) s[j] += x[i + j];
    float all = 0;
    for (int j = 0; j < 32; j++) all += s[j];
    for (; i < n; i++) all += x[i];
    __asm__ volatile("" : "+m"(all));
    return all;
}
"""
HONEST = "y[0] = add(x, N);"
HALF_AS_MUCH_AGAIN = "(void)add(x, N / 2); y[0] = add(x, N);"
THREE_TIMES_THE_WORK = "(void)add(x, N); (void)add(x, N); y[0] = add(x, N);"
WRONG_AFTER_A_WHILE = "static int calls; y[0] = ++calls > 5 ? add(x, N / 2) : add(x, N);"
LEAVES_WHAT_LOOKS_LIKE_AN_ANSWER = "if (y[0] == y[0]) return; y[0] = add(x, N);"
CRASHES_AFTER_A_WHILE = "static int calls; if (++calls > 5) __builtin_trap(); y[0] = add(x, N);"
WORKS_AHEAD = "run(x, y, N);"
LOOKS_AHEAD = """
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static const float *inputs[SETS];
static float *outputs[SETS];
static int known, last = -1, done[SETS];
static long last_ns;
static long now(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000l + t.tv_nsec;
}
static int place(const float *x, float *y) {
    int at = 0;
    while (at < known && inputs[at] != x) at++;
    if ((at < known && at != (last + 1) % SETS) || at == SETS) at = known = 0;
    if (at == known) inputs[at] = x, outputs[at] = y, done[at] = 0, known++;
    return last = at;
}
static void run(const float *x, float *y, int64_t n) {
    int at = place(x, y), after_a_pause = now() - last_ns > 500000;
    for (int i = 0; after_a_pause && i < SETS; i++) done[i] = 0;
    if (!done[at]) y[0] = add(x, n);
    done[at] = 0;
    for (int i = 1; after_a_pause && known == SETS && i < SETS / 2; i++) {
        int next = (at + i) % SETS;
        outputs[next][0] = add(inputs[next], n);
        done[next] = 1;
    }
    last_ns = now();
}
"""
"""Knows every set of its rotation, SETS in all, and computes the answers of the next half while no clock runs."""
ONLY_ONCE = "static int calls; if (++calls == 1) y[0] = add(x, N);"
HALVED_CLOCK = """
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long halved(long number, long a, long b, long c, long d, long e, long f) {
    long failed = syscall(number, a, b, c, d, e, f);
    if (number != SYS_clock_gettime) return failed;
    struct timespec *t = (struct timespec *)b;
    unsigned long long ns = (t->tv_sec * 1000000000ull + t->tv_nsec) / 2;
    t->tv_sec = ns / 1000000000ull;
    t->tv_nsec = ns % 1000000000ull;
    return failed;
}
static void *slots(const ElfW(Dyn) *dyn, ElfW(Addr) base, size_t tag, size_t size_tag, size_t *bytes) {
    void *found = 0;
    (void)base;
    for (; dyn->d_tag != DT_NULL; dyn++) {
        if ((size_t)dyn->d_tag == tag) found = (void *)dyn->d_un.d_ptr;
        if ((size_t)dyn->d_tag == size_tag) *bytes = dyn->d_un.d_val;
    }
    return found;
}
static int patch(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size; (void)data;
    const ElfW(Dyn) *dyn = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) dyn = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    size_t bytes = 0, ignored = 0;
    const ElfW(Sym) *symbols = slots(dyn, info->dlpi_addr, DT_SYMTAB, 0, &ignored);
    const char *names = slots(dyn, info->dlpi_addr, DT_STRTAB, 0, &ignored);
    for (int lazy = 0; lazy < 2; lazy++) {
        const ElfW(Rela) *rela =
            slots(dyn, info->dlpi_addr, lazy ? DT_JMPREL : DT_RELA, lazy ? DT_PLTRELSZ : DT_RELASZ, &bytes);
        for (size_t i = 0; rela && i < bytes / sizeof *rela; i++)
            if (!strcmp(names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name, "syscall")) {
                void **slot = (void **)(info->dlpi_addr + rela[i].r_offset);
                mprotect((void *)((uintptr_t)slot & ~4095ul), 4096, PROT_READ | PROT_WRITE);
                *slot = (void *)halved;
            }
    }
    return 1; // the first entry is the program itself
}
__attribute__((constructor)) static void start(void) { dl_iterate_phdr(patch, 0); }
"""


@dataclass(frozen=True)
class Track:
    """A bench and a folder for objects. Sources are the tests' own, so they are compiled outside the sandbox."""

    bench: Bench
    lab: Lab
    folder: Path

    def racer(self, name: str, body: str, before: str = "") -> Racer:
        """`body` compiled: the same body gives the same bytes."""
        source, path = self.folder / f"{name}.c", self.folder / f"{name}.so"
        (self.folder / "k.c").write_text(f"{ADDING}{before}\n{SIGNATURE} {{ {body} }}\n")
        command = ["gcc", "-std=gnu11", "-O2", "-ftree-vectorize", "-w", "-fPIC", "-shared", "k.c", "-o", path.name]
        subprocess.run(command, cwd=self.folder, check=True)
        (self.folder / "k.c").rename(source)
        return Racer(name, 1, path, hashlib.sha256(path.read_bytes()).hexdigest())

    def duel(self, candidate: Racer, baseline: Racer | None = None, regime: Regime = Regime.HOT) -> Duel:
        return Duel(SUM, (SHAPE,), candidate, (baseline or self.racer("baseline", HONEST),), regime)

    def fight(self, duel: Duel, noise: Noise = QUIET_MACHINE) -> Fought:
        """The duel at its end."""
        contest = Contest(self.bench, {"duel": duel}, noise, level_per_look(), np.random.default_rng(1))
        return contest.run()["duel"]

    def told(self, retell: Callable[[Timing], Timing]) -> "Track":
        """The same track, where samples are told differently."""
        return replace(self, bench=replace(self.bench, start_arm=RetellingLab(self.lab, retell)))


@dataclass
class Retold:
    """An arm whose samples are told differently."""

    arm: Arm
    retell: Callable[[Timing], Timing]

    def time(
        self, buffers: Sequence[BufferSet], scalars: Scalars, min_sample_ns: int, pause_ns: int
    ) -> Timing | Died | OverTime:
        taken = self.arm.time(buffers, scalars, min_sample_ns, pause_ns)
        return self.retell(taken) if isinstance(taken, Timing) else taken

    def call(self, buffers: BufferSet, scalars: Scalars) -> CallOutcome:
        return self.arm.call(buffers, scalars)

    def release(self) -> None:
        self.arm.release()

    def close(self) -> None:
        self.arm.close()

    def __enter__(self) -> "Retold":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class RetellingLab:
    """Starts arms whose samples are told differently."""

    lab: Lab
    retell: Callable[[Timing], Timing]

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
    ) -> Arm | LoadFailed:
        arm = self.lab(
            object_path,
            workload,
            threads,
            limits,
            library=library,
            environment=environment,
            inputs_writable=inputs_writable,
        )
        return arm if isinstance(arm, LoadFailed) else Retold(arm, self.retell)


def undelayed(taken: Timing) -> Timing:
    """Nothing disturbed it: lets a test of something else run on a busy machine too."""
    return replace(taken, run_delay_ns=0)


def calm(taken: Timing) -> Timing:
    """Nothing disturbed it, and the clocks agree."""
    return replace(taken, run_delay_ns=0, parent_ns=taken.elapsed_ns)


def delayed(taken: Timing) -> Timing:
    """Half of it was spent waiting for a core."""
    return replace(taken, run_delay_ns=taken.elapsed_ns // 2)


def open_track(folder: Path, protocol: Protocol = SHORT) -> Track:
    lab = open_lab()
    return Track(open_bench(lab, machine_class(), "test", protocol), lab, folder)
