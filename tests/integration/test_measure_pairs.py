"""Pairs on real processes: equal kernels are equal, slow ones are slow, and cheats are caught."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from kernel_lab.measure import schedule
from kernel_lab.measure.bench import Protocol
from kernel_lab.measure.contents import rotation_of
from kernel_lab.measure.pairs import BaselineFailed, CandidateFailed, take_pair
from kernel_lab.measure.process import clocks_disagree
from kernel_lab.measure.screen import remeasure, screen
from kernel_lab.measure.statistics import Noise
from kernel_lab.verify.finding import Finding
from schemas.enums import Reason, Regime, Verdict
from schemas.faults import Broken
from schemas.goal import Shape
from schemas.measurement import Comparison, Pair
from tests.integration import measure_lab as lab
from tests.integration.measure_lab import QUIET_MACHINE, Track, open_track

pytestmark = pytest.mark.alone


@pytest.fixture
def track(tmp_path: Path) -> Track:
    return open_track(tmp_path)


def finding_about(track: Track, body: str) -> Finding:
    taken = take_pair(track.bench, track.duel(track.racer("k", body)), 2, np.random.default_rng(1))
    assert isinstance(taken, CandidateFailed), taken
    return taken.finding


def test_byte_identical_kernels_are_neither_faster_nor_slower(track: Track) -> None:
    duel = track.duel(track.racer("candidate", lab.HONEST))
    fought = track.fight(duel)
    if fought.conclusion.verdict in (Verdict.FASTER, Verdict.SLOWER):  # once in a hundred (ALPHA), not twice in a row
        fought = track.fight(duel)
    assert fought.failed is None
    assert fought.conclusion.verdict not in (Verdict.FASTER, Verdict.SLOWER)


def test_a_slower_kernel_is_slower_and_the_faster_one_faster(track: Track) -> None:
    calm, slow = track.told(lab.calm), track.racer("slow", lab.THREE_TIMES_THE_WORK)
    assert calm.fight(track.duel(slow)).conclusion.verdict is Verdict.SLOWER
    mirrored = calm.fight(track.duel(track.racer("fast", lab.HONEST), slow))
    assert mirrored.conclusion.verdict is Verdict.FASTER


@pytest.mark.slow
def test_half_as_much_work_again_is_found_unless_the_machine_is_too_disturbed_to_say(track: Track) -> None:
    fought = track.fight(track.duel(track.racer("slow", lab.HALF_AS_MUCH_AGAIN)))
    assert fought.conclusion.verdict in (Verdict.SLOWER, Verdict.INVALID, Verdict.INCONCLUSIVE)
    if fought.conclusion.interval is not None:
        assert fought.conclusion.interval.estimate < 1


def test_a_disturbed_machine_gives_no_number(track: Track) -> None:
    fought = track.told(lab.delayed).fight(track.duel(track.racer("k", lab.HONEST)))
    assert (fought.conclusion.verdict, fought.conclusion.interval) == (Verdict.INVALID, None)


def test_every_raw_sample_of_a_pair_is_kept_and_its_clocks_agree(track: Track) -> None:
    taken = take_pair(track.bench, track.duel(track.racer("k", lab.HONEST)), 6, np.random.default_rng(1))
    assert isinstance(taken, Pair)
    assert len(taken.quads) == 6
    assert all(ns > 0 for quad in taken.quads for ns in (*quad.candidate_ns, *quad.baseline_ns))
    assert {quad.first for quad in taken.quads} == {"candidate", "baseline"}


def test_who_measures_computes_on_one_thread(track: Track) -> None:
    """A BLAS of more would spin beside the samples that come after a reference."""
    assert track.bench
    counts = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    assert counts == {1}


def test_a_cold_sample_rotates_over_more_sets_than_the_cache_holds(track: Track) -> None:
    small = replace(track.bench, machine=track.bench.machine.model_copy(update={"llc_bytes": 1 << 20}))
    duel = track.duel(track.racer("k", lab.HONEST), regime=Regime.COLD)
    assert isinstance(take_pair(small, duel, 2, np.random.default_rng(1)), Pair)


def test_a_candidate_that_goes_wrong_on_later_calls_is_caught_by_its_timed_outputs(track: Track) -> None:
    found = finding_about(track, lab.WRONG_AFTER_A_WHILE)
    assert found.reason is Reason.OUT_OF_BOUND
    assert "timed outputs" in found.message
    assert found.counterexample is not None


def test_a_candidate_that_works_on_its_first_call_only_is_caught(track: Track) -> None:
    assert finding_about(track, lab.ONLY_ONCE).reason in (Reason.NON_FINITE, Reason.OUT_OF_BOUND)


@pytest.mark.parametrize("regime", [Regime.HOT, Regime.COLD])
def test_a_candidate_that_leaves_an_old_answer_alone_is_caught(track: Track, regime: Regime) -> None:
    duel = track.duel(track.racer("k", lab.LEAVES_WHAT_LOOKS_LIKE_AN_ANSWER), regime=regime)
    small = replace(track.bench, machine=track.bench.machine.model_copy(update={"llc_bytes": 1 << 20}))
    taken = take_pair(small, duel, 2, np.random.default_rng(1))
    assert isinstance(taken, CandidateFailed), taken
    assert taken.finding.reason is Reason.OUT_OF_BOUND
    assert "timed outputs" in taken.finding.message


def test_a_trusted_kernel_is_not_verified_so_the_check_is_what_catches(track: Track) -> None:
    duel = replace(track.duel(track.racer("k", lab.WRONG_AFTER_A_WHILE)), is_verified=False)
    assert isinstance(take_pair(track.bench, duel, 2, np.random.default_rng(1)), Pair)


def test_a_candidate_that_dies_while_it_is_timed_is_rejected(track: Track) -> None:
    found = finding_about(track, lab.CRASHES_AFTER_A_WHILE)
    assert found.reason is Reason.CRASHED


def test_a_baseline_that_dies_is_no_fault_of_the_candidate(track: Track) -> None:
    duel = track.duel(track.racer("k", lab.HONEST), track.racer("broken", lab.CRASHES_AFTER_A_WHILE))
    taken = take_pair(track.bench, duel, 2, np.random.default_rng(1))
    assert isinstance(taken, BaselineFailed)
    assert taken.name == "broken"


def test_a_clock_that_is_patched_to_run_at_half_speed_is_caught(track: Track) -> None:
    duel = track.duel(track.racer("k", lab.HONEST, before=lab.HALVED_CLOCK))
    taken = take_pair(track.told(lab.undelayed).bench, duel, 4, np.random.default_rng(1))
    assert isinstance(taken, CandidateFailed), taken
    assert taken.finding.reason is Reason.FORGED_CLOCK


def test_a_candidate_that_computes_the_next_answers_before_the_clock_starts_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers are right, so no check of outputs sees it: six calls of each sample find theirs."""
    monkeypatch.setattr(schedule, "_refresh", lambda _rng, _quad: "same_pointers")  # it needs two samples to learn them
    track, shape = open_track(tmp_path, Protocol()), Shape(axes={"N": 1 << 21})
    small = replace(track.told(lab.calm).bench, machine=track.bench.machine.model_copy(update={"llc_bytes": 24 << 20}))
    sets = 2 * rotation_of(lab.SUM, shape.axes, small.machine.llc_bytes, Regime.COLD)
    looking, told = f"#define SETS {sets}\n{lab.LOOKS_AHEAD}", {}
    for name, body, before in (("k", lab.WORKS_AHEAD, looking), ("honest", lab.HONEST, "")):
        duel = track.duel(track.racer(name, body, before=before), regime=Regime.COLD)
        told[name] = take_pair(small, replace(duel, shapes=(shape,)), 6, np.random.default_rng(1))
    assert isinstance(told["honest"], Pair), told["honest"]
    assert isinstance(told["k"], CandidateFailed), told["k"]
    assert told["k"].finding.reason is Reason.STATEFUL
    assert "works ahead" in told["k"].finding.message


def test_clocks_may_differ_by_two_percent_and_a_millisecond() -> None:
    assert not clocks_disagree(99_000_000, 100_000_000)
    assert not clocks_disagree(97_100_000, 100_000_000)
    assert clocks_disagree(96_900_000, 100_000_000)
    assert clocks_disagree(103_100_000, 100_000_000)


def test_an_object_that_is_not_the_verified_one_is_never_started(track: Track) -> None:
    racer = track.racer("k", lab.HONEST)
    assert racer.object_path is not None
    with racer.object_path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(Broken, match="is not the object"):
        take_pair(track.bench, track.duel(racer), 2, np.random.default_rng(1))


def screened(track: Track, body: str, noise: Noise = QUIET_MACHINE) -> tuple[Comparison, bool]:
    found = screen(track.bench, track.duel(track.racer("k", body)), noise, np.random.default_rng(3))
    assert not isinstance(found, CandidateFailed | BaselineFailed), found
    return found.comparison, found.worth_more


def test_a_screen_gives_a_search_number_and_drops_what_is_clearly_slow(track: Track) -> None:
    comparison, worth_more = screened(track.told(lab.calm), lab.THREE_TIMES_THE_WORK)
    assert comparison.verdict is Verdict.SLOWER
    assert not worth_more
    assert len(comparison.pairs) == 1
    assert len(comparison.pairs[0].quads) == track.bench.protocol.screen_quads


def test_an_unfit_machine_gives_a_screen_no_number(track: Track) -> None:
    comparison, worth_more = screened(track, lab.HONEST, Noise((0.3,) * 30))
    assert (comparison.verdict, comparison.ratio, comparison.shapes) == (Verdict.UNFIT, None, ())
    assert worth_more


@pytest.mark.parametrize("round_", [1, 2])
def test_a_longer_look_is_at_every_shape_and_sees_one_that_loses(track: Track, round_: int) -> None:
    """Faster on the smaller shape, slower on the larger one: a look at one of them would say only half of that."""
    calm = track.told(lab.calm)
    kernel = calm.racer("k", "y[0] = add(x, N); if (N > 1 << 16) (void)add(x, N);")
    slow = calm.racer("slow", "y[0] = add(x, N); if (N <= 1 << 16) (void)add(x, N);")
    shapes = (lab.SHAPE, Shape(axes={"N": 1 << 17}))
    duel = replace(calm.duel(kernel, slow), shapes=shapes, baselines=(slow, slow))
    found = remeasure(calm.bench, duel, QUIET_MACHINE, round_, np.random.default_rng(3))
    assert isinstance(found, Comparison), found
    smaller, larger = (row.ratio for row in found.shapes)
    assert smaller > 1 > larger
