"""What is no PTX, no launch, or nothing that the executor knows is refused with its reason, and never passes."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from kernel_lab.ptx.api import Arg, Buffer, Kind, Launch, LaunchRefused, PtxSyntaxError, Verdict, parse, run
from kernel_lab.ptx.kernels.catalogue import BULK_PIPELINE, GEMM_F16, VECTOR_ADD
from kernel_lab.ptx.kernels.golden import golden_ptx
from schemas.faults import Misconfigured

PTX = golden_ptx("vector_add", "sm_80")
LAUNCH = VECTOR_ADD.problem({"N": 1000}).launch()
A, B, Y, N = LAUNCH.args
F32 = np.float32

ADD = "add.f32 \t%f3, %f2, %f1;"


def _with_first_argument(argument: Arg) -> Launch:
    return replace(LAUNCH, args=(argument, B, Y, N))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "1:1"),
        ("hello", "1:1"),
        ("\0ELF", "1:1"),
        (PTX.replace("add.f32 \t%f3", "add.f32 \t%q3"), "55:11"),
        (PTX.replace(ADD, ADD.rstrip(";")), "56:2"),
        (PTX.replace("bra \t$L__BB0_2", "bra \t$L__BB0_9"), "42:12"),
    ],
    ids=["nothing", "prose", "a binary", "an undeclared register", "a missing semicolon", "an unknown label"],
)
def test_what_is_no_ptx_is_refused_with_line_and_column(text: str, place: str) -> None:
    with pytest.raises(PtxSyntaxError) as refusal:
        parse(text)
    assert str(refusal.value).startswith(place + ":")
    assert isinstance(refusal.value, Misconfigured)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
def test_cut_off_ptx_is_refused(share: float) -> None:
    body = PTX[: PTX.rindex("}")]
    with pytest.raises(PtxSyntaxError):
        parse(body[: int(len(body) * share)])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (".version 9.5", ".version 99.0", "newer"),
        (".address_size 64", ".address_size 32", "64-bit"),
    ],
)
def test_a_module_that_the_executor_cannot_run_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(LaunchRefused, match=says):
        run(PTX.replace(old, new), LAUNCH)


@pytest.mark.parametrize(
    ("architecture", "statement"),
    [
        ("sm_80", "frobnicate.f32 %f3, %f2, %f1;"),
        ("sm_80", "add.wobble.f32 %f3, %f2, %f1;"),
        ("sm_80", "add.f32 %f3, %f2;"),
        ("sm_80", "@%rd5 add.f32 %f3, %f2, %f1;"),
        ("sm_80", "add.f32 %f3, %rd5, %f1;"),
        ("sm_90", "wgmma.fence.sync.aligned;"),
        ("sm_90", "tcgen05.wait::ld.sync.aligned;"),
    ],
)
def test_an_instruction_that_is_not_known_is_unsupported_and_never_passes(architecture: str, statement: str) -> None:
    ptx = golden_ptx("vector_add", architecture).replace(ADD, f"{statement}\n\t{ADD}")
    report = run(ptx, LAUNCH)
    assert report.verdict is Verdict.UNSUPPORTED
    opcodes = {diagnostic.opcode for diagnostic in report.diagnostics}
    words = statement.replace("@%rd5 ", "").split(maxsplit=1)
    assert words[0].rstrip(";") in opcodes


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        (replace(LAUNCH, entry="nope"), "vector_add"),
        (replace(LAUNCH, args=LAUNCH.args[:3]), "4 parameters; 3"),
        (replace(LAUNCH, args=(*LAUNCH.args, N)), "4 parameters; 5"),
        (_with_first_argument(F32(1)), "vector_add_param_0"),
        (replace(LAUNCH, args=(A, B, Y, np.int32(1000))), "vector_add_param_3"),
        (replace(LAUNCH, args=(A, B, Y, 5.5)), "vector_add_param_3"),
        (_with_first_argument(Buffer(np.zeros(1000, F32), "in", "y")), "named 'y'"),
        (_with_first_argument(Buffer(np.array([object()]), "in", "a")), "no numpy array of numbers"),
        (_with_first_argument(Buffer(np.zeros(1000, F32), "sideways", "a")), "role"),  # type: ignore[arg-type]
        (replace(LAUNCH, grid=(0, 1, 1)), r"grid\.x is 0"),
        (replace(LAUNCH, grid=(1, 70_000, 1)), r"grid\.y is 70000"),
        (replace(LAUNCH, block=(0, 1, 1)), r"block\.x is 0"),
        (replace(LAUNCH, block=(1025, 1, 1)), r"block\.x is 1025"),
        (replace(LAUNCH, block=(1, 1, 65)), r"block\.z is 65"),
        (replace(LAUNCH, block=(64, 32, 1)), "1024"),
        (replace(LAUNCH, shared_bytes=166_913), "sm_80 has 166912"),
        (replace(LAUNCH, shared_bytes=-1), "negative"),
        (replace(LAUNCH, cluster=(2, 1, 1)), "cluster"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused_with_its_reason(launch: Launch, says: str) -> None:
    with pytest.raises(LaunchRefused, match=says):
        run(PTX, launch)


def test_static_shared_memory_counts_too() -> None:
    launch = replace(GEMM_F16.problem({"M": 64, "N": 64, "K": 32}).launch(), shared_bytes=166_912)
    with pytest.raises(LaunchRefused, match="shared memory"):
        run(golden_ptx("gemm_tensor", "sm_80"), launch)


@pytest.mark.parametrize("short", [0, 1, 999], ids=lambda length: f"{length} elements")
def test_an_array_that_is_too_small_is_an_access_out_of_bounds(short: int) -> None:
    report = run(PTX, _with_first_argument(Buffer(np.zeros(short, F32), "in", "a")))
    assert report.verdict is Verdict.FAIL
    assert {diagnostic.kind.value for diagnostic in report.diagnostics} == {"out_of_bounds"}


def test_an_output_of_a_wider_type_is_not_covered() -> None:
    report = run(PTX, replace(LAUNCH, args=(A, B, Buffer(np.zeros(1000), "out", "y"), N)))
    assert [diagnostic.kind.value for diagnostic in report.diagnostics] == ["uncovered_output"]


ENDLESS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 3;
again:
    @!%p1 bra again;
    ret;
}
"""


def test_one_lane_in_an_endless_loop_is_a_timeout_and_not_a_hang() -> None:
    buffer = Buffer(np.zeros(1, F32), "inout", "out")
    report = run(ENDLESS, Launch("spin", (2, 1, 1), (32, 1, 1), (buffer,), step_budget=5_000))
    assert report.verdict is Verdict.TIMEOUT
    (diagnostic,) = report.diagnostics
    assert diagnostic.kind.value == "step_budget"
    assert diagnostic.lane == 3
    assert "again" in ENDLESS.splitlines()[diagnostic.line - 1]


def test_arrays_that_are_not_contiguous_are_read_as_they_look() -> None:
    wide = np.arange(2000, dtype=F32).reshape(1000, 2)
    report = run(PTX, _with_first_argument(Buffer(wide[:, 1], "in", "a")))
    assert isinstance(B, Buffer)
    np.testing.assert_array_equal(report.outputs["y"], wide[:, 1] + B.array)


@pytest.mark.parametrize("seed", range(40))
def test_mangled_ptx_is_refused_or_judged_but_never_crashes_the_executor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = PTX.splitlines()
    for _ in range(3):
        first, second = rng.integers(10, len(lines), 2)
        lines[first], lines[second] = lines[second], lines[first]
    try:
        report = run("\n".join(lines), replace(LAUNCH, step_budget=5_000))
    except (PtxSyntaxError, LaunchRefused):
        return
    assert report.verdict in set(Verdict)


def test_a_bulk_copy_of_gigabytes_is_out_of_bounds_and_takes_no_gigabytes() -> None:
    ptx = golden_ptx("bulk_pipeline", "sm_90")
    copy = next(line for line in ptx.splitlines() if "cp.async.bulk.shared" in line)
    *_, size, _barrier = copy.split(", ")
    tracemalloc.start()
    report = run(ptx.replace(copy, copy.replace(size, "0xFBFBFBF0")), BULK_PIPELINE.problem({"N": 1024}).launch())
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert Kind.OUT_OF_BOUNDS in report.kinds()
    assert peak_bytes < 100_000_000


CALLING = """
.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 result) twice(.param .b32 value)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [value];
    add.s32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
.visible .entry calls(.param .u64 out)
{
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    {
        .param .b32 given;
        .param .b32 back;
        st.param.b32 [given], %r1;
        call.uni (back), twice, (given);
        ld.param.b32 %r2, [back];
    }
    ret;
}
.visible .entry alone(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""


def test_a_call_is_unsupported_and_the_other_entries_of_its_module_run() -> None:
    args = (Buffer(np.zeros(1, np.int32), "out", "out"),)
    calling = run(CALLING, Launch("calls", (1, 1, 1), (1, 1, 1), args))
    assert calling.verdict is Verdict.UNSUPPORTED
    assert "call.uni" in {diagnostic.opcode for diagnostic in calling.diagnostics}
    alone = run(CALLING, Launch("alone", (1, 1, 1), (1, 1, 1), args))
    assert alone.verdict is Verdict.PASS
    assert alone.outputs["out"].tolist() == [7]
