"""A result too good to be believed: it crowns nobody until a person vouches for it."""

from uuid import UUID

import pytest

from schemas.enums import EndedBy, Outcome, RatioKind, SteerAction, Verdict
from schemas.events import ChampionCrowned, GoalCompleted
from schemas.measurement import Entrant
from schemas.requests import SteerGoal
from services.librarian.goal_checks import Catalogue
from services.librarian.steering import check_steer
from tests.pure.floor import Floor, comparison

CATALOGUE = Catalogue({}, frozenset(), {})


def raced(ratio: float = 12.0, confirmation: int = 3600) -> tuple[Floor, UUID]:
    """A goal whose race gave one quarantined result, and its candidate."""
    finals = {"finalists": 1, "hold_out_gap": 0, "wall": 50, "confirmation": confirmation}
    floor = Floor().with_route().accept(finals=finals).search()
    (nominated,) = floor.nominate(1)
    floor.prove(nominated)
    id_ = nominated.fact.candidate_id
    held = comparison(ratio, RatioKind.HOLD_OUT, Verdict.QUARANTINED)
    floor.finish_race(Entrant(candidate_id=id_, comparison=held, search_ratio=1.2))
    return floor, id_


def test_a_quarantined_result_waits_and_a_confirmation_crowns_it() -> None:
    floor, id_ = raced()
    assert not floor.facts(GoalCompleted)
    floor.steer(SteerAction.CONFIRM, confirm=id_)
    assert floor.end.outcome is Outcome.CHAMPION
    (crowned,) = floor.facts(ChampionCrowned)
    assert crowned.comparison.verdict is Verdict.FASTER
    assert "confirmed by a person" in crowned.comparison.note


def test_a_confirmed_result_is_still_judged_by_its_interval() -> None:
    floor, id_ = raced(ratio=1.005)
    floor.steer(SteerAction.CONFIRM, confirm=id_)
    assert floor.end.outcome is not Outcome.CHAMPION


def test_with_nobody_there_the_goal_ends_inconclusive_at_its_deadline() -> None:
    floor, _id = raced()
    floor.wait(60)
    assert not floor.facts(GoalCompleted), "the confirmation adds to the finals' deadline"
    floor.wait(3600)
    assert (floor.end.outcome, floor.facts(ChampionCrowned)) == (Outcome.INCONCLUSIVE, [])


def test_without_a_time_to_wait_the_goal_ends_at_once() -> None:
    floor, _id = raced(confirmation=0)
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.BUDGET, Outcome.INCONCLUSIVE)


def asked(floor: Floor, id_: UUID | None) -> list[str]:
    steer = SteerGoal(action=SteerAction.CONFIRM, reason="measured on box2", confirm=id_)
    return [problem.path for problem in check_steer(steer, floor.state.goals["g"], floor.state, CATALOGUE)]


def test_only_a_quarantined_result_can_be_confirmed() -> None:
    floor, id_ = raced()
    assert asked(floor, id_) == []
    assert asked(floor, UUID(int=7)) == ["$.confirm"]
    assert asked(floor, None) == ["$.confirm"]


@pytest.mark.parametrize("searched", [False, True])
def test_nothing_can_be_confirmed_before_the_race(searched: bool) -> None:
    floor = Floor().with_route().accept()
    if searched:
        floor.search()
    assert asked(floor, UUID(int=7)) == ["$.action"]
