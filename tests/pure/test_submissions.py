"""Kernels from outside: what the desk says to each, and how a goal counts the ones it admits."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lab.workloads import WORKLOADS
from schemas.enums import AbandonReason, Reason, SteerAction
from schemas.envelope import MAX_FACT_BYTES, Draft, Envelope, Recorded, due, encode
from schemas.events import (
    CandidateProposed,
    CandidateRefused,
    CounterexampleKept,
    Fact,
    FinalsDue,
    GenerationAbandoned,
    GenerationClosed,
    GenerationDue,
    GenerationOpened,
    GoalTimedOut,
)
from schemas.goal import Search
from schemas.requests import Problem
from schemas.steering import Ban, Extension
from schemas.work import MAX_SOURCE_BYTES
from services.console.replaying.curator_audit import CuratorAudit
from services.evidence.candidate_rows import dropped
from services.evidence.goal_parts import GoalPhase
from services.librarian import curator, desk
from services.librarian.goal_checks import Catalogue
from services.librarian.submissions import OPEN_AT_ONCE
from tests.pure.floor import MACHINE, START, Floor, counterexample

SUBJECT = "assay.intake.candidate.submitted.g"
CATALOGUE = Catalogue(WORKLOADS, frozenset(Search().strategies), {})
SOURCE = "/* kernel 1000 */ void rms_norm(void) { }"


def searching(**changes: Any) -> Floor:
    """A goal whose first generation is due."""
    floor = Floor().with_route().accept(**changes)
    floor.choose_baseline()
    return floor


def ask(floor: Floor, body: dict[str, Any] | bytes, subject: str = SUBJECT, seq: int = 1) -> Draft[Fact] | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = desk.answer(desk.Request(subject, raw, seq), floor.state, CATALOGUE, floor.has_room)
    if answer is not None:
        encode(Envelope(answer.id, answer.fact, "assay/test/1", START))  # it fits a fact
    return answer


def admitted(floor: Floor, number: int = 1000, seq: int = 1, **said: Any) -> Recorded[CandidateProposed]:
    """A kernel that the desk took, recorded."""
    answer = ask(
        floor, {"source": f"/* kernel {number} */ void rms_norm(void) {{ int n = {number}; }}"} | said, seq=seq
    )
    assert answer is not None
    assert isinstance(answer.fact, CandidateProposed), answer.fact
    recorded = floor.record(answer)
    assert recorded is not None
    return recorded


def refused(floor: Floor, body: dict[str, Any] | bytes, subject: str = SUBJECT) -> dict[str, Problem]:
    answer = ask(floor, body, subject)
    assert answer is not None
    assert isinstance(answer.fact, CandidateRefused), answer.fact
    assert answer.fact.about_goal is None
    return {problem.path: problem for problem in answer.fact.problems}


# ---- what the desk says --------------------------------------------------------------------------------------------


def test_a_kernel_is_admitted_with_author_note_request_and_the_goals_task() -> None:
    floor = searching()
    fact = admitted(floor, author="ada", note="two rows at once").fact
    assert (fact.author, fact.note, fact.strategy) == ("unsigned/ada", "two rows at once", "submitted")
    assert fact.task == floor.last(GenerationDue).fact.task
    assert fact.request is not None
    assert json.loads(fact.request.body)["author"] == "ada"
    assert fact.generation == 1


def test_launch_data_of_the_first_line_are_the_kernels() -> None:
    floor = searching()
    source = '// assay: {"flags": ["-funroll-loops"], "threads": 2}\nvoid rms_norm(void) { }'
    answer = ask(floor, {"source": source})
    assert answer is not None
    assert isinstance(answer.fact, CandidateProposed)
    assert (answer.fact.kernel.flags, answer.fact.kernel.threads) == (("-funroll-loops",), 2)


def test_nobody_can_pass_for_one_of_assays_proposers() -> None:
    assert admitted(searching(), author="assay/proposer/genetic").fact.author == "unsigned/assay/proposer/genetic"


BAD: dict[str, tuple[dict[str, Any] | bytes, str, str]] = {
    "empty request": (b"", "$", "empty"),
    "binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "$", "UTF-8"),
    "no source": ({}, "$.source", "required"),
    "empty source": ({"source": " \n"}, "$.source", "empty"),
    "nul": ({"source": "void rms_norm(void) { }\0"}, "$.source", "u0000"),
    "half a surrogate": (b'{"source": "\\ud800"}', "$.source", "surrogate"),
    "too large": ({"source": "x" * (MAX_SOURCE_BYTES + 1)}, "$.source", str(MAX_SOURCE_BYTES)),
    "too large a request": ({"source": "x" * 600_000}, "$", "bytes"),
    "too large as json": ({"source": "\x01" * 80_000}, "$.source", "as JSON"),
    "unknown language": ({"source": SOURCE, "language": "rust"}, "$.language", "'c'"),
    "another target's language": ({"source": SOURCE, "language": "null"}, "$.language", "not in null"),
    "another workload": ({"source": SOURCE, "workload": "softmax"}, "$.workload", "rms_norm"),
    "another workload's entry": ({"source": "void softmax(void) { } // rms_norm"}, "$.source", "defines softmax"),
    "a forbidden flag": (
        {"source": '// assay: {"flags": ["-O2"]}\nvoid rms_norm(void) { }'},
        "$.source",
        "-O2, which this goal forbids",
    ),
    "a flag that no kernel may ask for": (
        {"source": '// assay: {"flags": ["-fplugin=x"]}\nvoid rms_norm(void) { }'},
        "$.source",
        "not allowed",
    ),
    "too many threads": (
        {"source": '// assay: {"threads": 64}\nvoid rms_norm(void) { }'},
        "$.source",
        "64 threads; this goal allows 2",
    ),
    "unknown field": ({"source": SOURCE, "autor": "ada"}, "$.autor", "author"),
    "author with a line break": ({"source": SOURCE, "author": "a\nb"}, "$.author", ""),
    "a novel": ({"source": SOURCE, "note": "x" * 2001}, "$.note", "2000"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_kernel_is_refused_with_its_path(name: str) -> None:
    body, path, words = BAD[name]
    found = refused(searching(constraints={"forbid": ["-O2"]}), body)
    assert path in found, found
    assert words in found[path].message + found[path].hint


def test_every_problem_is_named_in_one_answer() -> None:
    body = {"source": "void softmax(void) { }", "workload": "softmax", "language": "c", "author": "a\tb", "x": 1}
    assert set(refused(searching(), {**body, "author": "a"})) == {"$.x"}, "types first"
    body.pop("x")
    body["author"] = "a"
    assert set(refused(Floor(), body)) == {"subject"}
    assert set(refused(searching(), body)) == {"$.workload", "$.source"}


@pytest.mark.parametrize("length", [MAX_SOURCE_BYTES, MAX_SOURCE_BYTES - 100])
def test_a_kernel_of_the_largest_size_is_admitted_and_every_later_fact_has_room(length: int) -> None:
    start = "void rms_norm(void) { } //"
    answer = ask(searching(), {"source": start + "x" * (length - len(start))})
    assert answer is not None
    assert isinstance(answer.fact, CandidateProposed)
    plain = answer.fact.model_copy(update={"request": None})
    assert len(plain.model_dump_json()) <= MAX_FACT_BYTES - 96 * 1024


def test_the_same_kernel_again_is_refused_and_names_the_candidate_that_it_is() -> None:
    floor = searching()
    first = admitted(floor)
    again = refused(floor, {"source": "void rms_norm(void)   { int n = 1000; } // other words"})
    assert str(first.id) in again["$.source"].message
    floor.climb(first)
    floor.generation()
    assert "generation.closed" in floor.types
    assert str(first.id) in refused(floor, {"source": "void rms_norm(void) { int n = 1000; }"})["$.source"].message


def test_a_kernel_that_a_proposer_has_had_is_refused() -> None:
    floor = searching()
    proposed = floor.propose()[0]
    twin = proposed.fact.kernel.model_copy(update={"fingerprint": proposed.fact.kernel.fingerprint})
    state = floor.state.goals["g"]
    assert state.holder_of(twin.fingerprint) == proposed.id


def test_an_abandoned_kernel_may_come_again() -> None:
    floor = searching()
    floor.fate = lambda number: AbandonReason.WORKER_LOST if number == 1000 else 1.1
    floor.climb(admitted(floor))
    assert admitted(floor, seq=2).id


def test_a_banned_kernel_is_refused() -> None:
    floor = searching()
    first = ask(floor, {"source": SOURCE})
    assert first is not None
    assert isinstance(first.fact, CandidateProposed)
    floor.steer(SteerAction.BAN, ban=Ban(fingerprint=first.fact.kernel.fingerprint))
    assert "banned" in refused(floor, {"source": SOURCE})["$.source"].message


def test_a_delivery_that_was_answered_is_not_answered_again() -> None:
    floor = searching()
    admitted(floor)
    body = {"source": "/* kernel 1000 */ void rms_norm(void) { int n = 1000; }"}
    assert ask(floor, body) is None
    second = ask(floor, body, seq=2)
    assert second is not None
    assert isinstance(second.fact, CandidateRefused)


def after_finals_are_decided(floor: Floor) -> None:
    floor.search()


def paused(floor: Floor) -> None:
    floor.choose_baseline()
    floor.steer(SteerAction.PAUSE)


def stopping(floor: Floor) -> None:
    floor.choose_baseline()
    floor.steer(SteerAction.STOP)


def over_time(floor: Floor) -> None:
    floor.choose_baseline()
    floor.wait(1000)


def ended(floor: Floor) -> None:
    floor.play()


def cancelled(floor: Floor) -> None:
    floor.steer(SteerAction.CANCEL)


CLOSED: dict[str, tuple[Callable[[Floor], None], str]] = {
    "baselines are raced": (lambda _floor: None, "baselines"),
    "paused": (paused, "paused"),
    "stopping": (stopping, "search is over"),
    "finals": (after_finals_are_decided, "search is over"),
    "out of time": (over_time, "search is over"),
    "ended": (ended, "has ended"),
    "cancelled": (cancelled, "has ended"),
}


@pytest.mark.parametrize("name", CLOSED)
def test_a_goal_that_does_not_search_takes_no_kernel_and_says_why(name: str) -> None:
    bring_about, words = CLOSED[name]
    floor = Floor().with_route().accept()
    bring_about(floor)
    assert words in refused(floor, {"source": SOURCE})["subject"].message


def test_a_goal_that_waits_for_a_machine_and_an_unknown_one_take_no_kernel() -> None:
    assert "waits for a machine" in refused(Floor().accept(), {"source": SOURCE})["subject"].message
    assert "no goal" in refused(Floor(), {"source": SOURCE})["subject"].message


def test_no_kernel_is_taken_into_a_full_stream() -> None:
    floor = searching()
    floor.has_room = False
    assert "80 % full" in refused(floor, {"source": SOURCE})["$"].message


def test_once_finals_are_decided_no_kernel_slips_in_before_they_are_recorded() -> None:
    floor = searching()
    floor.generation()
    for proposed in floor.propose():
        floor.climb(proposed)
    finals = floor.last(FinalsDue)
    state = curator.CuratorState()
    for recorded in floor.log:
        if recorded.id != finals.id:
            state = curator.evolve(state, recorded)
    assert state.goals["g"].phase is GoalPhase.SEARCHING
    floor.state = curator.awaiting(state, curator.decide(state, state.position))
    assert "search is over" in refused(floor, {"source": SOURCE})["subject"].message


def test_an_admitted_kernel_holds_its_goal_still_until_it_is_recorded() -> None:
    floor = searching()
    floor.generation()
    answer = ask(floor, {"source": SOURCE})
    assert answer is not None
    waiting = curator.awaiting(floor.state, (answer,))
    assert curator.decide(waiting, waiting.position) == ()


def test_only_so_many_kernels_are_judged_at_once() -> None:
    floor = searching(budget={"candidates": 1000, "wall": 100, "stagnation": 10})
    for number in range(OPEN_AT_ONCE):
        last = admitted(floor, 1000 + number)
    assert f"{OPEN_AT_ONCE} submissions are being judged" in refused(floor, {"source": SOURCE})["subject"].message
    floor.climb(last)
    assert ask(floor, {"source": SOURCE}) is not None


def test_a_goal_takes_as_many_kernels_as_its_budget_has_candidates() -> None:
    floor = searching()
    for number in range(8):
        floor.climb(admitted(floor, 1000 + number))
    assert "extend" in refused(floor, {"source": SOURCE})["subject"].hint


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: json.dumps({"source": text}).encode()))
def test_whatever_comes_is_admitted_or_refused_in_a_fact_that_fits(body: bytes) -> None:
    answer = ask(searching(), body)
    assert answer is not None
    assert isinstance(answer.fact, CandidateProposed | CandidateRefused)


# ---- how a goal counts it ------------------------------------------------------------------------------------------


def test_a_generation_closes_only_when_every_submission_has_ended_as_well() -> None:
    floor = searching()
    submitted = admitted(floor)
    floor.generation()
    assert "generation.closed" not in floor.types
    floor.climb(submitted)
    closed = floor.facts(GenerationClosed)[0]
    assert (closed.proposed, closed.measured) == (5, 5)
    assert closed.best_candidate == submitted.id
    assert floor.state.goals["g"].best == (submitted.id, 11.0, 11.0)


def test_a_kernel_admitted_while_a_closing_is_on_its_way_belongs_to_the_next_generation() -> None:
    floor = searching()
    floor.generation()
    before, closed = curator.CuratorState(), floor.last(GenerationClosed)
    for recorded in floor.log[: closed.position - 1]:
        before = curator.evolve(before, recorded)
    floor.state, floor.log = before, floor.log[: closed.position - 1]
    submitted = admitted(floor)
    floor.record(due("g", "generation.closed", closed.fact, closed.fact.generation))
    floor.climb(submitted)
    assert floor.state.goals["g"].was_measured(submitted.id)
    floor.generation()
    assert floor.facts(GenerationClosed)[-1].proposed == 5
    assert floor.state.goals["g"].counts.proposed == 9


def test_submissions_spend_none_of_the_budget() -> None:
    floor = searching()
    for number in (1000, 1001, 1002):
        floor.climb(admitted(floor, number))
    while floor.unanswered(GenerationDue):
        floor.generation()
    assert [fact.size for fact in floor.facts(GenerationDue)] == [4, 4]
    assert floor.facts(FinalsDue)[0].ended_by == "budget"
    state = floor.state.goals["g"]
    assert (state.counts.proposed, state.spent) == (11, 8)


def test_a_submission_between_generations_is_waited_for_before_finals() -> None:
    floor = searching(budget={"candidates": 4, "wall": 100, "stagnation": 10})
    floor.generation()
    while_closed = curator.CuratorState()
    for recorded in floor.log:
        while_closed = curator.evolve(while_closed, recorded)
        if isinstance(recorded.fact, GenerationClosed):
            break
    floor.state, floor.log = while_closed, floor.log[: while_closed.position]
    submitted = admitted(floor)
    assert "finals.due" not in floor.types
    floor.climb(submitted)
    assert floor.types[-1] == "finals.due"
    state = floor.state.goals["g"]
    assert (state.counts.proposed, state.best) == (5, (submitted.id, 11.0, 11.0))


def test_what_a_submission_fails_on_is_kept() -> None:
    floor = searching()
    floor.fate = lambda number: Reason.OUT_OF_BOUND if number == 1000 else 1.1
    submitted = admitted(floor)
    floor.climb(submitted)
    floor.generation()
    assert [fact.counterexample for fact in floor.facts(CounterexampleKept)] == [
        counterexample(1000).model_copy(update={"found_by": submitted.id})
    ]


def test_a_better_submission_ends_stagnation() -> None:
    floor = searching(budget={"candidates": 100, "wall": 100, "stagnation": 2})
    floor.fate = lambda number: 1.5 if number >= 1000 else 1.1
    floor.generation()
    floor.generation()
    assert floor.state.goals["g"].stagnant == 1
    floor.climb(admitted(floor))
    floor.generation()
    assert floor.state.goals["g"].stagnant == 0


def test_a_submission_in_an_exhausted_search_is_judged_before_the_finals() -> None:
    floor = searching()
    submitted = admitted(floor)
    floor.exhaust()
    assert "generation.closed" not in floor.types
    floor.climb(submitted)
    assert floor.types[-1] == "finals.due"


def test_submissions_open_at_the_deadline_are_dropped() -> None:
    floor = searching()
    submitted = admitted(floor)
    before = floor.state.goals["g"]
    floor.wait(1000)
    assert floor.facts(GoalTimedOut)
    assert floor.types[-1] == "finals.due"
    after = floor.state.goals["g"]
    assert submitted.id in dropped(before, after)
    floor.climb(submitted)
    assert floor.state.goals["g"].counts == after.counts, "late"


def test_a_lost_generation_does_not_lose_a_submission() -> None:
    floor = searching()
    submitted = admitted(floor)
    floor.climb(submitted)
    cause = floor.take(GenerationDue)
    lost = GenerationAbandoned(goal_id="g", generation=1, attempt=0, reason=AbandonReason.WORKER_LOST, message="lost")
    floor.answer(cause, "open", lost)
    floor.generation()
    assert floor.facts(GenerationClosed)[0].proposed == 5


def test_a_cancelled_goal_drops_what_is_on_its_way() -> None:
    floor = searching()
    submitted, *_ = admitted(floor), floor.propose()
    before = floor.state.goals["g"]
    after = replace(before, phase=GoalPhase.COMPLETED)
    assert before.generation is not None
    assert set(dropped(before, after)) == {submitted.id, *before.generation.candidates}


def test_a_submission_can_win_the_race() -> None:
    floor = searching()
    submitted = admitted(floor)
    floor.climb(submitted)
    while floor.unanswered(GenerationDue):
        floor.generation()
    for nominated in floor.nominate():
        floor.prove(nominated)
    floor.finish_race()
    assert floor.end.champion_id == submitted.id


def test_opening_names_no_submission_and_needs_none() -> None:
    floor = searching()
    submitted = admitted(floor)
    floor.generation()
    opened = floor.facts(GenerationOpened)[0]
    assert submitted.id not in opened.candidate_ids
    assert submitted.fact.task.route == MACHINE.route


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whenever_kernels_come_every_candidate_is_counted_once_and_the_search_ends(data: st.DataObject) -> None:
    floor = searching()
    floor.fate = lambda number: Reason.OUT_OF_BOUND if number % 5 == 0 else 1.0 + number / 1e6
    running: list[Recorded[CandidateProposed]] = []
    submitted = 0
    while not floor.facts(FinalsDue):
        may_submit = submitted < 6 and data.draw(st.booleans(), label="submit")
        if may_submit:
            running.append(admitted(floor, 1000 + submitted, seq=submitted))
            submitted += 1
        elif floor.unanswered(GenerationDue) is not None:
            running += floor.propose()
        else:
            floor.climb(running.pop(data.draw(st.integers(0, len(running) - 1), label="next")))
    goal = floor.state.goals["g"]
    assert not running
    assert (goal.counts.proposed, goal.spent, goal.submitted) == (8 + submitted, 8, submitted)
    assert goal.counts.measured + sum(goal.counts.rejected.values()) == 8 + submitted
    assert sum(len(past.standing) for past in goal.past) == 8 + submitted
    assert goal.best is not None
    assert not goal.submissions


def test_decisions_about_a_steered_goal_with_submissions_are_taken_again_the_same() -> None:
    floor = searching()
    early = admitted(floor)
    floor.steer(SteerAction.EXTEND, extend=Extension(candidates=4))
    floor.generation()
    floor.climb(early)
    floor.steer(SteerAction.BAN, ban=Ban(tunable="unroll", value=4))
    late = admitted(floor, 1001)
    floor.climb(late)
    while floor.unanswered(GenerationDue):
        floor.generation()
    floor.play_finals()
    audit = CuratorAudit()
    assert [found for recorded in floor.log if (found := audit.follow(recorded)) is not None] == []
    assert floor.end.champion_id in (early.id, late.id)
