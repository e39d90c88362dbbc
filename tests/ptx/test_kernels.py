"""Our own kernels, from the compiler's unmodified output: right numbers, and nothing for any checker to say."""

from collections.abc import Iterator

import pytest

from kernel_lab.ptx.api import Verdict, run
from kernel_lab.ptx.kernels.catalogue import KERNELS
from kernel_lab.ptx.kernels.golden import ARCHITECTURES, golden_ptx
from kernel_lab.ptx.kernels.problem import Kernel
from kernel_lab.ptx.kernels.references import Axes


def _cases() -> Iterator[object]:
    for kernel in KERNELS:
        for architecture in kernel.architectures:
            for axes in kernel.sizes:
                size = "_".join(f"{axis}{length}" for axis, length in axes.items())
                yield pytest.param(kernel, architecture, axes, id=f"{kernel.name}-{architecture}-{size}")


@pytest.mark.parametrize(("kernel", "architecture", "axes"), list(_cases()))
def test_a_right_kernel_passes_with_right_numbers_and_no_findings(
    kernel: Kernel, architecture: str, axes: Axes
) -> None:
    problem = kernel.problem(axes, seed=7)
    report = run(golden_ptx(kernel.source, architecture), problem.launch())
    assert report.diagnostics == ()
    assert report.verdict is Verdict.PASS
    assert problem.worst_error(report.outputs) <= 1.0


def test_every_kernel_is_there_for_every_architecture_that_can_run_it() -> None:
    missing = {kernel.name for kernel in KERNELS if kernel.architectures != ARCHITECTURES}
    assert missing == {"bulk_pipeline"}, "only bulk copies need more than sm_80"
