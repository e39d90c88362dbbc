"""Epochs of a machine: a jump of the baselines' times starts another one, noise and single outliers do not."""

import math

import numpy as np
import pytest

from kernel_lab.measure.drift import EARLIER, RECENT, Epoch, jumped
from schemas.measurement import ShapeResult


def row(baseline_ns: float, baseline: str = "numpy", rows: int = 16) -> ShapeResult:
    return ShapeResult(
        axes={"T": rows}, weight=1, baseline=baseline, baseline_ns=baseline_ns, candidate_ns=1.0, ratio=1.0
    )


def after(*times_ns: float) -> Epoch:
    epoch = Epoch()
    for ns in times_ns:
        epoch = epoch.seen("rms_norm", row(ns))
    return epoch


@pytest.mark.parametrize("jump", [1.3, 0.7], ids=["slower", "faster"])
def test_a_jump_of_the_baseline_starts_another_epoch_once(jump: float) -> None:
    epoch = after(*[1000.0] * EARLIER, *[1000.0 * jump] * (EARLIER + RECENT))
    assert epoch.number == 2


def test_a_jump_is_seen_when_most_of_the_recent_times_show_it() -> None:
    before = [1000.0] * EARLIER
    assert after(*before, *[1300.0] * (RECENT // 2)).number == 1
    assert after(*before, *[1300.0] * RECENT).number == 2


def test_noise_and_odd_ones_out_are_no_jump() -> None:
    rng = np.random.default_rng(7)
    noisy = 1000.0 * np.exp(rng.normal(0.0, 0.03, 2000))
    noisy[::9] *= 3.0
    assert after(*map(float, noisy)).number == 1


def test_different_shapes_and_baselines_are_not_compared_with_each_other() -> None:
    epoch = Epoch()
    for turn in range(60):
        epoch = epoch.seen("rms_norm", row(1000.0, "numpy", 16)).seen("rms_norm", row(9000.0, "numpy", 4096))
        epoch = epoch.seen("rms_norm", row(500.0 + turn % 3, "c_blocked", 16)).seen("softmax", row(77.0, "numpy", 16))
    assert epoch.number == 1


def test_too_few_times_say_nothing() -> None:
    assert not jumped((*[0.0] * (EARLIER - 1), *[1.0] * RECENT))
    assert jumped((*[0.0] * EARLIER, *[math.log(1.11)] * RECENT))
    assert not jumped((*[0.0] * EARLIER, *[math.log(1.09)] * RECENT))
