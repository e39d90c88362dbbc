"""The desk: every kind of bad request gets every reason with its path, and nothing outside can crash or forge."""

import base64
import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lab.workloads import WORKLOADS
from schemas.enums import SteerAction
from schemas.envelope import Draft, Envelope, due, encode
from schemas.events import (
    CounterexampleKept,
    CounterexampleWithdrawn,
    Fact,
    GoalAccepted,
    GoalRefused,
    GoalSteered,
    SteerRefused,
    WithdrawalRefused,
)
from schemas.goal import Search
from schemas.ids import due_id
from schemas.requests import MAX_REQUEST_BYTES, Problem
from services.librarian import desk
from services.librarian.curator import CuratorState
from services.librarian.goal_checks import Catalogue, check_goal
from services.librarian.request_text import nests_deeper_than, raw_request
from tests.pure.floor import START, Floor, counterexample, goal

SUBMIT = "assay.intake.goal.submitted"
STEER = "assay.intake.goal.steered"
CATALOGUE = Catalogue(
    WORKLOADS, frozenset(Search().strategies), {("rms_norm", "c"): {"unroll": (1, 2, 4), "streaming": (True, False)}}
)
GOOD: dict[str, Any] = {"workload": "rms_norm", "target": "cpu", "shapes": [{"T": 4, "H": 64}]}


def ask(
    body: bytes | str | dict[str, Any],
    subject: str = f"{SUBMIT}.g",
    state: CuratorState | None = None,
    seq: int = 1,
    has_room: bool = True,
) -> Draft[Fact] | None:
    raw = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
    answer = desk.answer(desk.Request(subject, raw, seq), state or CuratorState(), CATALOGUE, has_room)
    if answer is not None:
        encode(Envelope(answer.id, answer.fact, "assay/test/1", START))  # it fits a fact
    return answer


def problems(body: bytes | str | dict[str, Any], subject: str = f"{SUBMIT}.g") -> dict[str, Problem]:
    answer = ask(body, subject)
    assert answer is not None
    assert isinstance(answer.fact, GoalRefused | SteerRefused), answer.fact
    assert answer.fact.problems
    return {problem.path: problem for problem in answer.fact.problems}


# ---- goals ---------------------------------------------------------------------------------------------------------


def test_a_good_goal_is_accepted_with_the_raw_request_inside() -> None:
    answer = ask(GOOD)
    assert answer is not None
    assert isinstance(answer.fact, GoalAccepted)
    assert answer.id == due_id("g", "accept")
    assert json.loads(answer.fact.request.body) == GOOD
    assert answer.fact.goal.shapes != "serving"


def test_a_named_shape_set_stays_named() -> None:
    answer = ask({"workload": "softmax", "target": "cpu"})
    assert answer is not None
    assert isinstance(answer.fact, GoalAccepted)
    assert answer.fact.goal.shapes == "serving"


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
@pytest.mark.parametrize("shapes", ["small", "serving"])
@pytest.mark.parametrize("target", ["cpu", "null"])
def test_every_workload_is_accepted_with_its_own_shapes(workload: str, shapes: str, target: str) -> None:
    answer = ask({"workload": workload, "target": target, "shapes": shapes})
    assert answer is not None
    assert isinstance(answer.fact, GoalAccepted)


def test_the_same_goal_again_is_known_however_it_is_written() -> None:
    floor = Floor()
    accepted = ask(GOOD)
    assert accepted is not None
    floor.record(accepted)
    respelt = json.dumps({**GOOD, "shapes": [{"weight": 1.0, "H": 64, "T": 4}], "dtype": "f32"}, indent=3)
    assert ask(respelt, state=floor.state) is None


def test_other_content_under_a_taken_id_is_refused_and_shadows_nothing() -> None:
    floor = Floor()
    accepted = ask(GOOD)
    assert accepted is not None
    floor.record(accepted)
    before = floor.state.goals["g"]
    refused = ask({**GOOD, "name": "other"}, state=floor.state)
    assert refused is not None
    assert isinstance(refused.fact, GoalRefused)
    assert "taken" in refused.fact.problems[0].message
    assert refused.fact.about_goal is None
    assert refused.id != accepted.id
    floor.record(refused)
    assert floor.state.goals["g"] is before


def test_a_request_handed_out_twice_has_one_answer_and_sent_twice_has_two() -> None:
    first, again, sent_again = (ask("{", seq=seq) for seq in (1, 1, 2))
    assert first is not None
    assert again is not None
    assert sent_again is not None
    assert first.id == again.id != sent_again.id


def test_no_goal_is_taken_into_a_full_stream() -> None:
    refused = ask(GOOD, has_room=False)
    assert refused is not None
    assert isinstance(refused.fact, GoalRefused)
    assert "80 % full" in refused.fact.problems[0].message


NINES = "9" * 100_000
BAD_TEXT: dict[str, tuple[bytes | str, str, str]] = {
    "empty": (b"", "$", "empty"),
    "not json": ("{workload: rms_norm}", "$", "not JSON"),
    "cut off": ('{"workload": "rms_norm"', "$", "line 1"),
    "two values": ("{} {}", "$", "Extra data"),
    "a list": ("[1]", "$", "not a JSON object"),
    "a string": ('"x"', "$", "not a JSON object"),
    "null": ("null", "$", "not a JSON object"),
    "20000 brackets": ("[" * 20_000, "$", "brackets"),
    "20000 braces": ('{"a":' * 20_000, "$", "brackets"),
    "deep in a field": ('{"name":' + "[" * 20_000 + "]" * 20_000 + "}", "$", "brackets"),
    "escaped quotes": ('"' + '\\"' * 200_000, "$", "JSON"),
    "not utf-8": (b'{"name": "\xff\xfe"}', "$", "UTF-8"),
    "raw nul": (b'{"name": "a\x00b"}', "$", "not JSON"),
    "huge integer": (
        '{"workload":"rms_norm","target":"cpu","search":{"seed":' + "9" * 100_000 + "}}",
        "$.search.seed",
        "",
    ),
    "nan": ('{"workload":"rms_norm","target":"cpu","objective":{"min_gain":NaN}}', "$.objective.min_gain", ""),
    "infinity": ('{"workload":"rms_norm","target":"cpu","budget":{"wall":-Infinity}}', "$.budget.wall", ""),
    "past a double": ('{"workload":"rms_norm","target":"cpu","budget":{"wall":1e400000}}', "$.budget.wall", ""),
    "nul escape": ('{"workload":"rms_norm","target":"cpu","name":"x\\u0000"}', "$.name", "u0000"),
    "lone surrogate": ('{"workload":"rms_norm","target":"cpu","name":"\\ud800"}', "$.name", "surrogate"),
    "nul in a key": ('{"workload":"rms_norm","target":"cpu","a\\u0000":1}', "$.a\\u0000", "u0000"),
    "key twice": ('{"workload":"rms_norm","workload":"softmax","target":"cpu"}', "$", "twice"),
}


@pytest.mark.parametrize("name", BAD_TEXT)
def test_bad_text_is_refused_with_its_path(name: str) -> None:
    body, path, words = BAD_TEXT[name]
    found = problems(body)
    assert path in found, found
    assert words in found[path].message


def test_a_request_of_two_megabytes_is_refused() -> None:
    assert str(MAX_REQUEST_BYTES) in problems(b'{"name": "' + b"x" * 2_000_000 + b'"}')["$"].message


def in_space(side: str, name: str, value: int | bool) -> dict[str, Any]:
    return {**GOOD, "search": {"space": {side: {name: [value]}}}}


BAD_GOALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no workload": ({"target": "cpu"}, "$.workload", "required"),
    "no target": ({"workload": "softmax"}, "$.target", "required"),
    "unknown workload": ({**GOOD, "workload": "rms_nrm"}, "$.workload", "rms_norm"),
    "workload is a path": ({**GOOD, "workload": "../x"}, "$.workload", ""),
    "unknown target": ({**GOOD, "target": "tpu"}, "$.target", "cpu"),
    "unknown language": ({**GOOD, "languages": ["rust"]}, "$.languages[0]", "'c'"),
    "language of another target": ({**GOOD, "languages": ["null"]}, "$.languages[0]", "runs: c"),
    "language twice": ({**GOOD, "languages": ["c", "c"]}, "$.languages[1]", "twice"),
    "unknown field": ({**GOOD, "bugdet": {}}, "$.bugdet", "budget"),
    "field in the wrong place": ({**GOOD, "candidates": 5}, "$.candidates", "belongs in budget"),
    "unknown inner field": ({**GOOD, "budget": {"candidate": 5}}, "$.budget.candidate", "candidates"),
    "wrong type": ({**GOOD, "budget": {"candidates": "many"}}, "$.budget.candidates", "integer"),
    "section is a number": ({**GOOD, "budget": 7}, "$.budget", "object"),
    "no candidates": ({**GOOD, "budget": {"candidates": 0}}, "$.budget.candidates", "1"),
    "too many candidates": ({**GOOD, "budget": {"candidates": 10**9}}, "$.budget.candidates", "100000"),
    "no duration": ({**GOOD, "budget": {"wall": "soon"}}, "$.budget.wall", "10m"),
    "a century": ({**GOOD, "budget": {"wall": "36500d"}}, "$.budget.wall", ""),
    "too large a generation": ({**GOOD, "search": {"generation_size": 513}}, "$.search.generation_size", "512"),
    "negative gain": ({**GOOD, "objective": {"min_gain": -1}}, "$.objective.min_gain", ""),
    "looser than the bound": ({**GOOD, "tolerance": {"scale": 2}}, "$.tolerance", "allow_looser"),
    "unknown strategy": ({**GOOD, "search": {"strategies": ["genetics"]}}, "$.search.strategies[0]", "genetic"),
    "no strategy": ({**GOOD, "search": {"strategies": []}}, "$.search.strategies", ""),
    "unknown tunable": (in_space("include", "unrol", 1), "$.search.space.include.unrol", "unroll"),
    "unknown value": (in_space("exclude", "unroll", 3), "$.search.space.exclude.unroll[0]", "4"),
    "true is not one": (in_space("exclude", "unroll", True), "$.search.space.exclude.unroll[0]", ""),
    "gap past the wall": ({**GOOD, "finals": {"hold_out_gap": 60, "wall": 30}}, "$.finals.hold_out_gap", "wall"),
    "unknown shape set": ({**GOOD, "shapes": "tiny"}, "$.shapes", "small"),
    "no shapes": ({**GOOD, "shapes": []}, "$.shapes", "0 shapes"),
    "shape is a number": ({**GOOD, "shapes": [3]}, "$.shapes[0]", "object"),
    "unknown axis": ({**GOOD, "shapes": [{"T": 4, "H": 64, "Q": 2}]}, "$.shapes[0].Q", "axis"),
    "small letters": ({**GOOD, "shapes": [{"T": 4, "h": 64}]}, "$.shapes[0].h", ""),
    "missing axis": ({**GOOD, "shapes": [{"T": 4}]}, "$.shapes[0]", "H"),
    "negative axis": ({**GOOD, "shapes": [{"T": -4, "H": 64}]}, "$.shapes[0].T", ""),
    "no rows": ({**GOOD, "shapes": [{"T": 0, "H": 64}]}, "$.shapes[0].T", "too small"),
    "shape twice": ({**GOOD, "shapes": [{"T": 4, "H": 64}, {"H": 64, "T": 4}]}, "$.shapes[1]", "shapes[0]"),
    "zero weight": ({**GOOD, "shapes": [{"T": 4, "H": 64, "weight": 0}]}, "$.shapes[0].weight", ""),
    "past all memory": ({**GOOD, "shapes": [{"T": 2**40, "H": 2**40}]}, "$.shapes", "machine"),
    "past the working set": ({**GOOD, "shapes": [{"T": 2**18, "H": 2**10}]}, "$.shapes", "at most"),
    "65 shapes": ({**GOOD, "shapes": [{"T": t, "H": 8} for t in range(1, 66)]}, "$.shapes", "65"),
    "a large goal": ({**GOOD, "constraints": {"forbid": ["-" * 70_000]}}, "$", "bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_GOALS)
def test_a_bad_goal_is_refused_with_its_path_and_a_way_out(name: str) -> None:
    body, path, words = BAD_GOALS[name]
    found = problems(body)
    assert list(found) == [path]
    assert words in f"{found[path].message} {found[path].hint}"


def test_every_problem_is_named_in_one_answer() -> None:
    found = problems(
        {
            "workload": "rms_norm",
            "target": "cpu",
            "nmae": "x",
            "shapes": [{"T": 0, "H": 64}],
            "budget": {"candidates": -1},
            "search": {"strategies": ["telepathy"]},
        }
    )
    assert set(found) == {"$.nmae", "$.budget.candidates", "$.shapes[0].T", "$.search.strategies[0]"}


def test_too_many_problems_are_counted() -> None:
    answer = ask({**GOOD, **{f"unknown_{n}": n for n in range(20_000)}})
    assert answer is not None
    assert isinstance(answer.fact, GoalRefused)
    assert len(answer.fact.problems) == desk.MAX_PROBLEMS + 1
    assert "19936 more" in answer.fact.problems[-1].message


def test_memory_of_an_observed_machine_counts() -> None:
    large = goal(shapes=[{"T": 2**10, "H": 2**10}])
    assert not check_goal(large, CATALOGUE, None)
    assert "the machine has" in check_goal(large, CATALOGUE, 2**20)[0].message


@pytest.mark.parametrize(
    "subject",
    [
        SUBMIT,
        f"{SUBMIT}.",
        f"{SUBMIT}.a.b",
        f"{SUBMIT}.a b",
        f"{SUBMIT}.{'x' * 65}",
        f"{SUBMIT}.*",
        f"{SUBMIT}.g\n",
        "assay.intake.goal.deleted.g",
        "assay.intake",
    ],
)
def test_a_malformed_subject_is_refused(subject: str) -> None:
    found = problems(GOOD, subject)
    assert list(found) == ["subject"]


# ---- counterexamples -----------------------------------------------------------------------------------------------


WITHDRAW = "assay.intake.counterexample.withdrawn"


def kept_one() -> tuple[Floor, UUID]:
    floor = Floor()
    recorded = floor.record(due("old", "kept", CounterexampleKept(goal_id="old", counterexample=counterexample(7))))
    assert recorded is not None
    return floor, recorded.id


def test_a_kept_counterexample_is_withdrawn_with_its_reason() -> None:
    floor, kept_id = kept_one()
    answer = ask({"reason": "the bound was too tight"}, f"{WITHDRAW}.{kept_id}", floor.state)
    assert answer is not None
    assert isinstance(answer.fact, CounterexampleWithdrawn)
    assert answer.fact.kept_id == kept_id
    assert answer.fact.counterexample.seed == 7
    assert answer.fact.reason == "the bound was too tight"


@pytest.mark.parametrize(
    ("body", "name", "path", "words"),
    [
        ({}, None, "$.reason", "required"),
        ({"reason": ""}, None, "$.reason", "1 character"),
        ({"reason": "r", "colour": 1}, None, "$.colour", "field"),
        ({"reason": "r"}, "00000000-0000-4000-8000-000000000001", "subject", "no counterexample was kept"),
        ({"reason": "r"}, "nothing", "subject", "names no counterexample"),
        (b"{", None, "$", "JSON"),
    ],
)
def test_a_withdrawal_needs_a_reason_and_a_counterexample_that_was_kept(
    body: bytes | dict[str, Any], name: str | None, path: str, words: str
) -> None:
    floor, kept_id = kept_one()
    answer = ask(body, f"{WITHDRAW}.{name or kept_id}", floor.state)
    assert answer is not None
    assert isinstance(answer.fact, WithdrawalRefused)
    assert [(p.path, words in p.message) for p in answer.fact.problems] == [(path, True)], answer.fact.problems


def test_a_counterexample_is_withdrawn_once() -> None:
    floor, kept_id = kept_one()
    floor.withdraw(kept_id)
    answer = ask({"reason": "again"}, f"{WITHDRAW}.{kept_id}", floor.state)
    assert answer is not None
    assert isinstance(answer.fact, WithdrawalRefused)
    assert "withdrawn before" in answer.fact.problems[0].message


# ---- steering ------------------------------------------------------------------------------------------------------


def steer(floor: Floor, action: str, seq: int = 1, goal_id: str = "g", **detail: Any) -> Draft[Fact]:
    answer = ask({"action": action, "reason": "r"} | detail, f"{STEER}.{goal_id}", floor.state, seq)
    assert answer is not None
    return answer


@pytest.mark.parametrize("action", ["pause", "resume", "stop", "cancel"])
def test_a_running_goal_is_steered(action: str) -> None:
    floor = Floor().accept()
    if action == "resume":
        floor.steer(SteerAction.PAUSE)
    answer = steer(floor, action)
    assert isinstance(answer.fact, GoalSteered)
    assert answer.fact.action == action


@pytest.mark.parametrize(
    ("before", "action", "words"),
    [
        ([SteerAction.PAUSE], "pause", "already"),
        ([], "resume", "not paused"),
        ([SteerAction.CANCEL], "stop", "ended"),
    ],
)
def test_a_steer_that_changes_nothing_is_refused(before: list[SteerAction], action: str, words: str) -> None:
    floor = Floor().accept()
    for one in before:
        floor.steer(one)
    answer = steer(floor, action)
    assert isinstance(answer.fact, SteerRefused)
    assert words in answer.fact.problems[0].message


def test_stop_is_refused_once_the_finals_run() -> None:
    floor = Floor().with_route().accept().search()
    answer = steer(floor, "stop")
    assert isinstance(answer.fact, SteerRefused)
    assert "cancel" in answer.fact.problems[0].message


def test_an_unknown_goal_cannot_be_steered() -> None:
    answer = steer(Floor(), "pause", goal_id="nobody")
    assert isinstance(answer.fact, SteerRefused)
    assert "no goal nobody" in answer.fact.problems[0].message


def test_a_bad_steer_names_every_problem() -> None:
    answer = ask({"action": "explode", "colour": 1}, f"{STEER}.x")
    assert answer is not None
    assert isinstance(answer.fact, SteerRefused)
    assert {p.path for p in answer.fact.problems} == {"$.action", "$.reason", "$.colour", "subject"}


def test_pausing_again_after_a_resume_is_another_fact() -> None:
    floor = Floor().accept()
    first = steer(floor, "pause", seq=1)
    floor.record(first)
    floor.steer(SteerAction.RESUME)
    assert steer(floor, "pause", seq=3).id != first.id


def test_a_steer_that_was_stated_and_is_handed_out_again_is_not_contradicted() -> None:
    """The librarian died between stating the pause and acknowledging the request."""
    floor = Floor().accept()
    stated = steer(floor, "pause", seq=1)
    floor.record(stated)
    assert ask({"action": "pause", "reason": "r"}, f"{STEER}.g", floor.state, seq=1) is None


# ---- the raw request -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"name": "\x00"}'])
def test_what_is_not_storable_text_is_kept_as_base64(body: bytes) -> None:
    kept = raw_request("s", body)
    assert kept.encoding == "base64"
    assert base64.b64decode(kept.body) == body


def test_a_long_request_is_kept_cut_and_says_so() -> None:
    text = raw_request("s", "é".encode() * 50_000 + b"x")
    assert text.encoding == "utf-8-cut"
    assert text.size == 100_001
    assert raw_request("s", b"\xff" * 100_000).encoding == "base64-cut"


def test_nesting_is_counted_outside_strings_only() -> None:
    assert not nests_deeper_than(3, b'{"a": "[[[[[[[[", "b": "\\"[[[[["}')
    assert nests_deeper_than(3, b"[[[[")
    assert not nests_deeper_than(3, b"[[[]]][[[]]]")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_crash_the_desk(body: bytes) -> None:
    answer = ask(body)
    assert answer is not None
    assert isinstance(answer.fact, GoalRefused)


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from([*GOOD, "budget", "search", "finals", "objective", "languages"]), _json_values))
def test_no_json_crashes_the_desk(body: dict[str, Any]) -> None:
    answer = ask(body)
    assert answer is not None
    assert isinstance(answer.fact, GoalRefused | GoalAccepted)
