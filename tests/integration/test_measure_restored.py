"""Kernels that replace a buffer are timed like any other: the outputs of timed calls are verified."""

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kernel_lab.baselines import c_source
from kernel_lab.machine import machine_class
from kernel_lab.measure.bench import Bench, Protocol, Racer, open_bench
from kernel_lab.measure.contents import pair_bytes, rotation_of, set_bytes
from kernel_lab.measure.pairs import CandidateFailed, Duel, take_pair
from kernel_lab.runner.start import open_lab
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Reason, Regime
from schemas.goal import Shape
from schemas.measurement import Pair

WORKLOAD = WORKLOADS["kda_decode_inplace"]
SHAPE = Shape(axes={"B": 1, "H": 4, "K": 32, "V": 48})
SHORT = Protocol(looks=(5,), quads=2, min_sample_ns=1_000_000, pause_ns=500_000)


@pytest.fixture
def bench() -> Bench:
    """With a small cache, so that a cold rotation is short."""
    return open_bench(open_lab(), machine_class().model_copy(update={"llc_bytes": 1 << 20}), "here", SHORT)


def racer(folder: Path, name: str, *, change: tuple[str, str] = ("", "")) -> Racer:
    """The naive baseline, changed. Its source is this project's own, so it is compiled outside the sandbox."""
    source = c_source(WORKLOAD.name, "naive", parallel=False)
    assert change[0] in source
    path = folder / f"{name}.so"
    command = ["gcc", "-std=gnu11", "-O2", "-w", "-fPIC", "-shared", "-x", "c", "-", "-o", str(path), "-lm"]
    subprocess.run(command, input=source.replace(*change), text=True, check=True)
    return Racer(name, 1, path, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize("regime", [Regime.HOT, Regime.COLD])
def test_an_honest_kernel_that_replaces_its_state_is_timed_and_its_outputs_are_right(
    bench: Bench, tmp_path: Path, regime: Regime
) -> None:
    one, other = racer(tmp_path, "one"), racer(tmp_path, "other")
    taken = take_pair(bench, Duel(WORKLOAD, (SHAPE,), one, (other,), regime), 2, np.random.default_rng(3))
    assert isinstance(taken, Pair), taken
    assert all(ns > 0 for quad in taken.quads for ns in (*quad.candidate_ns, *quad.baseline_ns))


@pytest.mark.parametrize(
    "change",
    [
        ("state[i * V + j] += k[h * K + i] * u[j];", ""),
        ("for (int64_t h = 0; h < B * H; h++) {", "for (int64_t h = 0; h + 1 < B * H; h++) {"),
    ],
    ids=["it writes no update", "it leaves the last head alone"],
)
def test_a_kernel_that_leaves_part_of_the_state_alone_is_caught_by_its_timed_outputs(
    bench: Bench, tmp_path: Path, change: tuple[str, str]
) -> None:
    wrong, honest = racer(tmp_path, "wrong", change=change), racer(tmp_path, "honest")
    duel = Duel(WORKLOAD, (SHAPE,), wrong, (honest,), Regime.HOT)
    taken = take_pair(bench, duel, 2, np.random.default_rng(3))
    assert isinstance(taken, CandidateFailed)
    assert taken.finding.reason in (Reason.OUT_OF_BOUND, Reason.NON_FINITE)


def test_a_pair_of_sets_that_are_restored_takes_two_states_and_two_origins() -> None:
    state = 4 * 4 * 32 * 48
    vectors = 4 * 4 * (3 * 32 + 48 + 1)
    assert pair_bytes(WORKLOAD, SHAPE.axes) == 2 * (vectors + 2 * state) + 4 * 4 * 48
    assert set_bytes(WORKLOAD, SHAPE.axes) == vectors + state + 4 * 4 * 48


def test_a_hot_rotation_of_restored_sets_is_long_enough_for_its_marks_and_fits_the_cache() -> None:
    llc = 32 << 20
    small, large = ({"B": b, "H": 32, "K": 128, "V": 128} for b in (1, 64))
    assert rotation_of(WORKLOAD, {"B": 1, "H": 1, "K": 16, "V": 16}, llc, Regime.HOT) == 32
    assert rotation_of(WORKLOAD, small, llc, Regime.HOT) == 1
    assert rotation_of(WORKLOAD, large, llc, Regime.HOT) == 1
    assert rotation_of(WORKLOAD, small, llc, Regime.COLD) > 16
