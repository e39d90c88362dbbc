"""What the measuring tests share: small summing kernels, honest and not, and a bench with short schedules."""

import hashlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, Protocol, Racer, open_bench
from kernel_lab.measure.compare import Contest, Fought
from kernel_lab.measure.pairs import Duel
from kernel_lab.measure.statistics import NOISE_PAIRS, Noise, level_per_look
from kernel_lab.runner.start import Lab, open_lab
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Regime, Verdict
from schemas.goal import Shape

T = TypeVar("T")

SHORT = Protocol(looks=(3, 5), quads=2, min_sample_ns=1_000_000, pause_ns=1_000_000)
"""Samples so short that a busy scheduler seldom cuts into one."""
QUIET_MACHINE = Noise((0.005, -0.005) * (NOISE_PAIRS // 2))
"""Pretends a noise floor of 0.5 %: these tests compare kernels that differ by much or not at all."""
SUM = WORKLOADS["reduce_sum"]
SHAPE = Shape(axes={"N": 1 << 16})
PATIENCE_S = 60.0
"""A machine that builds and tests beside this disturbs whole contests, which are INVALID then and held again."""

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
HALF_AS_SLOW_AGAIN = "(void)add(x, N / 2); y[0] = add(x, N);"
WRONG_AFTER_A_WHILE = "static int calls; y[0] = ++calls > 5 ? add(x, N / 2) : add(x, N);"
CRASHES_AFTER_A_WHILE = "static int calls; if (++calls > 5) __builtin_trap(); y[0] = add(x, N);"
ONLY_ONCE = "static int calls; if (++calls == 1) y[0] = add(x, N);"
HALVED_CLOCK = """
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int halved(clockid_t clock, struct timespec *t) {
    long failed = syscall(SYS_clock_gettime, clock, t);
    unsigned long long ns = (t->tv_sec * 1000000000ull + t->tv_nsec) / 2;
    t->tv_sec = ns / 1000000000ull;
    t->tv_nsec = ns % 1000000000ull;
    return (int)failed;
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
            if (!strcmp(names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name, "clock_gettime")) {
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
        """The duel at its end; held again while the machine was too disturbed to say anything."""
        rng = np.random.default_rng(1)

        def once() -> Fought:
            return Contest(self.bench, {"duel": duel}, noise, level_per_look(), rng).run()["duel"]

        return undisturbed(once, lambda f: f.failed is not None or f.conclusion.verdict is not Verdict.INVALID)


def undisturbed(attempt: Callable[[], T], is_told: Callable[[T], bool]) -> T:
    """The first attempt that says something; the last one when the machine never came to rest."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_told(found := attempt()) and time.monotonic() < deadline:
        time.sleep(0.3)
    return found


def open_track(folder: Path, protocol: Protocol = SHORT) -> Track:
    lab = open_lab()
    return Track(open_bench(lab, machine_class(), "test", protocol), lab, folder)
