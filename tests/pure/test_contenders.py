"""Who is raced before a goal: every baseline of measurement.md, never only the weak one."""

import pytest

from kernel_lab.baselines import LIBRARY, ContenderSpec, absent, c_source, contenders, vector_widths
from kernel_lab.spaces.launch import flag_is_allowed
from kernel_lab.workloads import WORKLOADS
from schemas.work import MachineClass

WIDE = MachineClass(
    route="cpu_00000000",
    architecture="x86_64",
    model="wide",
    march="x86-64-v4",
    features=(),
    vector_bits=512,
    threads=4,
    llc_bytes=32 << 20,
)
EACH = pytest.mark.parametrize("name", WORKLOADS)


def compiled(specs: tuple[ContenderSpec, ...]) -> dict[str, ContenderSpec]:
    return {spec.name: spec for spec in specs if spec.kernel}


@EACH
def test_plain_c_is_raced_in_every_form_thread_count_mathematics_and_width(name: str) -> None:
    expected = {
        f"c_{form}_{threads}_{mathematics}_{bits}"
        for form in ("naive", "blocked")
        for threads in ("one", "omp")
        for mathematics in ("o3", "fast")
        for bits in (256, 512)
    }
    assert set(compiled(contenders(name, WIDE, 4))) == expected


@EACH
def test_libraries_are_listed_even_where_they_are_absent(name: str) -> None:
    libraries = {spec.library: spec for spec in contenders(name, WIDE, 4) if spec.library}
    assert set(libraries) == {"numpy", "torch"}
    assert libraries["numpy"].absent is None
    assert libraries["torch"].absent == absent("torch")
    assert all((name, library) in LIBRARY for library in libraries)


def test_a_library_that_is_not_installed_is_said_to_be_absent() -> None:
    assert absent("a_library_that_nobody_wrote") == "a_library_that_nobody_wrote absent"
    assert absent("numpy") is None


@EACH
def test_the_single_threaded_form_has_no_openmp_at_all(name: str) -> None:
    for form in ("naive", "blocked"):
        assert "#pragma omp" in c_source(name, form, parallel=True)
        assert "#pragma omp" not in c_source(name, form, parallel=False)
    for spec in compiled(contenders(name, WIDE, 4)).values():
        assert spec.kernel
        assert ("#pragma omp" in spec.kernel.source) == (spec.threads > 1)
        assert spec.kernel.threads == spec.threads


@EACH
def test_a_baseline_uses_only_flags_that_a_candidate_may_use(name: str) -> None:
    for spec in compiled(contenders(name, WIDE, 4)).values():
        assert spec.kernel
        assert all(flag_is_allowed(flag) for flag in spec.kernel.flags)


@EACH
def test_no_two_contenders_are_the_same(name: str) -> None:
    specs = contenders(name, WIDE, 4)
    assert len({spec.name for spec in specs}) == len(specs)
    prints = [spec.kernel.fingerprint for spec in specs if spec.kernel]
    assert len(set(prints)) == len(prints)


def test_one_thread_leaves_no_parallel_contender() -> None:
    assert all("_omp_" not in spec.name for spec in contenders("rms_norm", WIDE, 1))


@pytest.mark.parametrize(("bits", "widths"), [(512, (256, 512)), (256, (256,)), (128, (128,))])
def test_widths_are_those_of_the_machine(bits: int, widths: tuple[int, ...]) -> None:
    assert vector_widths(WIDE.model_copy(update={"vector_bits": bits})) == widths


def test_an_arm_baseline_names_no_x86_flag() -> None:
    arm = WIDE.model_copy(update={"architecture": "aarch64", "march": "armv8-a", "vector_bits": 128})
    flags = {flag for spec in contenders("softmax", arm, 4) if spec.kernel for flag in spec.kernel.flags}
    assert flags == {"-O3", "-ffast-math"}


def test_a_library_keeps_its_pages_and_its_threads() -> None:
    numpy, torch = (spec for spec in contenders("softmax", WIDE, 4) if spec.library)
    assert numpy.environment["MALLOC_TRIM_THRESHOLD_"] == str(1 << 34)
    assert numpy.environment["OMP_NUM_THREADS"] == "1"
    assert torch.environment["OMP_NUM_THREADS"] == "4"
    blas, _ = (spec for spec in contenders("gemv", WIDE, 4) if spec.library)
    assert blas.environment["OPENBLAS_NUM_THREADS"] == "4"
    assert all(not spec.environment for spec in contenders("softmax", WIDE, 4) if spec.kernel)
