"""The real compiler in the real sandbox: what becomes of sources that are no kernels."""

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lab.backends.backend import Built, NotBuilt
from kernel_lab.backends.gcc import GccBackend, compile_command, link_command
from kernel_lab.backends.toolchain import find_compiler
from kernel_lab.machine import machine_class
from kernel_lab.sandbox.confine import Bounds
from schemas.enums import Language, Reason
from schemas.faults import Misconfigured
from schemas.model import DIAGNOSTICS_LIMIT_BYTES
from schemas.work import MAX_SOURCE_BYTES, Kernel, MachineClass

GOOD = """#include <stdint.h>
void reduce_sum(const float *x, float *y, int64_t N) {
    float total = 0.0f;
    for (int64_t n = 0; n < N; n++) total += x[n];
    y[0] = total;
}
"""
BODY = GOOD[GOOD.index("{") :]


@pytest.fixture(scope="module")
def machine() -> MachineClass:
    return machine_class()


@pytest.fixture(scope="module")
def backend() -> GccBackend:
    return GccBackend()


def kernel(source: str, flags: tuple[str, ...] = (), threads: int | None = None) -> Kernel:
    return Kernel(language=Language.C, source=source, flags=flags, threads=threads, fingerprint="0" * 64)


def refused(backend: GccBackend, machine: MachineClass, source: str, flags: tuple[str, ...] = ()) -> NotBuilt:
    outcome = backend.compile(kernel(source, flags), "reduce_sum", machine)
    assert isinstance(outcome, NotBuilt), outcome
    assert outcome.message
    assert len(outcome.diagnostics.encode()) <= DIAGNOSTICS_LIMIT_BYTES
    return outcome


def test_a_good_source_becomes_a_library_that_sums(backend: GccBackend, machine: MachineClass, tmp_path: Path) -> None:
    built = backend.compile(kernel(GOOD), "reduce_sum", machine)
    assert isinstance(built, Built)
    library = tmp_path / "k.so"
    library.write_bytes(built.object)
    x, y = (ctypes.c_float * 3)(1.0, 2.0, 4.0), (ctypes.c_float * 1)()
    ctypes.CDLL(str(library)).reduce_sum(x, y, ctypes.c_int64(3))
    assert y[0] == 7.0


@pytest.mark.parametrize(
    "prototype",
    [
        "void reduce_sum(const double *x, float *y, int64_t N) ",
        "void reduce_sum(const float *x, float *y, int N) ",
        "void reduce_sum(const float *x, float *y, int64_t N, int more) ",
        "float reduce_sum(const float *x, float *y, int64_t N) ",
        "void reduce_sum(float *y, const float *x, int64_t N) ",
        "static void reduce_sum(const float *x, float *y, int64_t N) ",
    ],
)
def test_another_signature_is_told_from_a_source_that_does_not_compile(
    backend: GccBackend, machine: MachineClass, prototype: str
) -> None:
    outcome = refused(backend, machine, f"#include <stdint.h>\n{prototype}{{}}\n")
    assert outcome.reason is Reason.WRONG_SIGNATURE
    assert "void reduce_sum(const float *x, float *y, int64_t N)" in outcome.message


@pytest.mark.parametrize(
    "prototype",
    [
        "void reduce_sum(const float *restrict x, float *restrict y, const int64_t N) ",
        "extern void reduce_sum(const float x[], float y[], long N) ",
    ],
)
def test_another_spelling_of_the_signature_is_accepted(
    backend: GccBackend, machine: MachineClass, prototype: str
) -> None:
    assert isinstance(backend.compile(kernel(f"#include <stdint.h>\n{prototype}{BODY}"), "reduce_sum", machine), Built)


@pytest.mark.parametrize("source", ["int x;", GOOD.replace("reduce_sum", "other"), "float reduce_sum_[1];"])
def test_a_source_without_the_entry_says_so(backend: GccBackend, machine: MachineClass, source: str) -> None:
    outcome = refused(backend, machine, source)
    assert outcome.reason is Reason.NO_ENTRY
    assert "reduce_sum" in outcome.message


def test_a_syntax_error_comes_with_its_line(backend: GccBackend, machine: MachineClass) -> None:
    outcome = refused(backend, machine, GOOD + "\n}\n")
    assert outcome.reason is Reason.DOES_NOT_COMPILE
    assert "k.c:8" in outcome.message
    assert "k.c:8" in outcome.diagnostics


def test_a_million_errors_are_cut(backend: GccBackend, machine: MachineClass) -> None:
    outcome = refused(backend, machine, "nonsense x;\n" * 10_000)
    assert outcome.reason is Reason.DOES_NOT_COMPILE


@pytest.mark.parametrize(
    "source",
    [
        '#include "/dev/zero"\n',
        '#include "/dev/urandom"\n',
        '#include "k.c"\n',
        '#include "/etc/shadow"\n',
        'asm(".incbin \\"/etc/passwd\\"");\n' + "x\n",
        "int bomb[1 << 29] = {1}; int bomb2[1 << 29] = {1};\n" + GOOD,
    ],
)
def test_endless_and_foreign_input_ends_as_a_value(backend: GccBackend, machine: MachineClass, source: str) -> None:
    assert refused(backend, machine, source).reason in (Reason.DOES_NOT_COMPILE, Reason.TIMED_OUT)


def test_a_macro_bomb_ends_within_its_limits(machine: MachineClass) -> None:
    levels = "\n".join(f"#define A{k + 1} A{k} A{k} A{k} A{k} A{k} A{k} A{k} A{k}" for k in range(12))
    bomb = f"#define A0 y[0] += x[0];\n{levels}\n{GOOD.replace('y[0] = total;', 'A12')}"
    quick = GccBackend(bounds=Bounds(memory_bytes=256 << 20, cpu_s=5, wall_s=5.0))
    assert refused(quick, machine, bomb).reason in (Reason.DOES_NOT_COMPILE, Reason.TIMED_OUT)


def test_a_slow_compilation_is_timed_out(machine: MachineClass) -> None:
    impatient = GccBackend(bounds=replace(Bounds(), wall_s=0.001))
    outcome = refused(impatient, machine, GOOD)
    assert outcome.reason is Reason.TIMED_OUT


@pytest.mark.parametrize("flag", ["-march=native", "-o/tmp/stolen", "-fplugin=x.so", "-Wl,-rpath,/tmp"])
def test_a_flag_off_the_list_is_refused_before_the_compiler_sees_it(
    backend: GccBackend, machine: MachineClass, flag: str
) -> None:
    assert refused(backend, machine, GOOD, (flag,)).reason is Reason.FLAG_NOT_ALLOWED


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", Reason.NOT_TEXT),
        ("int x;\0", Reason.NOT_TEXT),
        ("é" * (MAX_SOURCE_BYTES // 2 + 1), Reason.TOO_LARGE),
        ("// assay: {\n" + GOOD, Reason.BAD_LAUNCH_DATA),
        ('// assay: {"flags": ["-O2"]}\n' + GOOD, Reason.BAD_LAUNCH_DATA),
    ],
)
def test_what_is_no_source_never_reaches_the_compiler(
    backend: GccBackend, machine: MachineClass, source: str, reason: Reason
) -> None:
    assert refused(backend, machine, source).reason is reason


def test_flags_change_the_object_and_fast_math_never_reaches_the_linker(
    backend: GccBackend, machine: MachineClass
) -> None:
    plain = backend.compile(kernel(GOOD), "reduce_sum", machine)
    fast = backend.compile(kernel(GOOD, ("-ffast-math",)), "reduce_sum", machine)
    assert isinstance(plain, Built)
    assert isinstance(fast, Built)
    assert plain.object != fast.object
    linking = fast.command[fast.command.index("&&") :]
    assert "-ffast-math" in fast.command
    assert "-ffast-math" not in linking


def test_the_linker_never_brings_in_the_code_that_flushes_subnormals(
    backend: GccBackend, machine: MachineClass, tmp_path: Path
) -> None:
    fast = backend.compile(kernel(GOOD, ("-Ofast",)), "reduce_sum", machine)
    assert isinstance(fast, Built)
    (tmp_path / "k.so").write_bytes(fast.object)
    symbols = subprocess.run(["nm", str(tmp_path / "k.so")], capture_output=True, text=True, check=True).stdout
    assert "set_fast_math" not in symbols


def test_the_default_line_is_the_one_that_baselines_get(machine: MachineClass) -> None:
    compiler = find_compiler()
    compiling = compile_command(compiler, machine, ("-ffast-math",))
    assert compiling[1] == "-std=gnu11"
    assert f"-march={machine.march}" in compiling
    assert "-march=native" not in compiling
    assert {"-fopenmp", "-fPIC", "-O3"} <= set(compiling)
    assert compiling.index("-O3") < compiling.index("-ffast-math")
    assert {"-shared", "-lm"} <= set(link_command(compiler, machine))


def test_an_entry_outside_the_table_is_compiled_without_a_stated_prototype(
    backend: GccBackend, machine: MachineClass
) -> None:
    assert isinstance(backend.compile(kernel("void move(float *y) { y[0] = 1; }"), "move", machine), Built)


def test_no_folder_is_left_behind(machine: MachineClass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    GccBackend().compile(kernel(GOOD), "reduce_sum", machine)
    GccBackend().compile(kernel("}"), "reduce_sum", machine)
    assert not list(tmp_path.glob("assay-cc-*"))


def test_a_missing_compiler_says_how_to_install_one(
    machine: MachineClass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Misconfigured, match="apt-get install gcc"):
        GccBackend().compile(kernel(GOOD), "reduce_sum", machine)
