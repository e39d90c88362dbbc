"""The fold of one goal: deterministic, linear, and blind to late and repeated facts."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.enums import AbandonReason, Reason, SteerAction
from schemas.envelope import Recorded
from schemas.events import CandidateMeasured, GenerationDue
from services.evidence import goal_fold, goal_state
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import GoalState
from tests.pure.floor import Floor


def played(goal_id: str = "g", **changes: Any) -> list[Recorded[Any]]:
    """The facts about one goal, from accepted to completed."""
    return about(Floor().with_route().accept(goal_id, **changes).play())


def about(floor: Floor, goal_id: str = "g") -> list[Recorded[Any]]:
    return [recorded for recorded in floor.log if recorded.fact.about_goal == goal_id]


def fold(facts: list[Recorded[Any]]) -> GoalState:
    state = goal_state.begin(facts[0])
    for recorded in facts[1:]:
        state = goal_fold.evolve(state, recorded)
    return state


WHOLE = played()

fates = st.lists(
    st.sampled_from([1.05, 1.2, Reason.DOES_NOT_COMPILE, Reason.OUT_OF_BOUND, AbandonReason.WORKER_LOST]),
    min_size=8,
    max_size=8,
)


def test_every_fact_of_a_goal_played_in_order_counts() -> None:
    state = goal_state.begin(WHOLE[0])
    for recorded in WHOLE[1:]:
        after = goal_fold.evolve(state, recorded)
        assert after is not state, recorded.fact.TYPE
        assert (after.position, after.last_id) == (recorded.position, recorded.id)
        state = after
    assert state.phase is GoalPhase.COMPLETED


@settings(max_examples=30, deadline=None)
@given(st.integers(1, len(WHOLE) - 1), st.integers(0, len(WHOLE) - 1))
def test_a_fact_heard_a_second_time_changes_nothing(upto: int, which: int) -> None:
    """The log keeps an id once; the fold would survive it all the same."""
    facts = [r for r in WHOLE if not r.fact.TYPE.startswith("lesson.")]
    upto = min(upto, len(facts) - 1)
    state = fold(facts[: upto + 1])
    repeated = replace(facts[min(which, upto)], position=10_000)
    assert goal_fold.evolve(state, repeated) is state


@settings(max_examples=25, deadline=None)
@given(fates)
def test_folding_is_deterministic_whatever_becomes_of_the_candidates(drawn: list[Any]) -> None:
    floor = Floor(fate=lambda number: drawn[number]).with_route().accept()
    facts = about(floor.play())
    assert fold(facts) == fold(facts)
    assert fold(facts).counts.proposed == 8


@settings(max_examples=25, deadline=None)
@given(fates, st.randoms(use_true_random=False))
def test_the_order_in_which_candidates_of_a_generation_end_does_not_matter(drawn: list[Any], random: Any) -> None:
    def play(order: list[int]) -> GoalState:
        floor = Floor(fate=lambda number: drawn[number]).with_route().accept(search={"generation_size": 8})
        floor.choose_baseline()
        candidates = floor.propose()
        for index in order:
            floor.climb(candidates[index])
        return floor.state.goals["g"]

    shuffled = list(range(8))
    random.shuffle(shuffled)
    one, other = play(list(range(8))), play(shuffled)
    assert (one.counts, one.best, one.stagnant) == (other.counts, other.best, other.stagnant)
    assert one.tally.records.keys() == other.tally.records.keys()


def test_facts_after_the_end_change_nothing() -> None:
    ended = fold(WHOLE)
    for recorded in WHOLE[1:]:
        assert goal_fold.evolve(ended, replace(recorded, position=9_999)) is ended


def test_the_first_end_of_a_candidate_counts() -> None:
    floor = Floor().with_route().accept()
    floor.choose_baseline()
    first, *_ = floor.propose()
    floor.climb(first)
    before = floor.state.goals["g"]
    measured = floor.last(CandidateMeasured)
    contradiction = replace(measured, position=500, envelope=replace(measured.envelope, id=uuid4()))
    assert goal_fold.evolve(before, contradiction) is before


def test_the_running_generation_shows_in_the_counts_and_the_leader() -> None:
    floor = Floor().with_route().accept()
    floor.choose_baseline()
    first, *_ = floor.propose()
    floor.climb(first)
    goal = floor.state.goals["g"]
    assert goal.counts.proposed == 0
    assert (goal.counts_so_far.proposed, goal.counts_so_far.measured) == (4, 1)
    assert goal.leader == (first.id, 1.0, 1.0)


def test_pausing_twice_keeps_the_first_moment() -> None:
    floor = Floor().with_route().accept()
    floor.steer(SteerAction.PAUSE)
    before = floor.state.goals["g"]
    floor.steer(SteerAction.PAUSE)
    assert floor.state.goals["g"].paused_since == before.paused_since


def test_a_long_goal_keeps_a_state_of_one_generation() -> None:
    """Linear: what a step copies is bounded by the generation, never by the goal's length."""
    floor = Floor().with_route()
    floor.accept(budget={"candidates": 400, "wall": 1e5, "stagnation": 1000}, search={"generation_size": 8})
    floor.fate = lambda number: 1.0 + number / 1e6
    floor.choose_baseline()
    largest = 0
    while floor.unanswered(GenerationDue):
        for proposed in floor.propose():
            floor.climb(proposed)
        generation = floor.state.goals["g"].generation
        largest = max(largest, len(generation.candidates) if generation else 0)
        goal = floor.state.goals["g"]
        assert all(len(record.evidence) <= 64 for record in goal.tally.records.values())
    assert largest <= 8
    assert floor.state.goals["g"].counts.proposed == 400
