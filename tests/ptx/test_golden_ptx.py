"""The PTX in the package is complete, names no machine, and is what the compiler makes."""

import re

import pytest

from kernel_lab.ptx.kernels import build, nvrtc
from kernel_lab.ptx.kernels.catalogue import KERNELS
from kernel_lab.ptx.kernels.golden import ARCHITECTURES, golden_names, golden_ptx
from kernel_lab.ptx.kernels.mutants import MUTANTS
from kernel_lab.ptx.kernels.problem import Kernel


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_and_mutant_is_committed_and_nothing_else(architecture: str) -> None:
    sources = {kernel.source for kernel in KERNELS if architecture in kernel.architectures}
    mutants = {f"mutants/{mutant.name}" for mutant in MUTANTS if architecture in mutant.kernel.architectures}
    assert set(golden_names(architecture)) == sources | mutants


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_golden_ptx_is_for_its_architecture_and_names_no_machine(architecture: str) -> None:
    for name in golden_names(architecture):
        ptx = golden_ptx(name, architecture)
        assert f".target {architecture}\n" in ptx
        assert re.findall(r'"[^"\n]*/[^"\n]*"', ptx) == []


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_golden_ptx_carries_the_lines_of_its_source(kernel: Kernel) -> None:
    for architecture in kernel.architectures:
        ptx = golden_ptx(kernel.source, architecture)
        assert f'"{kernel.source}.cu"' in ptx
        assert ".loc\t1 " in ptx


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_golden_ptx_is_what_the_compiler_makes(architecture: str) -> None:
    release, committed = nvrtc.release(), nvrtc.release_of(golden_ptx("vector_add", architecture))
    if release is None:
        pytest.skip("not rebuilt: no NVRTC here (pip install cuda-python nvidia-cuda-nvrtc)")
    if release != committed:
        pytest.skip(f"not rebuilt: NVRTC {release} here, the committed PTX is of {committed}")
    assert build.differing(architecture) == []


def test_without_a_compiler_the_rebuild_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "release", lambda: None)
    with pytest.raises(nvrtc.NoCudaCompiler, match="nvidia-cuda-nvrtc"):
        nvrtc.compiled("", "nothing", "sm_80")


@pytest.mark.skipif(nvrtc.release() is None, reason="no NVRTC here (pip install cuda-python nvidia-cuda-nvrtc)")
def test_a_source_that_is_no_cuda_is_refused_with_the_compilers_log() -> None:
    with pytest.raises(nvrtc.NotCompiled, match=r"wrong\.cu\(1\): error"):
        nvrtc.compiled("void is not a program", "wrong", "sm_80")
