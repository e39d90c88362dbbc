"""The machine class and the preflight, read from pretended /proc and /sys."""

from pathlib import Path

import pytest

from kernel_lab.machine import (
    UNKNOWN,
    Host,
    caches,
    llc_bytes,
    machine_class,
    memory_limit_bytes,
    observe,
    route_of,
    thread_quota,
)
from kernel_lab.machine.host import parse_cpu_list, parse_size
from kernel_lab.machine.isa import X86_FEATURES, X86_LEVELS
from kernel_lab.machine.observe import memory_bytes, timer_resolution_ns
from schemas.ids import is_token

V2 = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
V3 = V2 + " avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"


def host(tmp_path: Path, files: dict[str, str]) -> Host:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(proc=tmp_path / "proc", sys=tmp_path / "sys")


def x86(flags: str) -> str:
    return f"processor\t: 0\nvendor_id : X\ncpu family : 25\nmodel : 17\nmodel name\t: Fast CPU\nflags\t\t: {flags}\n"


@pytest.mark.parametrize(
    ("flags", "march", "bits"),
    [
        (V4, "x86-64-v4", 512),
        (V3, "x86-64-v3", 256),
        (V2, "x86-64-v2", 128),
        ("sse2", "x86-64", 128),
        (V4.replace("avx2", ""), "x86-64-v2", 128),
        (V4.replace("avx512vl", ""), "x86-64-v3", 256),
    ],
)
def test_the_level_is_the_highest_whose_flags_are_all_there(tmp_path: Path, flags: str, march: str, bits: int) -> None:
    machine = machine_class(
        host(tmp_path, {"proc/cpuinfo": x86(flags)}), architecture="x86_64", affinity=4, accepts=lambda _flags: True
    )
    assert (machine.march, machine.vector_bits) == (march, bits)
    assert machine.model == "Fast CPU family 25 model 17"
    assert is_token(machine.route)


def test_only_features_that_the_compiler_accepts_are_named(tmp_path: Path) -> None:
    here = host(tmp_path, {"proc/cpuinfo": x86(V4 + " avx512_vnni avx512_bf16 gfni")})

    def accepts(flags: tuple[str, ...]) -> bool:
        return "-mavx512bf16" not in flags

    machine = machine_class(here, architecture="x86_64", affinity=4, accepts=accepts)
    assert machine.features == ("-mavx512vnni", "-mgfni")


def test_an_arm_machine_has_a_class_without_asking_the_compiler(tmp_path: Path) -> None:
    def accepts(_flags: tuple[str, ...]) -> bool:
        raise AssertionError("not asked")

    here = host(tmp_path, {"proc/cpuinfo": "CPU implementer : 0x41\nCPU part : 0xd0c\nFeatures : fp asimd\n"})
    machine = machine_class(here, architecture="aarch64", affinity=8, accepts=accepts)
    assert (machine.march, machine.features, machine.vector_bits) == ("armv8-a", (), 128)
    assert machine.model == "implementer 0x41 part 0xd0c"
    assert machine.threads == 8


def test_an_unreadable_host_still_has_a_class(tmp_path: Path) -> None:
    machine = machine_class(host(tmp_path, {}), architecture="x86_64", affinity=1, accepts=lambda _flags: True)
    assert (machine.model, machine.march, machine.threads) == (UNKNOWN, "x86-64", 1)
    assert machine.llc_bytes > 0


def test_the_route_changes_with_anything_that_changes_code_or_timing() -> None:
    routes = {
        route_of("x86_64", "A", "x86-64-v3", ()),
        route_of("x86_64", "B", "x86-64-v3", ()),
        route_of("x86_64", "A", "x86-64-v4", ()),
        route_of("x86_64", "A", "x86-64-v3", ("-mgfni",)),
        route_of("aarch64", "A", "x86-64-v3", ()),
    }
    assert len(routes) == 5
    assert all(route.startswith("cpu_") and len(route) == 12 for route in routes)


def test_no_level_or_feature_is_native() -> None:
    assert not any("native" in word for word in (*X86_FEATURES.values(), *(level for level, _ in X86_LEVELS)))


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({}, 16),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, 16),
        ({"sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "300000 100000"}, 3),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "800000 100000",
                "sys/fs/cgroup/a/b/cpu.max": "600000 100000",
            },
            6,
        ),
        ({"sys/fs/cgroup/cpuset.cpus.effective": "0-3,8\n"}, 5),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "450000",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
            16,
        ),
        ({"sys/fs/cgroup/cpu.max": "garbage"}, 16),
    ],
)
def test_threads_are_the_floor_of_the_tightest_limit(tmp_path: Path, files: dict[str, str], threads: int) -> None:
    assert thread_quota(host(tmp_path, files), affinity=16) == threads


def test_affinity_is_a_limit_too(tmp_path: Path) -> None:
    assert thread_quota(host(tmp_path, {"sys/fs/cgroup/cpu.max": "800000 100000"}), affinity=3) == 3


@pytest.mark.parametrize(
    ("files", "limit_bytes"),
    [
        ({}, None),
        ({"sys/fs/cgroup/memory.max": "max"}, None),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ({"sys/fs/cgroup/memory.max": "6442450944"}, 6 << 30),
        (
            {
                "proc/self/cgroup": "0::/pod/box",
                "sys/fs/cgroup/pod/memory.max": "1073741824",
                "sys/fs/cgroup/pod/box/memory.max": "6442450944",
            },
            1 << 30,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/docker/abc",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648",
            },
            2 << 30,
        ),
    ],
    ids=["none", "v2-max", "v1-max", "v2", "v2-nested", "v1-in-a-container"],
)
def test_memory_is_the_machines_within_the_tightest_limit(
    tmp_path: Path, files: dict[str, str], limit_bytes: int | None
) -> None:
    here = host(tmp_path, {**files, "proc/meminfo": "MemTotal:  4194304 kB\n"})
    assert memory_limit_bytes(here) == limit_bytes
    assert memory_bytes(here) == min(4 << 30, limit_bytes or 4 << 30)


def test_caches_are_read_with_the_last_level_last(tmp_path: Path) -> None:
    folder = "sys/devices/system/cpu/cpu0/cache"
    here = host(
        tmp_path,
        {
            f"{folder}/index0/level": "1", f"{folder}/index0/type": "Data", f"{folder}/index0/size": "48K",
            f"{folder}/index3/level": "3", f"{folder}/index3/type": "Unified", f"{folder}/index3/size": "32768K",
            f"{folder}/index9/level": "?",
        },
    )  # fmt: skip
    assert [(level.level, level.size_bytes) for level in caches(here)] == [(1, 48 << 10), (3, 32 << 20)]
    assert llc_bytes(caches(here)) == 32 << 20


def test_the_preflight_reads_what_there_is_and_says_unknown_otherwise(tmp_path: Path) -> None:
    full = host(
        tmp_path / "full",
        {
            "proc/cpuinfo": x86(V3),
            "proc/stat": "cpu  700 0 100 100 0 0 0 100 0 0\ncpu0 1 1\n",
            "proc/meminfo": "MemTotal:  2048 kB\nMemFree: 1 kB\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/cpu/smt/control": "off\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        },
    )
    empty = host(tmp_path / "empty", {})
    seen, unseen = (
        observe(
            machine_class(which, architecture="x86_64", affinity=2, accepts=lambda _flags: True),
            host_id="h",
            compiler="gcc",
            isolation="bwrap",
            fma_gflops={"f32": 1.0},
            copy_gbps={"read": 2.0},
            noise_floor=None,
            fit=None,
            host=which,
        )
        for which in (full, empty)
    )
    assert (seen.governor, seen.smt, seen.transparent_huge_pages) == ("performance", "off", "madvise")
    assert (seen.steal, seen.memory_bytes) == ("10.00 %", 2 << 20)
    assert (unseen.governor, unseen.smt, unseen.transparent_huge_pages, unseen.steal) == (UNKNOWN,) * 4
    assert unseen.memory_bytes == 0
    assert seen.timer_resolution_ns > 0


def test_timer_resolution_is_the_smallest_step() -> None:
    ticks = iter([0, 100, 100, 150] + [1000 * k for k in range(1, 400)])
    assert timer_resolution_ns(lambda: next(ticks)) == 50.0


def test_cpu_lists_and_sizes_are_parsed_or_empty() -> None:
    assert parse_cpu_list("0-2,5") == {0, 1, 2, 5}
    assert parse_cpu_list("") == set()
    assert parse_cpu_list("x-y") == set()
    assert (parse_size("32K"), parse_size("2M"), parse_size(""), parse_size("much")) == (32768, 2 << 20, 0, 0)


def test_this_machine_has_a_class() -> None:
    machine = machine_class()
    assert machine.threads >= 1
    assert machine == machine_class()
