"""Successive halving: the best of a generation are measured again, longer, before it closes."""

from typing import Any
from uuid import UUID

import pytest

from schemas.enums import AbandonReason, Outcome, Phase, Reason, SteerAction
from schemas.events import (
    CandidateProposed,
    CounterexampleKept,
    FinalsDue,
    GenerationClosed,
    GoalTimedOut,
    MeasurementRequested,
)
from services.librarian import curator
from services.librarian.curator import CuratorState
from tests.pure.floor import Floor, comparison, counterexample

NINE: dict[str, Any] = {
    "budget": {"candidates": 9, "wall": 100, "stagnation": 10},
    "search": {"generation_size": 9},
}


def nine(**how: Any) -> Floor:
    """A generation of nine candidates on its way; the n-th is screened at 1.0 + n/100."""
    floor = Floor(halves=False, **how).with_route().accept(**NINE)
    floor.choose_baseline()
    for proposed in floor.propose():
        floor.climb(proposed)
    return floor


def numbers(floor: Floor, round_: int) -> list[int]:
    """The candidates asked for in a round, by number."""
    asked = [fact for fact in floor.facts(MeasurementRequested) if fact.round == round_]
    return [int(fact.build.kernel.source.split()[2]) for fact in asked]


def id_of(floor: Floor, number: int) -> UUID:
    return next(
        r.id for r in floor.log if isinstance(r.fact, CandidateProposed) and f" {number} " in r.fact.kernel.source
    )


def test_the_best_third_is_measured_again_and_the_best_third_of_those_once_more() -> None:
    floor = nine()
    assert numbers(floor, 1) == [8, 7, 6]
    floor.halve()
    assert numbers(floor, 2) == [8]
    assert floor.types.count("generation.closed") == 1


def test_the_generation_closes_after_the_last_answer_and_not_before() -> None:
    floor = nine()
    for answered in range(4):
        assert not floor.facts(GenerationClosed), f"closed after {answered} answers"
        floor.remeasure()
    assert floor.facts(GenerationClosed)


def test_a_lucky_screen_leads_no_longer_once_it_was_measured_again() -> None:
    floor = nine(second_fate=lambda number, _round: {8: 0.97, 7: 1.05, 6: 1.04}[number])
    floor.halve()
    assert numbers(floor, 2) == [7]
    (closed,) = floor.facts(GenerationClosed)
    assert (closed.best_candidate, closed.best_search_ratio) == (id_of(floor, 7), 1.05)


def test_who_loses_a_shape_is_passed_by_one_that_loses_none_and_its_ratio_is_still_told() -> None:
    """Nobody who loses a shape can be crowned, however much it gains on the others."""
    looks = {8: comparison(1.4, worst=0.7), 7: comparison(1.2), 6: comparison(1.1)}
    floor = nine(second_fate=lambda number, _round: looks[number])
    floor.halve()
    assert numbers(floor, 2) == [7]
    (closed,) = floor.facts(GenerationClosed)
    assert (closed.best_candidate, closed.best_search_ratio) == (id_of(floor, 7), 1.2)


def test_who_is_clearly_below_the_baseline_is_not_measured_again() -> None:
    floor = nine(fate=lambda number: 1.1 if number == 4 else Reason.OUT_OF_BOUND)
    assert numbers(floor, 1) == [4]


def test_with_nothing_measured_there_is_nothing_to_measure_again() -> None:
    floor = nine(fate=lambda _number: Reason.OUT_OF_BOUND)
    assert not floor.facts(MeasurementRequested)
    assert floor.facts(GenerationClosed)


def test_what_is_refused_on_the_longer_look_is_rejected_and_its_counterexample_kept() -> None:
    floor = nine(second_fate=lambda number, _round: Reason.OUT_OF_BOUND if number == 8 else 1.0)
    floor.halve()
    (closed,) = floor.facts(GenerationClosed)
    assert closed.rejected == {"out_of_bound": 1}
    assert closed.measured == 8
    assert closed.best_candidate != id_of(floor, 8)
    assert [kept.counterexample.seed for kept in floor.facts(CounterexampleKept)] == [counterexample(8).seed]


def test_a_look_that_nobody_could_take_costs_the_candidate_nothing() -> None:
    floor = nine(second_fate=lambda _number, _round: AbandonReason.WORKER_LOST)
    floor.halve()
    (closed,) = floor.facts(GenerationClosed)
    assert not numbers(floor, 2)
    assert (closed.measured, closed.best_candidate) == (9, id_of(floor, 8))


def test_a_stop_lets_the_running_round_finish_and_asks_for_no_other() -> None:
    floor = nine()
    floor.steer(SteerAction.STOP)
    assert not floor.facts(FinalsDue)
    floor.halve()
    assert not numbers(floor, 2)
    assert floor.facts(FinalsDue)


def test_a_deadline_closes_the_generation_with_answers_still_out() -> None:
    floor = nine()
    floor.wait(101)
    assert [fact.phase for fact in floor.facts(GoalTimedOut)] == [Phase.SEARCH]
    assert floor.facts(GenerationClosed)
    closed = len(floor.log)
    floor.remeasure()
    assert len(floor.facts(GenerationClosed)) == 1
    assert floor.log[closed].fact.TYPE == "candidate.remeasured.v1", "late: recorded, and nothing follows from it"


@pytest.mark.parametrize("recorded", range(4))
def test_a_librarian_killed_between_requests_asks_for_the_rest_and_nothing_twice(recorded: int) -> None:
    """The log ends after some requests of a round; another librarian folds it and decides."""
    floor = nine()
    first = next(i for i, r in enumerate(floor.log) if isinstance(r.fact, MeasurementRequested))
    state = CuratorState()
    for one in floor.log[: first + recorded]:
        state = curator.evolve(state, one)
    again = [draft.id for draft in curator.decide(state, state.position)]
    wanted = [r.id for r in floor.log[first : first + 3]]
    assert again == wanted[recorded:]


def test_the_goal_still_ends_with_a_champion() -> None:
    floor = Floor().with_route().accept(**NINE).play()
    assert floor.end.outcome is Outcome.CHAMPION
