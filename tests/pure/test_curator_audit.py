"""Decisions of the curator, taken again: all follow from an honest log, and an altered one is named."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from schemas.enums import Reason
from schemas.envelope import Recorded
from schemas.events import (
    BaselineDue,
    ChampionCrowned,
    CounterexampleKept,
    FinalsDue,
    GenerationClosed,
    GenerationDue,
    GoalCompleted,
    LessonRecorded,
    RaceDue,
)
from services.console.replaying.curator_audit import CURATED, CuratorAudit
from services.console.replaying.findings import Finding
from tests.pure.floor import Floor, counterexample

Log = Sequence[Recorded[Any]]


def findings(log: Log) -> list[Finding]:
    audit = CuratorAudit()
    return [found for recorded in log if (found := audit.follow(recorded)) is not None]


def altered(log: Log, index: int, **changes: Any) -> list[Recorded[Any]]:
    """`log` with other values in one fact."""
    told = log[index]
    fact = told.fact.model_copy(update=changes)
    return [*log[:index], replace(told, envelope=replace(told.envelope, fact=fact)), *log[index + 1 :]]


def without(log: Log, index: int) -> list[Recorded[Any]]:
    """`log` as if one fact had never been: the later ones move up."""
    return [replace(one, position=place) for place, one in enumerate([*log[:index], *log[index + 1 :]], 1)]


def first(log: Log, fact: type[Any]) -> int:
    return next(index for index, recorded in enumerate(log) if isinstance(recorded.fact, fact))


@pytest.fixture(scope="module")
def honest() -> tuple[Recorded[Any], ...]:
    """Two goals, one after the other, the second knowing counterexamples and a champion of the first."""
    floor = Floor(fate=lambda number: Reason.OUT_OF_BOUND if number % 4 == 3 else 1.0 + number / 100)
    floor.with_route().accept(budget={"candidates": 64, "wall": 100, "stagnation": 10}).play()
    floor.accept("second").play()
    return tuple(floor.log)


def test_every_decision_of_an_honest_log_follows_from_it(honest: Log) -> None:
    assert {type(recorded.fact) for recorded in honest} >= set(CURATED), "the story has every kind of decision"
    assert findings(honest) == []


@pytest.mark.parametrize(
    ("fact", "changes", "says"),
    [
        (BaselineDue, {"attempt": 1}, "$.attempt is 1, recomputed 0"),
        (GenerationDue, {"seed": 4}, "$.seed is 4"),
        (GenerationDue, {"size": 3}, "$.size is 3, recomputed 4"),
        (GenerationClosed, {"measured": 9}, "$.measured is 9, recomputed 3"),
        (FinalsDue, {"finalists": 5}, "$.finalists is 5, recomputed 2"),
        (RaceDue, {"incumbent": None, "contestants": ()}, "$.contestants is []"),
        (ChampionCrowned, {"search_ratio": 9.0}, "$.search_ratio is 9.0"),
        (GoalCompleted, {"champion_id": None}, "$.champion_id is None"),
        (LessonRecorded, {"generation": 9}, "$.generation is 9"),
        (CounterexampleKept, {"counterexample": counterexample(99)}, "$.counterexample.seed is 99"),
    ],
)
def test_an_altered_decision_is_named_with_the_place_where_it_differs(
    honest: Log, fact: type[Any], changes: dict[str, Any], says: str
) -> None:
    index = first(honest, fact)
    found = findings(altered(honest, index, **changes))
    assert (found[0].position, found[0].type) == (honest[index].position, fact.TYPE)
    assert says in found[0].message


def test_a_due_fact_that_claims_another_position_is_named(honest: Log) -> None:
    index = first(honest, FinalsDue)
    (found, *_) = findings(altered(honest, index, position=honest[index].fact.position - 3))
    assert found.position == honest[index].position
    assert "recomputed" in found.message


def test_a_due_fact_of_a_position_before_its_goal_is_named(honest: Log) -> None:
    (found, *_) = findings(altered(honest, first(honest, BaselineDue), position=1))
    assert "its goal was not open at position 1" in found.message


def test_a_decision_with_another_cause_is_named(honest: Log) -> None:
    index = first(honest, GenerationClosed)
    told = honest[index]
    forged = replace(told, envelope=replace(told.envelope, causation_id=honest[0].id))
    (found, *_) = findings([*honest[:index], forged, *honest[index + 1 :]])
    assert "is no fact after which its goal could be decided" in found.message


@pytest.mark.parametrize("fact", [CounterexampleKept, LessonRecorded])
def test_a_decision_of_which_a_part_was_left_out_is_named(honest: Log, fact: type[Any]) -> None:
    index = first(honest, fact)
    positions = {one.position: shift(honest, index, one) for one in honest}
    cut = [shifted(one, positions) for one in without(honest, index)]
    assert any("was decided before it and is not recorded" in found.message for found in findings(cut))


def shift(log: Log, index: int, one: Recorded[Any]) -> int:
    return one.position - (one.position > log[index].position)


def shifted(one: Recorded[Any], positions: dict[int, int]) -> Recorded[Any]:
    """A due fact says the position that its history has now."""
    at = getattr(one.fact, "position", None)
    if at is None:
        return one
    fact = one.fact.model_copy(update={"position": positions.get(at, at)})
    return replace(one, envelope=replace(one.envelope, fact=fact))


def test_a_decision_that_is_recorded_late_still_follows(honest: Log) -> None:
    """Facts of the other goal may come between a decision and its record."""
    floor = Floor().with_route().accept("a").accept("b")
    floor.play()
    assert findings(floor.log) == []


def test_cancelled_paused_and_timed_out_goals_follow_too() -> None:
    floor = Floor().with_route().accept("a")
    floor.choose_baseline()
    first_one, *_ = floor.propose()
    floor.climb(first_one)
    floor.wait(101)
    assert findings(floor.log) == []
