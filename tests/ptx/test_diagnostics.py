"""A diagnostic says what, where in the PTX and in the source, which thread, and whose memory."""

from dataclasses import replace

import numpy as np
import pytest

from kernel_lab.ptx.api import Buffer, Kind, Launch, Verdict, run
from kernel_lab.ptx.kernels import catalogue
from kernel_lab.ptx.kernels.golden import ARCHITECTURES, cuda_source, golden_ptx
from kernel_lab.ptx.kernels.problem import Kernel

LENGTH, TOO_SHORT = 1000, 900


def _launch_with_a_short_output() -> Launch:
    launch = catalogue.VECTOR_ADD.problem({"N": LENGTH}).launch()
    a, b, _y, length = launch.args
    return replace(launch, args=(a, b, Buffer(np.zeros(TOO_SHORT, np.float32), "out", "y"), length))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_write_past_the_end_names_line_thread_and_buffer(architecture: str) -> None:
    ptx = golden_ptx("vector_add", architecture)
    report = run(ptx, _launch_with_a_short_output())
    assert report.verdict is Verdict.FAIL
    (diagnostic,) = report.diagnostics
    assert diagnostic.kind is Kind.OUT_OF_BOUNDS
    assert diagnostic.opcode in ptx.splitlines()[diagnostic.line - 1]
    assert diagnostic.opcode.startswith("st.global")
    assert (diagnostic.cta, diagnostic.lane) == divmod(TOO_SHORT, 256)
    assert diagnostic.buffer is not None
    assert "y" in diagnostic.buffer
    assert diagnostic.address is not None
    assert diagnostic.count == LENGTH - TOO_SHORT


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_line_information_leads_back_to_the_source(architecture: str) -> None:
    report = run(golden_ptx("vector_add", architecture), _launch_with_a_short_output())
    file, line = str(report.diagnostics[0].source_line).split(":")
    assert file == "vector_add.cu"
    assert "y[n] = " in cuda_source("vector_add").splitlines()[int(line) - 1]


def test_the_same_run_gives_the_same_report() -> None:
    problem = catalogue.SOFTMAX.problem({"R": 3, "C": 700})
    first, second = (run(golden_ptx("softmax", "sm_90"), problem.launch(), stats=True) for _ in range(2))
    np.testing.assert_array_equal(first.outputs["y"], second.outputs["y"])
    assert (first.verdict, first.diagnostics, first.stats) == (second.verdict, second.diagnostics, second.stats)


def test_the_callers_arrays_are_not_touched() -> None:
    problem = catalogue.HISTOGRAM.problem({"N": 500, "BINS": 7})
    before = {name: array.copy() for name, array in problem.inputs.items()}
    report = run(golden_ptx("histogram", "sm_80"), problem.launch())
    for name, array in problem.inputs.items():
        np.testing.assert_array_equal(array, before[name])
    assert report.outputs["counts"].sum() == before["counts"].sum() + 500


def test_one_module_holds_several_entries() -> None:
    ptx = golden_ptx("gemm_tensor", "sm_80")
    for kernel in (catalogue.GEMM_F16, catalogue.GEMM_BF16):
        problem = kernel.problem({"M": 64, "N": 64, "K": 32})
        assert problem.worst_error(run(ptx, problem.launch()).outputs) <= 1.0


@pytest.mark.parametrize("kernel", [catalogue.SOFTMAX, catalogue.TRANSPOSE], ids=lambda kernel: kernel.name)
def test_all_front_ends_give_the_same_numbers(kernel: Kernel) -> None:
    problem = kernel.problem(kernel.sizes[0])
    outputs = [run(golden_ptx(kernel.source, each), problem.launch()).outputs["y"] for each in ARCHITECTURES]
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-6)


def test_the_padded_tile_of_the_transpose_has_no_bank_conflicts() -> None:
    problem = catalogue.TRANSPOSE.problem({"M": 64, "N": 64})
    stats = run(golden_ptx("transpose", "sm_90"), problem.launch(), stats=True).stats
    assert stats is not None
    assert stats.shared_requests > 0
    assert stats.bank_conflicts == 0
    assert stats.sectors_per_request == 4.0
    assert stats.lane_utilisation == 1.0
