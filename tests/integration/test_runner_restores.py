"""Buffers that a call reads and writes: each call finds what was drawn, however many calls a sample has."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from kernel_lab.runner import Died, Limits, MemfdArena, MemfdBuffers, ProcessArm, Returned, Timing
from kernel_lab.runner.protocol import MAX_ROUNDS
from kernel_lab.verify.compare import Within, against_bound
from kernel_lab.verify.draws import Draw, Prepared, prepare
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Buffer
from tests.integration.runner_lab import AXPY, MODES, Rig, lab_in, rigs

ADDING = replace(AXPY, outputs=(Buffer("y", ("n",), in_out=True),))
ADD = "for (int64_t i = 0; i < n; i++) y[i] += x[i] + a * z[i];"
SAMPLE_NS, PAUSE_NS = 1_000_000, 100_000
POISON = 0x7FA5A5A5


@pytest.fixture(params=MODES)
def rig(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[Rig]:
    yield from rigs(request.param, tmp_path)  # type: ignore[arg-type]


def filled(arena: MemfdArena, n: int, start: float = 100.0, alignment: str = "natural", shift: int = 0) -> MemfdBuffers:
    buffers = arena.buffers(ADDING, {"n": n}, alignment, offset_elements=shift)  # type: ignore[arg-type]
    x = np.arange(n, dtype=np.float32)
    buffers.fill_inputs({"x": x, "z": np.ones(n, np.float32), "y": np.full(n, start, np.float32)})
    buffers.poison_outputs(POISON)
    return buffers


def once(n: int, start: float = 100.0) -> np.ndarray:
    return np.arange(n, dtype=np.float32) + np.float32(2.0 + start)


def started(rig: Rig, body: str = ADD) -> ProcessArm:
    arm = rig.lab(rig.compile(body), ADDING, 1, Limits(), environment={"ASSAY_TEST_MARK": rig.mark})
    assert isinstance(arm, ProcessArm)
    return arm


@pytest.mark.parametrize(("alignment", "shift"), [("natural", 1), ("natural", 0), ("start", 0), ("end", 0)])
@pytest.mark.parametrize("n", [0, 1, 5, 1000, 5000])
def test_each_call_finds_what_was_drawn_and_not_what_the_last_one_left(
    rig: Rig, n: int, alignment: str, shift: int
) -> None:
    buffers = filled(rig.arena, n, alignment=alignment, shift=shift)
    before = buffers.input_digest()
    with started(rig) as arm:
        for _ in range(3):
            assert isinstance(arm.call(buffers, ADDING.scalars), Returned)
            assert np.array_equal(buffers.output("y"), once(n))
    assert buffers.input_digest() == before
    assert buffers.slack_written() == ()


@pytest.mark.parametrize(("n", "sets"), [(7, 1), (50_000, 1), (50_000, 3), (1000, 40)])
def test_every_timed_call_finds_what_was_drawn(rig: Rig, n: int, sets: int) -> None:
    rotation = [filled(rig.arena, n, start=float(k)) for k in range(sets)]
    with started(rig) as arm:
        for _ in range(2):
            timing = arm.time(rotation, ADDING.scalars, SAMPLE_NS, PAUSE_NS)
            assert isinstance(timing, Timing)
            assert 1 <= timing.calls <= MAX_ROUNDS * sets
            assert 0 < timing.elapsed_ns <= timing.parent_ns
    called = [np.array_equal(one.output("y"), once(n, float(k))) for k, one in enumerate(rotation)]
    untouched = [np.isnan(one.output("y")).all() for one in rotation]
    assert all(a or b for a, b in zip(called, untouched, strict=True))
    assert any(called)


def test_new_contents_are_what_the_next_call_finds(rig: Rig) -> None:
    buffers = filled(rig.arena, 64)
    with started(rig) as arm:
        assert isinstance(arm.call(buffers, ADDING.scalars), Returned)
        buffers.fill_inputs({"x": np.zeros(64), "z": np.zeros(64), "y": np.full(64, 7.0)})
        assert isinstance(arm.call(buffers, ADDING.scalars), Returned)
        arm.release()
        assert np.all(buffers.output("y") == 7.0)
        assert isinstance(arm.call(buffers, ADDING.scalars), Returned)
    assert np.all(buffers.output("y") == 7.0)


def test_an_overrun_of_such_a_buffer_is_named(rig: Rig) -> None:
    with started(rig, "y[n] = 1;") as arm:
        outcome = arm.call(filled(rig.arena, 1024, alignment="end"), ADDING.scalars)
    assert isinstance(outcome, Died)
    assert outcome.fault_address_in == "y:after"


def test_a_library_finds_what_was_drawn_too() -> None:
    workload = WORKLOADS["kda_decode_inplace"]
    arena = MemfdArena(np.random.default_rng(3))
    axes = {"B": 2, "H": 3, "K": 16, "V": 20}
    arm = lab_in("bwrap")(None, workload, 1, Limits(), library="numpy", inputs_writable=False)
    assert isinstance(arm, ProcessArm)
    with arm:
        rotation = [arena.buffers(workload, axes, "natural") for _ in range(3)]
        drawn: list[Prepared] = []
        for seed, buffers in enumerate(rotation):
            drawn.append(prepare(workload, workload.distributions[0], Draw("normal", dict(axes), seed)))
            buffers.fill_inputs(drawn[-1].inputs)
            buffers.poison_outputs(POISON)
        calls = []
        for _ in range(3):
            timing = arm.time(rotation, workload.scalars, 10 * SAMPLE_NS, PAUSE_NS)
            assert isinstance(timing, Timing)
            assert timing.elapsed_ns <= timing.parent_ns
            calls.append(timing.calls)
        assert max(calls) > len(rotation), "a disturbed call fills a sample"
        for prepared, buffers in zip(drawn, rotation, strict=True):
            got = {name: buffers.output(name) for name in ("s", "o")}
            assert isinstance(against_bound(prepared, got, 1.0), Within)
    arena.close()
