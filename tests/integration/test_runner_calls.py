"""Honest candidates and libraries in their processes: what comes back is what they computed, and how long it took."""

import hashlib
import resource
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernel_lab.runner import (
    Alignment,
    Arena,
    Died,
    Lab,
    Limits,
    LoadFailed,
    MemfdArena,
    OverTime,
    ProcessArm,
    Returned,
    StartArm,
    Timing,
    start_arm,
)
from kernel_lab.runner.process import object_file
from kernel_lab.workloads import WORKLOADS
from schemas.faults import Bug, Transient
from tests.integration.runner_lab import AXPY, HONEST, MODES, Rig, lab_in, rigs

SAMPLE_NS = 2_000_000
PAUSE_NS = 1_000_000
COUNTING = "y[0] += 1;"


@pytest.fixture(params=MODES)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    yield from rigs(request.param, tmp_path)


@pytest.fixture
def bwrap_rig(tmp_path: Path) -> Iterator[Rig]:
    yield from rigs("bwrap", tmp_path)


def agree(timing: Timing) -> bool:
    """measurement.md, 12."""
    return abs(timing.parent_ns - timing.elapsed_ns) <= 0.02 * timing.parent_ns + 1e6


@pytest.mark.parametrize("inputs_writable", [True, False])
@pytest.mark.parametrize("alignment", ["start", "end", "natural"])
@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 5000])
def test_a_call_computes_into_the_parents_memory(
    rig: Rig, n: int, alignment: Alignment, *, inputs_writable: bool
) -> None:
    buffers = rig.buffers(n, alignment)
    before = buffers.input_digest()
    with rig.started(HONEST, inputs_writable=inputs_writable) as arm:
        outcome = arm.call(buffers, AXPY.scalars)
    assert isinstance(outcome, Returned)
    assert outcome.fp_control_after == outcome.fp_control_before
    assert outcome.threads_after == 1
    assert outcome.elapsed_ns <= outcome.parent_ns
    assert np.array_equal(buffers.output("y"), 3 * np.arange(n, dtype=np.float32) + 1)
    assert buffers.input_digest() == before
    assert buffers.slack_written() == ()


def test_an_openmp_candidate_gets_its_threads(rig: Rig) -> None:
    body = "\n#pragma omp parallel\n{\n#pragma omp single\ny[0] = omp_get_num_threads();\n}"
    buffers = rig.buffers()
    with rig.started(body, before="#include <omp.h>", threads=2) as arm:
        outcome = arm.call(buffers, AXPY.scalars)
    assert isinstance(outcome, Returned)
    assert outcome.threads_after == 2
    assert buffers.output("y")[0] == 2


def test_two_arms_share_one_set_of_buffers(bwrap_rig: Rig) -> None:
    buffers = bwrap_rig.buffers()
    with bwrap_rig.started(COUNTING) as one, bwrap_rig.started("y[0] += 10;") as other:
        buffers.poison_outputs(0)
        for arm in (one, other, other, one):
            assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.output("y")[0] == 22


def test_released_buffers_can_be_given_again(bwrap_rig: Rig) -> None:
    buffers = bwrap_rig.buffers()
    with bwrap_rig.started(COUNTING) as arm:
        buffers.poison_outputs(0)
        for _ in range(3):
            assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
            arm.release()
    assert buffers.output("y")[0] == 3


def test_every_kind_of_argument_arrives_in_its_place(rig: Rig) -> None:
    integers = ", ".join(f"int64_t i{k}" for k in range(17))
    signature = f"void wide(const float *x, const float *z, float *y, {integers}, float a, float b, float c, float d)"
    source = rig.folder / "wide.c"
    stores = "".join(f"y[{k}] = i{k};" for k in range(17)) + "y[17] = a; y[18] = b; y[19] = c; y[20] = d; y[21] = z[0];"
    path = rig.compile(HONEST, before=f"{signature} {{ {stores} }}")
    axes = tuple(f"i{k}" for k in range(17))
    wide = replace(AXPY, name="wide", axes=axes, scalars={"a": 0.5, "b": 1.5, "c": 2.5, "d": 3.5})
    wide = replace(wide, inputs=tuple(replace(b, shape=(1,)) for b in AXPY.inputs))
    wide = replace(wide, outputs=(replace(AXPY.outputs[0], shape=(22,)),))
    buffers = rig.arena.buffers(wide, {axis: 100 + k for k, axis in enumerate(axes)}, "end")
    buffers.fill_inputs({"x": np.array([1], np.float32), "z": np.array([7], np.float32)})
    arm = rig.lab(path, wide, 1, Limits(), environment={"ASSAY_TEST_MARK": rig.mark})
    assert isinstance(arm, ProcessArm)
    with arm:
        assert isinstance(arm.call(buffers, wide.scalars), Returned)
    assert buffers.output("y").tolist() == [*range(100, 117), 0.5, 1.5, 2.5, 3.5, 7.0]
    assert not source.exists()


def test_a_lab_without_isolation_says_so_and_still_ends_what_spins(tmp_path: Path) -> None:
    for rig in rigs("none", tmp_path):
        assert str(rig.lab.isolation) == "none"
        with rig.started(HONEST) as arm:
            assert isinstance(arm.call(rig.buffers(), AXPY.scalars), Returned)
        with rig.started('for (;;) __asm__ volatile("");', limits=Limits(call_timeout_s=0.3)) as arm:
            assert isinstance(arm.call(rig.buffers(), AXPY.scalars), OverTime)


def test_more_arguments_than_the_runner_passes_are_a_bug(bwrap_rig: Rig) -> None:
    wide = replace(AXPY, axes=tuple(f"i{k}" for k in range(18)))
    with pytest.raises(Bug, match="more arguments"):
        bwrap_rig.lab(bwrap_rig.folder / "none.so", wide, 1, Limits())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not an object" * 100, "invalid ELF header"),
        (b"", "file too short"),
        (b"\x7fELF\x02\x01\x01", "file too short"),
    ],
)
def test_what_is_no_object_fails_to_load(rig: Rig, content: bytes, says: str) -> None:
    path = rig.folder / "k.so"
    path.write_bytes(content)
    outcome = rig.start(path)
    assert isinstance(outcome, LoadFailed)
    assert says in outcome.message


def test_an_object_without_the_entry_fails_to_load(rig: Rig) -> None:
    path = rig.compile(HONEST)
    outcome = rig.lab(path, replace(AXPY, name="other"), 1, Limits())
    assert isinstance(outcome, LoadFailed)
    assert "other" in outcome.message


def test_what_is_loaded_is_what_was_hashed(tmp_path: Path) -> None:
    path = tmp_path / "k.so"
    path.write_bytes(b"one")
    descriptor = object_file(path)
    path.write_bytes(b"two")
    sealed = Path(f"/proc/self/fd/{descriptor}")
    assert hashlib.sha256(sealed.read_bytes()).digest() == hashlib.sha256(b"one").digest()
    with pytest.raises(PermissionError):
        sealed.write_bytes(b"three")


def test_a_sample_is_long_enough_and_counts_its_calls(rig: Rig) -> None:
    buffers = rig.buffers()
    agreed = []
    with rig.started(COUNTING) as arm:
        for _ in range(5):
            buffers.poison_outputs(0)
            timing = arm.time([buffers], AXPY.scalars, SAMPLE_NS, PAUSE_NS)
            assert isinstance(timing, Timing)
            assert timing.elapsed_ns >= SAMPLE_NS
            assert buffers.output("y")[0] >= min(timing.calls + 1, 2**24), "f32 counts no further"
            agreed.append(agree(timing))
    assert any(agreed), "a busy machine may come between a mark and the clock, and not every time"


def test_a_slow_candidate_is_called_once_in_a_sample(bwrap_rig: Rig) -> None:
    body = "struct timespec t = {0, 5000000}; nanosleep(&t, 0); y[0] += 1;"
    buffers = bwrap_rig.buffers()
    buffers.poison_outputs(0)
    with bwrap_rig.started(body, before="#include <time.h>") as arm:
        timing = arm.time([buffers], AXPY.scalars, SAMPLE_NS, 0)
    assert isinstance(timing, Timing)
    assert timing.calls == 1
    assert buffers.output("y")[0] == 2


def test_a_sample_rotates_over_its_sets_call_by_call(rig: Rig) -> None:
    sets = [rig.buffers(8, "natural") for _ in range(5)]
    for one in sets:
        one.poison_outputs(0)
    slow = "for (volatile int i = 0; i < 20000; i++);"
    with rig.started(slow + COUNTING) as arm:
        for _ in range(2):
            assert isinstance(arm.time(sets, AXPY.scalars, SAMPLE_NS, 0), Timing)
    counts = [one.output("y")[0] for one in sets]
    assert max(counts) - min(counts) <= 1
    assert min(counts) >= 1


def test_a_forged_clock_disagrees_with_the_kernels_stamps(bwrap_rig: Rig) -> None:
    """A candidate that interposes clock_gettime cannot reach the stamps; here the runner itself is made to lie."""
    slow = bwrap_rig.lab.runner.with_name("runner-with-half-a-clock")
    source = Path("kernel_lab/runner/runner.c").read_text()
    import subprocess

    lying = source.replace(
        "return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;",
        "return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) / 2;",
    )
    assert lying != source
    slow = bwrap_rig.folder / "runner"
    subprocess.run(
        ["gcc", "-O2", "-w", "-Ikernel_lab/runner", "-x", "c", "-", "-o", slow, "-ldl"],
        input=lying,
        text=True,
        check=True,
    )
    lab = Lab(bwrap_rig.lab.sandbox, slow)
    arm = lab(bwrap_rig.compile(COUNTING), AXPY, 1, Limits())
    assert isinstance(arm, ProcessArm)
    with arm:
        timing = arm.time([bwrap_rig.buffers()], AXPY.scalars, 10_000_000, 0)
    assert isinstance(timing, Timing)
    assert not agree(timing)


def test_many_sets_need_few_descriptors(bwrap_rig: Rig) -> None:
    sets = [bwrap_rig.buffers(16, "natural") for _ in range(300)]
    before, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with bwrap_rig.started(COUNTING) as arm:
        assert isinstance(arm.time(sets, AXPY.scalars, SAMPLE_NS, 0), Timing)
    open_now = len(list(Path("/proc/self/fd").iterdir()))
    assert open_now < 100 < before
    for one in sets:
        one.close()


def test_arms_leave_no_descriptor_behind(rig: Rig) -> None:
    def open_now() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    good, bad = rig.compile(HONEST), rig.folder / "bad.so"
    bad.write_bytes(b"x" * 100)
    buffers = rig.buffers()
    before = open_now()
    for path in (good, bad) * 3:
        arm = rig.start(path)
        if not isinstance(arm, LoadFailed):
            with arm:
                arm.call(buffers, AXPY.scalars)
    with pytest.raises(Transient, match="cannot be read"):
        rig.start(rig.folder / "absent.so")
    assert open_now() == before


def test_a_lab_and_an_arena_are_what_the_ladder_and_the_bench_ask_for(rig: Rig) -> None:
    start: StartArm = rig.lab
    arena: Arena = rig.arena
    arm = start(rig.compile(HONEST), AXPY, 1, Limits())
    assert not isinstance(arm, LoadFailed)
    with arm:
        buffers = arena.buffers(AXPY, {"n": 3}, "natural", offset_elements=1)
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)


def test_without_a_lab_the_strongest_isolation_is_used(bwrap_rig: Rig) -> None:
    arm = start_arm(bwrap_rig.compile('y[0] = open("/etc/passwd", O_RDONLY);'), AXPY, 1, Limits())
    assert isinstance(arm, ProcessArm)
    with arm:
        buffers = bwrap_rig.buffers()
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.output("y")[0] == -1


def test_natural_buffers_lie_on_lines_at_random_offsets(bwrap_rig: Rig) -> None:
    sets = [bwrap_rig.buffers(16, "natural") for _ in range(20)]
    offsets = {place.pointer_offset for one in sets for place in one.places}
    assert all(offset % 64 == 0 for offset in offsets)
    assert len(offsets) > 10


@pytest.mark.parametrize("alignment", ["start", "end", "natural"])
def test_an_offset_in_elements_moves_a_buffer_off_its_edge(bwrap_rig: Rig, alignment: Alignment) -> None:
    with bwrap_rig.started("y[0] = ((uintptr_t)y % 64) / 4;") as arm:
        buffers = bwrap_rig.arena.buffers(AXPY, {"n": 16}, alignment, offset_elements=3)
        assert isinstance(arm.call(buffers, AXPY.scalars), Returned)
    assert buffers.output("y")[0] == (13 if alignment == "end" else 3)


def test_inputs_of_the_wrong_shape_are_a_bug(bwrap_rig: Rig) -> None:
    buffers = bwrap_rig.buffers(4)
    with pytest.raises(Bug, match="shape"):
        buffers.fill_inputs({"x": np.zeros(5, np.float32), "z": np.zeros(4, np.float32)})


def test_both_arms_of_a_pair_may_die_without_the_other(bwrap_rig: Rig) -> None:
    buffers = bwrap_rig.buffers()
    with bwrap_rig.started(HONEST) as good, bwrap_rig.started("abort();") as bad:
        assert isinstance(bad.call(buffers, AXPY.scalars), Died)
        assert isinstance(good.call(buffers, AXPY.scalars), Returned)


@pytest.mark.parametrize("inputs_writable", [True, False])
def test_numpy_speaks_the_same_protocol(*, inputs_writable: bool) -> None:
    workload, axes = WORKLOADS["softmax"], {"R": 7, "C": 33}
    assert set(axes) == set(workload.axes)
    arena, rng = MemfdArena(np.random.default_rng(3)), np.random.default_rng(4)
    arm = lab_in("bwrap")(None, workload, 1, Limits(), library="numpy", inputs_writable=inputs_writable)
    assert isinstance(arm, ProcessArm), arm
    with arm:
        buffers = arena.buffers(workload, axes, "natural")
        inputs = workload.distributions[0].draw(axes, rng)
        buffers.fill_inputs(inputs)
        buffers.poison_outputs(0x7FA5A5A5)
        digest = buffers.input_digest()
        returned = arm.call(buffers, workload.scalars)
        timings = [arm.time([buffers], workload.scalars, SAMPLE_NS, PAUSE_NS) for _ in range(5)]
        arm.release()
    assert isinstance(returned, Returned)
    assert all(isinstance(timing, Timing) and timing.elapsed_ns >= SAMPLE_NS for timing in timings)
    assert any(isinstance(timing, Timing) and agree(timing) for timing in timings)
    expected = workload.reference(inputs, axes, workload.scalars)["y"]
    assert np.allclose(buffers.output("y"), expected, rtol=1e-5)
    assert buffers.input_digest() == digest
    arena.close()


def test_an_unknown_library_is_a_failure_to_load() -> None:
    outcome = lab_in("bwrap")(None, WORKLOADS["softmax"], 1, Limits(), library="no_such_library")
    assert isinstance(outcome, LoadFailed)
    assert "no_such_library" in outcome.message


def test_a_library_is_timed_over_as_many_buffer_sets_as_a_cold_rotation_has() -> None:
    workload = WORKLOADS["rms_norm"]
    with closing(MemfdArena(np.random.default_rng(0))) as arena:
        sets = [arena.buffers(workload, {"T": 1, "H": 64}, "natural") for _ in range(2048)]
        arm = start_arm(None, workload, 1, Limits(), library="numpy", inputs_writable=False)
        assert not isinstance(arm, LoadFailed)
        with arm:
            assert isinstance(arm.time(sets, workload.scalars, 1_000_000, 0), Timing)
