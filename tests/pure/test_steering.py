"""Steers that say more than a word: what the desk refuses, and what a goal makes of the rest."""

import json
from typing import Any
from uuid import uuid4

import pytest

from kernel_lab.workloads import WORKLOADS
from schemas.enums import SteerAction
from schemas.envelope import Draft, Envelope, encode
from schemas.events import CandidateMeasured, Fact, FinalsDue, GenerationDue, GoalSteered, SteerRefused
from schemas.goal import Search, SpaceLimits
from schemas.requests import Problem
from schemas.steering import Ban, Extension, Hint, narrowed, without_banned
from services.librarian import curator, desk
from services.librarian.catalogue import compose_catalogue
from services.librarian.goal_checks import Catalogue
from tests.pure.floor import START, Floor

TUNABLES = {"unroll": (1, 2, 4), "streaming": (True, False), "variant": ("plain", "blocked")}
CATALOGUE = Catalogue(WORKLOADS, frozenset(Search().strategies), {("rms_norm", "c"): TUNABLES})


def searching(**changes: Any) -> Floor:
    """A goal with one closed generation of four, and another due."""
    floor = Floor().with_route().accept(**changes)
    floor.choose_baseline()
    floor.generation()
    return floor


def ask(floor: Floor, body: dict[str, Any], seq: int = 1) -> Draft[Fact] | None:
    raw = json.dumps({"reason": "because"} | body).encode()
    answer = desk.answer(desk.Request("assay.intake.goal.steered.g", raw, seq), floor.state, CATALOGUE)
    if answer is not None:
        encode(Envelope(answer.id, answer.fact, "assay/test/1", START))
    return answer


def steered(floor: Floor, body: dict[str, Any], seq: int = 1) -> GoalSteered:
    answer = ask(floor, body, seq)
    assert answer is not None
    assert isinstance(answer.fact, GoalSteered), answer.fact
    floor.record(answer)
    return answer.fact


def refused(floor: Floor, body: dict[str, Any]) -> dict[str, Problem]:
    answer = ask(floor, body, seq=9)
    assert answer is not None
    assert isinstance(answer.fact, SteerRefused), answer.fact
    return {problem.path: problem for problem in answer.fact.problems}


def pin(floor: Floor, number: int = 0) -> dict[str, Any]:
    return {"action": "pin", "pin": str(floor.facts(CandidateMeasured)[number].candidate_id)}


EXTEND: dict[str, Any] = {"action": "extend", "extend": {"candidates": 4}}
HINT: dict[str, Any] = {"action": "hint", "hint": {"text": "wide stores", "include": {"unroll": [2, 4]}}}
BANNED: dict[str, Any] = {"tunable": "streaming", "value": True}
BAN: dict[str, Any] = {"action": "ban", "ban": BANNED}

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "no detail": ({"action": "extend"}, "$.extend", "required"),
    "another action's detail": ({"action": "pause", "ban": BANNED}, "$.ban", "belongs to action ban"),
    "an empty extension": ({"action": "extend", "extend": {}}, "$.extend", "adds nothing"),
    "a negative extension": ({"action": "extend", "extend": {"candidates": -5}}, "$.extend.candidates", "0"),
    "more than a goal may have": (
        {"action": "extend", "extend": {"candidates": 100_000}},
        "$.extend.candidates",
        "in all",
    ),
    "longer than a goal may run": ({"action": "extend", "extend": {"wall": "30d"}}, "$.extend.wall", "in all"),
    "no duration": ({"action": "extend", "extend": {"wall": "soon"}}, "$.extend.wall", "10m"),
    "an empty hint": ({"action": "hint", "hint": {"text": " "}}, "$.hint", "says nothing"),
    "an unknown tunable": ({"action": "hint", "hint": {"include": {"unrol": [1]}}}, "$.hint.include.unrol", "unroll"),
    "an unknown value": ({"action": "hint", "hint": {"include": {"unroll": [3]}}}, "$.hint.include.unroll[0]", "1, 2"),
    "a stranger pinned": ({"action": "pin", "pin": str(uuid4())}, "$.pin", "no candidate"),
    "no id": ({"action": "pin", "pin": "best"}, "$.pin", ""),
    "half a ban": ({"action": "ban", "ban": {"tunable": "unroll"}}, "$.ban", "one thing"),
    "two bans": ({"action": "ban", "ban": {**BANNED, "fingerprint": "0" * 64}}, "$.ban", "one thing"),
    "no fingerprint": ({"action": "ban", "ban": {"fingerprint": "abc"}}, "$.ban.fingerprint", ""),
    "a ban of nothing": ({"action": "ban", "ban": {"tunable": "unrol", "value": 1}}, "$.ban.tunable", "unroll"),
    "a ban of no value": ({"action": "ban", "ban": {"tunable": "unroll", "value": 8}}, "$.ban.value", "1, 2"),
    "no reason": ({**BAN, "reason": ""}, "$.reason", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_steer_is_refused_with_its_path(name: str) -> None:
    body, path, words = BAD[name]
    found = refused(searching(), body)
    assert path in found, found
    assert words in found[path].message + found[path].hint


@pytest.mark.parametrize("body", [EXTEND, HINT, BAN, {"action": "pin", "pin": str(uuid4())}])
def test_nothing_about_the_search_is_steered_once_it_is_over(body: dict[str, Any]) -> None:
    floor = Floor().with_route().accept().search()
    assert "search is over" in refused(floor, body)["$.action"].message
    floor.play_finals()
    assert "has ended" in refused(floor, body)["subject"].message


@pytest.mark.parametrize("body", [EXTEND, HINT, BAN])
def test_a_stopping_goal_takes_no_advice(body: dict[str, Any]) -> None:
    floor = searching()
    floor.steer(SteerAction.STOP)
    assert "stopping" in refused(floor, body)["$.action"].message


def test_once_finals_are_decided_an_extension_is_refused() -> None:
    floor = searching(budget={"candidates": 4, "wall": 100, "stagnation": 10})
    finals = floor.last(FinalsDue)
    state = curator.CuratorState()
    for recorded in floor.log[: finals.position - 1]:
        state = curator.evolve(state, recorded)
    floor.state = curator.awaiting(state, curator.decide(state, state.position))
    assert "search is over" in refused(floor, EXTEND)["$.action"].message


# ---- extend --------------------------------------------------------------------------------------------------------


def test_an_extended_budget_is_spent() -> None:
    floor = searching()
    steered(floor, EXTEND)
    while floor.unanswered(GenerationDue):
        floor.generation()
    assert [fact.size for fact in floor.facts(GenerationDue)] == [4, 4, 4]


def test_an_extended_wall_moves_the_deadline_and_extended_patience_waits_longer() -> None:
    floor = searching(budget={"candidates": 100, "wall": 100, "stagnation": 1})
    before = floor.state.goals["g"].deadline
    steered(floor, {"action": "extend", "extend": {"wall": "1m", "stagnation": 1}})
    after = floor.state.goals["g"].deadline
    assert before is not None
    assert after is not None
    assert (after[1] - before[1]).total_seconds() == 60
    assert floor.state.goals["g"].goal.budget.stagnation == 2


def test_an_extension_handed_out_again_extends_once() -> None:
    floor = searching()
    steered(floor, EXTEND)
    assert ask(floor, EXTEND) is None
    steered(floor, EXTEND, seq=2)
    assert floor.state.goals["g"].goal.budget.candidates == 16


# ---- pin and ban ---------------------------------------------------------------------------------------------------


def test_a_measured_candidate_is_pinned_once() -> None:
    floor = searching()
    steered(floor, pin(floor))
    assert "pinned already" in refused(floor, pin(floor))["$.pin"].message
    assert floor.state.goals["g"].pins == (floor.facts(CandidateMeasured)[0].candidate_id,)


def test_no_more_are_pinned_than_there_are_finalists() -> None:
    floor = searching()
    steered(floor, pin(floor, 0), seq=1)
    steered(floor, pin(floor, 1), seq=2)
    assert "2 finalists" in refused(floor, pin(floor, 2))["$.pin"].message


def test_a_candidate_without_a_ratio_cannot_be_pinned() -> None:
    floor = searching()
    running = floor.propose()[0]
    assert "measured" in refused(floor, {"action": "pin", "pin": str(running.id)})["$.pin"].message


def test_a_pin_and_a_ban_of_one_kernel_contradict_each_other() -> None:
    floor = searching()
    measured = floor.facts(CandidateMeasured)[0].candidate_id
    fingerprint = floor.state.goals["g"].fingerprint_of(measured)
    banned = {"action": "ban", "ban": {"fingerprint": fingerprint}}
    steered(floor, pin(floor, 1))
    steered(floor, banned)
    assert "banned" in refused(floor, pin(floor, 0))["$.pin"].message
    other = floor.state.goals["g"].fingerprint_of(floor.facts(CandidateMeasured)[1].candidate_id)
    found = refused(floor, {"action": "ban", "ban": {"fingerprint": other}})
    assert "pinned" in found["$.ban.fingerprint"].message


def test_a_ban_is_recorded_once_and_leaves_something_to_propose() -> None:
    floor = searching()
    steered(floor, BAN)
    assert "banned already" in refused(floor, BAN)["$.ban"].message
    last = {"action": "ban", "ban": {"tunable": "streaming", "value": False}}
    assert "no value of streaming" in refused(floor, last)["$.ban"].message


def test_what_a_goal_excludes_counts_when_a_ban_would_leave_nothing() -> None:
    floor = searching(
        search={"generation_size": 4, "space": {"include": {"unroll": [2, 4]}, "exclude": {"unroll": [4]}}}
    )
    found = refused(floor, {"action": "ban", "ban": {"tunable": "unroll", "value": 2}})
    assert "no value of unroll" in found["$.ban"].message


# ---- limits --------------------------------------------------------------------------------------------------------


def test_a_ban_is_an_exclusion_and_a_hint_narrows_what_is_allowed() -> None:
    space = SpaceLimits(include={"unroll": (2, 4)}, exclude={"streaming": (True,)})
    banned = without_banned(space, (Ban(tunable="unroll", value=4), Ban(fingerprint="0" * 64)))
    assert banned == SpaceLimits(include={"unroll": (2, 4)}, exclude={"streaming": (True,), "unroll": (4,)})
    assert narrowed(space, {"unroll": (1, 4), "threads": (2,)}).include == {"unroll": (4,), "threads": (2,)}
    assert narrowed(SpaceLimits(include={"s": (True,)}), {"s": (1,)}).include == {"s": ()}, "true is not one"


def test_a_ban_covers_the_genomes_that_hold_its_value_and_tells_true_from_one() -> None:
    ban = Ban(tunable="s", value=True)
    assert ban.covers({"s": True})
    assert not ban.covers({"s": 1})
    assert not ban.covers({})
    assert str(ban) == "s=true"


def test_the_models_say_what_the_desk_says() -> None:
    assert Extension.model_validate_json('{"wall": "1h30m"}').wall == 5400
    assert Hint.model_validate_json('{"include": {"a": [1, true, "x"]}}').include == {"a": (1, True, "x")}


# ---- the catalogue -------------------------------------------------------------------------------------------------


def test_the_desk_knows_the_operators_spaces_and_the_strategies_that_are_offered() -> None:
    catalogue = compose_catalogue(("tests.fixtures.own_spaces",), ("polish",))
    assert catalogue.strategies == {"polish"}
    plain = compose_catalogue((), ("polish",))
    mine = {key for key in catalogue.tunables if catalogue.tunables[key] != plain.tunables.get(key)}
    assert mine, "the fixture's variants are known to the desk"
    assert set(plain.tunables) <= set(catalogue.tunables)
