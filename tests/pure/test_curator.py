"""The curator, given facts, when a fact, then what is due: every path and every ending of a goal, with no I/O."""

from collections import Counter
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import pytest

from kernel_lab.workloads import WORKLOADS
from schemas.enums import AbandonReason, EndedBy, Outcome, Phase, RatioKind, Reason, SteerAction, Verdict
from schemas.envelope import Draft, Envelope, Recorded, due, encode
from schemas.events import (
    BaselineDue,
    CandidateMeasured,
    CandidateProposed,
    ChampionCrowned,
    CounterexampleKept,
    FinalistAbandoned,
    FinalistNominated,
    FinalistRejected,
    FinalsAbandoned,
    FinalsDue,
    GenerationAbandoned,
    GenerationClosed,
    GenerationDue,
    GenerationOpened,
    GoalCompleted,
    GoalTimedOut,
    LessonRecorded,
    RaceDue,
    RaceNotRun,
    RouteLost,
)
from schemas.ids import due_id
from schemas.measurement import Entrant
from schemas.work import Contestant, MachineClass
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import ATTEMPTS
from services.librarian import curator
from services.librarian.curator import CuratorState
from services.librarian.fitting import as_baseline, that_fit
from tests.pure.floor import MACHINE, START, Floor, build, comparison, counterexample, kernel


def running(**changes: Any) -> Floor:
    """A goal on a route, its baselines due."""
    return Floor().with_route().accept(**changes)


# ---- the path ------------------------------------------------------------------------------------------------------


def test_a_whole_goal_takes_the_path_of_the_architecture_and_crowns_a_champion() -> None:
    floor = running().play()
    of_the_goal = [t for t in floor.types if t != "lesson.recorded"]
    assert of_the_goal[:4] == ["route.available", "goal.accepted", "baseline.due", "baseline.chosen"]
    one_generation = (
        ["generation.due"]
        + ["candidate.proposed"] * 4
        + ["generation.opened"]
        + ["candidate.compiled", "candidate.verified", "candidate.measured"] * 4
        + ["measurement.requested"] * 2
        + ["candidate.remeasured"] * 2
        + ["measurement.requested", "candidate.remeasured"]
        + ["generation.closed"]
    )
    assert of_the_goal[4:-10] == one_generation * 2
    assert of_the_goal[-10:] == [
        "finals.due",
        "finalist.nominated",
        "finalist.nominated",
        "finals.opened",
        "finalist.proven",
        "finalist.proven",
        "race.due",
        "race.finished",
        "champion.crowned",
        "goal.completed",
    ]
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.BUDGET, Outcome.CHAMPION)
    assert floor.end.champion_id == floor.facts(ChampionCrowned)[0].candidate_id
    assert not floor.state.goals


def test_a_goal_waits_until_a_route_for_its_target_is_available() -> None:
    floor = Floor().accept()
    assert floor.types == ["goal.accepted"]
    floor.with_route()
    assert floor.types[-1] == "baseline.due"
    assert floor.last(BaselineDue).fact.task.route == MACHINE.route


def test_a_cpu_goal_is_not_sent_to_the_null_route() -> None:
    floor = Floor().accept()
    floor.with_route(MACHINE.model_copy(update={"route": "null"}))
    assert "baseline.due" not in floor.types
    floor.accept("n", target="null")
    assert floor.last(BaselineDue).fact.task.route == "null"


def test_a_lost_route_is_not_chosen() -> None:
    floor = Floor().with_route()
    floor.record(due(MACHINE.route, "lost", RouteLost(route=MACHINE.route, last_seen=floor.now)))
    floor.accept()
    assert "baseline.due" not in floor.types


def test_the_strongest_available_route_is_pinned() -> None:
    strong = MACHINE.model_copy(update={"route": "cpu_ffffffff", "threads": 64})
    weak_first = Floor().with_route().with_route(strong).accept()
    assert weak_first.last(BaselineDue).fact.task.machine == MachineClass.model_validate(strong.model_dump())


def test_a_named_shape_set_is_spelled_out_in_the_task() -> None:
    floor = running(shapes="small")
    assert floor.last(BaselineDue).fact.task.shapes == WORKLOADS["rms_norm"].shapes["small"]


def test_baselines_travel_in_every_later_task() -> None:
    floor = running().play()
    tasks = [fact.task for fact in floor.facts(GenerationDue)]
    tasks += [floor.facts(FinalsDue)[0].task, floor.facts(RaceDue)[0].task]
    for task in tasks:
        assert [baseline.name for baseline in task.baselines] == ["numpy"]


def test_the_due_facts_say_the_position_at_which_they_were_decided() -> None:
    floor = running().play()
    for recorded in floor.log:
        if isinstance(recorded.fact, BaselineDue | GenerationDue | FinalsDue | RaceDue):
            assert recorded.fact.position == recorded.position - 1


def test_an_audit_that_folds_up_to_the_position_of_a_decision_takes_the_same_decision() -> None:
    floor = running().play()
    state = CuratorState()
    for recorded in floor.log:
        if isinstance(recorded.fact, BaselineDue | GenerationDue | FinalsDue | RaceDue):
            again = curator.decide(state, recorded.fact.position)
            assert Draft(recorded.id, recorded.fact, recorded.envelope.causation_id) in again
        state = curator.evolve(state, recorded)


def test_two_goals_run_side_by_side_without_touching_each_other() -> None:
    floor = Floor().with_route().accept("a").accept("b")
    floor.play()
    assert set(floor.state.goals) == {"b"}
    floor.play()
    assert Counter(fact.goal_id for fact in floor.facts(GoalCompleted)) == {"a": 1, "b": 1}


# ---- one decision at a time ----------------------------------------------------------------------------------------


def test_a_decided_fact_holds_its_goal_still_until_it_is_recorded() -> None:
    floor = running()
    floor.choose_baseline()
    generation = floor.take(GenerationDue)
    before = CuratorState()
    for recorded in floor.log:
        if recorded.id != generation.id:
            before = curator.evolve(before, recorded)
    drafts = curator.decide(before, before.position)
    waiting = curator.awaiting(before, drafts)
    assert [draft.fact.TYPE for draft in drafts] == ["generation.due.v1"]
    assert curator.decide(waiting, waiting.position) == ()
    assert curator.evolve(waiting, generation).awaited == {}


def test_the_recorded_due_fact_wins_over_a_recomputation() -> None:
    """An earlier librarian published another size under the same id; what was recorded is what counts."""
    floor = running()
    floor.choose_baseline()
    recorded = floor.take(GenerationDue)
    assert floor.state.goals["g"].generation is not None
    assert floor.state.goals["g"].generation.due_id == recorded.id == due_id("g", "generation", 3)
    assert curator.decide(floor.state, floor.state.position) == ()


def test_nothing_becomes_due_without_room_in_the_stream_but_goals_still_end() -> None:
    floor = running()
    floor.choose_baseline()
    floor.has_room = False
    for proposed in floor.propose():
        floor.climb(proposed)
    assert floor.types[-1] == "candidate.measured"
    floor.steer(SteerAction.CANCEL)
    assert floor.end.ended_by is EndedBy.CANCELLED


# ---- generations ---------------------------------------------------------------------------------------------------


def test_the_last_generation_is_clipped_to_the_budget() -> None:
    floor = running(budget={"candidates": 6, "wall": 100, "stagnation": 10}).search()
    assert [fact.size for fact in floor.facts(GenerationDue)] == [4, 2]


def test_every_generation_has_its_own_seed_and_the_same_goal_elsewhere_the_same_ones() -> None:
    seeds = [fact.seed for fact in running().search().facts(GenerationDue)]
    other = Floor().with_route().accept("other")
    other.search()
    assert len(set(seeds)) == 2
    assert [fact.seed for fact in other.facts(GenerationDue)] == seeds


def test_a_generation_closes_only_when_every_opened_candidate_has_ended() -> None:
    floor = running()
    floor.choose_baseline()
    *most, last = floor.propose()
    for proposed in most:
        floor.climb(proposed)
    assert "generation.closed" not in floor.types
    floor.climb(last)
    assert "generation.closed" in floor.types


def test_candidates_that_end_before_the_opening_is_recorded_count() -> None:
    floor = running()
    floor.choose_baseline()
    cause = floor.unanswered(GenerationDue)
    assert cause is not None
    candidates = floor.propose(opened=False)
    for proposed in candidates:
        floor.climb(proposed)
    assert "generation.closed" not in floor.types
    opened = GenerationOpened(goal_id="g", generation=1, candidate_ids=tuple(one.id for one in candidates))
    floor.answer(cause, "open", opened)
    floor.halve()
    assert floor.facts(GenerationClosed)[0].measured == 4


def test_the_closing_counts_every_kind_of_end() -> None:
    floor = running()
    fates: list[float | Reason | AbandonReason] = [
        1.1,
        Reason.DOES_NOT_COMPILE,
        Reason.OUT_OF_BOUND,
        AbandonReason.TOOL_FAILURE,
    ]
    floor.fate = lambda number: fates[number]
    floor.choose_baseline()
    floor.generation()
    closed = floor.facts(GenerationClosed)[0]
    assert (closed.proposed, closed.compiled, closed.verified, closed.measured, closed.abandoned) == (4, 2, 1, 1, 1)
    assert closed.rejected == {"does_not_compile": 1, "out_of_bound": 1}
    assert closed.best_search_ratio == 1.1


def test_counterexamples_are_kept_once_and_travel_in_later_tasks() -> None:
    floor = running()
    floor.fate = lambda number: Reason.OUT_OF_BOUND if number % 4 == 0 else 1.1
    floor.search()
    kept = floor.facts(CounterexampleKept)
    assert [fact.counterexample.seed for fact in kept] == [0, 4]
    caught = {r.id: r.fact.kernel.source for r in floor.log if isinstance(r.fact, CandidateProposed)}
    assert [caught[fact.counterexample.found_by or uuid4()] for fact in kept] == ["/* kernel 0 */", "/* kernel 4 */"]
    assert [one.seed for one in floor.facts(GenerationDue)[1].task.counterexamples] == [0]
    assert [one.seed for one in floor.facts(FinalsDue)[0].task.counterexamples] == [0, 4]


def test_a_counterexample_known_from_an_earlier_goal_is_not_kept_again() -> None:
    floor = Floor()
    floor.record(due("earlier", "kept", CounterexampleKept(goal_id="earlier", counterexample=counterexample(0))))
    floor.with_route().accept()
    floor.fate = lambda number: Reason.OUT_OF_BOUND if number == 0 else 1.1
    floor.search()
    assert len(floor.facts(CounterexampleKept)) == 1


def test_a_withdrawn_counterexample_travels_no_more_and_is_not_kept_again() -> None:
    floor = Floor()
    kept = [
        floor.record(due("old", "kept", CounterexampleKept(goal_id="old", counterexample=counterexample(seed)), seed))
        for seed in (0, 1)
    ]
    assert kept[0] is not None
    floor.withdraw(kept[0].id)
    floor.with_route().accept()
    floor.fate = lambda number: Reason.OUT_OF_BOUND if number == 0 else 1.1
    floor.search()
    assert [one.seed for one in floor.facts(BaselineDue)[0].task.counterexamples] == [1]
    assert [one.seed for one in floor.facts(FinalsDue)[0].task.counterexamples] == [1]
    assert len(floor.facts(CounterexampleKept)) == 2


def test_a_task_carries_at_most_64_counterexamples_and_the_latest_ones() -> None:
    floor = Floor()
    for seed in range(70):
        floor.record(due("old", "kept", CounterexampleKept(goal_id="old", counterexample=counterexample(seed)), seed))
    floor.with_route().accept()
    assert [one.seed for one in floor.last(BaselineDue).fact.task.counterexamples] == list(range(6, 70))


def test_lessons_are_recorded_before_the_generation_closes_and_cited_by_the_champion() -> None:
    floor = running(budget={"candidates": 36, "wall": 100, "stagnation": 10}, search={"generation_size": 12})
    floor.fate = lambda number: (1.5 if number % 2 == 0 else 1.0) + number / 10_000
    floor.play()
    lessons = {
        (fact.lesson.condition["gene"], fact.lesson.condition["value"]): fact for fact in floor.facts(LessonRecorded)
    }
    streaming = lessons["streaming", "true"].lesson
    assert streaming.effect is not None
    assert streaming.effect.low > 1.4
    assert floor.types.index("lesson.recorded") < floor.types.index("generation.closed")
    assert streaming.statement in floor.facts(ChampionCrowned)[0].lessons
    told = Counter(fact.generation for fact in floor.facts(LessonRecorded))
    assert told == {1: 2, 2: 2}, "twice the evidence is news, half as much again is not"


# ---- retries -------------------------------------------------------------------------------------------------------


def test_abandoned_baselines_are_retried_twice_and_then_the_goal_fails() -> None:
    floor = running()
    for attempt in range(3):
        assert floor.last(BaselineDue).fact.attempt == attempt
        floor.lose_baseline()
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.FAILED, Outcome.NONE)
    assert len({r.id for r in floor.log if isinstance(r.fact, BaselineDue)}) == 3


def test_a_retried_baseline_leads_on() -> None:
    floor = running()
    floor.lose_baseline()
    floor.play()
    assert floor.end.outcome is Outcome.CHAMPION


def abandon_generation(floor: Floor) -> None:
    cause = floor.take(GenerationDue)
    fact = GenerationAbandoned(
        goal_id="g",
        generation=cause.fact.generation,
        attempt=cause.fact.attempt,
        reason=AbandonReason.WORKER_LOST,
        message="lost",
    )
    floor.answer(cause, "open", fact)


def test_an_abandoned_generation_is_retried_twice_and_then_the_goal_fails() -> None:
    floor = running()
    floor.choose_baseline()
    for attempt in range(3):
        due_ = floor.last(GenerationDue).fact
        assert (due_.generation, due_.attempt) == (1, attempt)
        abandon_generation(floor)
    assert floor.end.ended_by is EndedBy.FAILED


def test_candidates_of_an_abandoned_generation_are_nobodys_any_more() -> None:
    floor = running()
    floor.choose_baseline()
    cause = floor.unanswered(GenerationDue)
    assert cause is not None
    orphans = floor.propose(count=2, opened=False)
    lost = GenerationAbandoned(goal_id="g", generation=1, attempt=0, reason=AbandonReason.WORKER_LOST, message="lost")
    floor.answer(cause, "open", lost)
    before = floor.state.goals["g"]
    floor.climb(orphans[0])
    assert floor.state.goals["g"] is before
    floor.generation()
    assert floor.facts(GenerationClosed)[0].proposed == 4


def test_abandoned_finals_are_retried_twice_and_then_the_goal_fails() -> None:
    floor = running().search()
    for attempt in range(3):
        cause = floor.take(FinalsDue)
        assert cause.fact.attempt == attempt
        lost = FinalsAbandoned(goal_id="g", attempt=attempt, reason=AbandonReason.WORKER_LOST, message="lost")
        floor.answer(cause, "open", lost)
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.FAILED, Outcome.NONE)


def test_a_race_that_was_not_run_is_retried_twice_and_then_the_goal_fails() -> None:
    floor = running().search()
    for nominated in floor.nominate():
        floor.prove(nominated)
    for attempt in range(3):
        cause = floor.take(RaceDue)
        assert cause.fact.attempt == attempt
        lost = RaceNotRun(goal_id="g", attempt=attempt, reason=AbandonReason.TOOL_FAILURE, message="lost")
        floor.answer(cause, "race", lost)
    assert floor.end.ended_by is EndedBy.FAILED


def test_an_abandoned_candidate_is_settled_and_never_a_lesson() -> None:
    floor = running(budget={"candidates": 12, "wall": 100, "stagnation": 10}, search={"generation_size": 12})
    floor.fate = lambda number: AbandonReason.TOOL_FAILURE
    floor.search()
    assert floor.facts(GenerationClosed)[0].abandoned == 12
    assert not floor.facts(LessonRecorded)


# ---- endings -------------------------------------------------------------------------------------------------------


def test_a_goal_without_any_baseline_fails() -> None:
    floor = running()
    floor.find_no_baseline()
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.FAILED, Outcome.NONE)
    assert "none verified" in floor.end.message


def test_the_search_stops_at_its_target_and_finals_decide() -> None:
    floor = running(objective={"stop_at": 1.02}).search()
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.TARGET
    assert len(floor.facts(GenerationDue)) == 1


def test_a_quarantined_ratio_does_not_reach_the_target() -> None:
    floor = running(objective={"stop_at": 50.0})
    floor.choose_baseline()
    proposed, *rest = floor.propose()
    quarantined = CandidateMeasured(
        goal_id="g",
        candidate_id=proposed.id,
        generation=1,
        comparison=comparison(99.0, verdict=Verdict.QUARANTINED),
        worth_more=True,
    )
    floor.answer(proposed, "measure", quarantined)
    for one in rest:
        floor.climb(one)
    assert floor.facts(GenerationClosed)[0].best_search_ratio == 1.03
    assert len(floor.facts(GenerationDue)) == 2


def test_the_search_ends_when_it_stagnates() -> None:
    floor = running(budget={"candidates": 100, "wall": 100, "stagnation": 2})
    floor.fate = lambda number: 1.5 if number < 4 else 1.1
    floor.search()
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.STAGNATION
    assert len(floor.facts(GenerationClosed)) == 3


def test_the_search_ends_when_it_is_exhausted() -> None:
    floor = running()
    floor.choose_baseline()
    floor.generation()
    floor.exhaust()
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.EXHAUSTED
    assert len(floor.facts(GenerationClosed)) == 2


def test_an_empty_generation_means_exhausted() -> None:
    floor = running()
    floor.choose_baseline()
    floor.propose(count=0)
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.EXHAUSTED


def test_stop_lets_the_running_generation_finish_and_then_finals_decide() -> None:
    floor = running()
    floor.choose_baseline()
    candidates = floor.propose()
    floor.steer(SteerAction.STOP)
    assert "finals.due" not in floor.types
    for proposed in candidates:
        floor.climb(proposed)
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.STOPPED
    for nominated in floor.nominate():
        floor.prove(nominated)
    floor.finish_race()
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.STOPPED, Outcome.CHAMPION)


def test_stop_while_waiting_for_a_route_ends_at_once() -> None:
    floor = Floor().accept().steer(SteerAction.STOP)
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.STOPPED, Outcome.NONE)


def test_stop_during_baselines_waits_for_them_and_asks_no_generation() -> None:
    floor = running().steer(SteerAction.STOP)
    floor.choose_baseline()
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.STOPPED
    assert not floor.facts(GenerationDue)


@pytest.mark.parametrize("steps", range(5))
def test_cancel_ends_a_goal_at_once_wherever_it_is(steps: int) -> None:
    floor = running()
    path = (floor.choose_baseline, floor.propose, lambda: None, lambda: None, lambda: None)
    for step in path[:steps]:
        step()
    floor.steer(SteerAction.CANCEL)
    assert floor.types[-1] == "goal.completed"
    assert (floor.end.ended_by, floor.end.outcome, floor.end.champion_id) == (EndedBy.CANCELLED, Outcome.NONE, None)


def test_cancel_ends_a_paused_goal_and_a_race() -> None:
    paused = running().steer(SteerAction.PAUSE).steer(SteerAction.CANCEL)
    assert paused.end.ended_by is EndedBy.CANCELLED
    racing = running().search()
    for nominated in racing.nominate():
        racing.prove(nominated)
    racing.steer(SteerAction.CANCEL)
    racing.finish_race()
    assert racing.end.ended_by is EndedBy.CANCELLED
    assert not racing.facts(ChampionCrowned)


def test_nothing_new_becomes_due_while_paused_and_work_in_flight_finishes() -> None:
    floor = running()
    floor.choose_baseline()
    candidates = floor.propose()
    floor.steer(SteerAction.PAUSE)
    for proposed in candidates:
        floor.climb(proposed)
    assert floor.types[-1] == "candidate.measured"
    floor.steer(SteerAction.RESUME)
    assert floor.types[-1] == "measurement.requested"


def test_stop_ends_a_pause() -> None:
    floor = running()
    floor.choose_baseline()
    floor.generation()
    floor.steer(SteerAction.PAUSE)
    floor.generation()
    floor.steer(SteerAction.STOP)
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.STOPPED


# ---- finals and race -----------------------------------------------------------------------------------------------


def test_nothing_nominated_means_no_verified_improvement() -> None:
    floor = running()
    floor.fate = lambda number: Reason.DOES_NOT_COMPILE
    floor.search().nominate()
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.BUDGET, Outcome.NO_VERIFIED_IMPROVEMENT)
    assert floor.end.message == f"none of {len(floor.facts(CandidateProposed))} candidates was verified"
    assert not floor.facts(RaceDue)


def refute(floor: Floor, nominated: Iterable[Recorded[FinalistNominated]], seed: int) -> None:
    """Every one is caught by the same input."""
    for one in nominated:
        refused = FinalistRejected(
            goal_id="g",
            candidate_id=one.fact.candidate_id,
            attempt=one.fact.attempt,
            reason=Reason.OUT_OF_BOUND,
            rung=None,
            message="wrong",
            counterexample=counterexample(seed),
        )
        floor.answer(one, "prove", refused)


def test_the_places_of_rejected_finalists_are_for_the_next_who_are_tried_on_what_caught_them() -> None:
    floor = running().search()
    refute(floor, floor.nominate(), 77)
    assert [fact.counterexample.seed for fact in floor.facts(CounterexampleKept)] == [77]
    again = floor.facts(FinalsDue)[-1]
    assert again.attempt == 1
    assert [one.seed for one in again.task.counterexamples] == [77]
    first, second = floor.nominate()
    floor.prove(first)
    refute(floor, [second], 78)
    assert [one.candidate_id for one in floor.facts(RaceDue)[0].contestants] == [first.fact.candidate_id]


@pytest.mark.parametrize("rounds", [1, ATTEMPTS])
def test_nothing_proven_means_no_verified_improvement_and_says_why(rounds: int) -> None:
    floor = running().search()
    for number in range(rounds):
        refute(floor, floor.nominate(), number)
    if rounds < ATTEMPTS:
        floor.nominate(0)
    assert floor.end.outcome is Outcome.NO_VERIFIED_IMPROVEMENT
    assert floor.end.message == f"{2 * rounds} nominated, none proven: {2 * rounds} out_of_bound"
    assert len(floor.facts(FinalsDue)) == min(rounds + 1, ATTEMPTS)


def test_a_lost_finalist_is_no_reason_to_nominate_others() -> None:
    floor = running().search()
    for one in floor.nominate():
        lost = FinalistAbandoned(
            goal_id="g", candidate_id=one.fact.candidate_id, attempt=0, reason=AbandonReason.WORKER_LOST, message="lost"
        )
        floor.answer(one, "prove", lost)
    assert floor.end.message == "2 nominated, none proven: 2 abandoned"


def test_only_proven_finalists_race_each_with_its_search_ratio() -> None:
    floor = running().search()
    first, second = floor.nominate()
    floor.prove(second)
    lost = FinalistAbandoned(
        goal_id="g",
        candidate_id=first.fact.candidate_id,
        attempt=0,
        reason=AbandonReason.WORKER_LOST,
        message="lost",
    )
    floor.answer(first, "prove", lost)
    contestants = floor.facts(RaceDue)[0].contestants
    assert [one.candidate_id for one in contestants] == [second.fact.candidate_id]
    assert contestants[0].search_ratio == second.fact.search_ratio


@pytest.mark.parametrize(
    ("verdict", "ratio", "outcome"),
    [
        (Verdict.FASTER, 1.2, Outcome.CHAMPION),
        (Verdict.FASTER, 1.019, Outcome.NO_VERIFIED_IMPROVEMENT),
        (Verdict.EQUIVALENT, 1.0, Outcome.NO_VERIFIED_IMPROVEMENT),
        (Verdict.SLOWER, 0.8, Outcome.NO_VERIFIED_IMPROVEMENT),
        (Verdict.INCONCLUSIVE, 1.1, Outcome.INCONCLUSIVE),
        (Verdict.INCONCLUSIVE, 1.01, Outcome.NO_VERIFIED_IMPROVEMENT),
        (Verdict.QUARANTINED, 30.0, Outcome.INCONCLUSIVE),
    ],
)
def test_the_race_decides_the_outcome(verdict: Verdict, ratio: float, outcome: Outcome) -> None:
    floor = running(finals={"finalists": 1, "hold_out_gap": 0, "wall": 50})
    floor.race_verdict, floor.race_ratio = verdict, ratio
    floor.play()
    assert floor.end.outcome is outcome
    assert len(floor.facts(ChampionCrowned)) == (outcome is Outcome.CHAMPION)


@pytest.mark.parametrize("verdict", [Verdict.INVALID, Verdict.UNFIT])
def test_a_race_without_numbers_is_inconclusive(verdict: Verdict) -> None:
    floor = to_the_race()
    floor.finish_race(
        Entrant(
            candidate_id=contestant(floor), comparison=comparison(None, RatioKind.HOLD_OUT, verdict), search_ratio=1
        )
    )
    assert floor.end.outcome is Outcome.INCONCLUSIVE


def test_an_unfit_machine_crowns_nobody() -> None:
    floor = to_the_race()
    floor.finish_race(entrant(contestant(floor), 1.5), fit=False)
    assert floor.end.outcome is Outcome.INCONCLUSIVE


def test_among_the_deserving_the_better_lower_bound_wins() -> None:
    floor = to_the_race()
    first, second = (one.candidate_id for one in floor.facts(RaceDue)[0].contestants)
    floor.finish_race(entrant(first, 1.30, width=0.2), entrant(second, 1.25, width=0.01))
    assert floor.end.champion_id == second


def test_an_entrant_that_was_never_proven_is_not_crowned() -> None:
    floor = to_the_race()
    floor.finish_race(entrant(uuid4(), 9.0))
    assert floor.end.outcome is Outcome.NO_VERIFIED_IMPROVEMENT


def test_a_candidate_slower_than_the_incumbent_is_not_crowned() -> None:
    floor = to_the_race()
    slower = comparison(0.9, RatioKind.HOLD_OUT, Verdict.SLOWER)
    beaten = entrant(contestant(floor), 1.3).model_copy(update={"against_incumbent": slower})
    floor.finish_race(beaten)
    assert floor.end.outcome is Outcome.NO_VERIFIED_IMPROVEMENT


def test_the_latest_champion_of_the_same_arena_is_the_incumbent_of_the_next_race() -> None:
    floor = Floor().with_route().accept("a")
    floor.play()
    floor.accept("b").play()
    floor.accept("other", shapes=[{"T": 8, "H": 64}]).play()
    first, second, elsewhere = floor.facts(RaceDue)
    assert first.incumbent is None
    assert second.incumbent is not None
    assert second.incumbent.candidate_id == floor.facts(ChampionCrowned)[0].candidate_id
    assert elsewhere.incumbent is None


def test_the_previous_champion_is_raced_among_the_baselines() -> None:
    floor = Floor().with_route().accept("a")
    floor.play()
    floor.accept("b").play()
    first, second = floor.facts(BaselineDue)
    assert first.champion is None
    assert second.champion is not None
    assert second.champion.candidate_id == floor.facts(ChampionCrowned)[0].candidate_id


def contestant_of(size: int, number: int = 0) -> Contestant:
    """A contestant whose source has `size` bytes, half of them line breaks, which JSON writes as two."""
    source = f"/* kernel {number} */" + "\n;" * (size // 2)
    return Contestant(
        candidate_id=uuid4(), build=build(kernel(number).model_copy(update={"source": source})), search_ratio=1.1
    )


@pytest.mark.parametrize("sizes", [(4_000, 4_000, 4_000), (250_000, 250_000, 4_000), (100_000, 100_000, 100_000)])
def test_whatever_was_submitted_a_race_that_is_due_fits_one_fact(sizes: tuple[int, int, int]) -> None:
    task = to_the_race().facts(RaceDue)[0].task
    first, second, before = (contestant_of(size, number) for number, size in enumerate(sizes))
    contestants, incumbent = that_fit((first, second), before, task)
    assert contestants[0] is first
    assert incumbent is before, "it is raced before the second best"
    fact = RaceDue(goal_id="g", attempt=0, position=1, contestants=contestants, incumbent=incumbent, task=task)
    encode(Envelope(uuid4(), fact, "assay/test/1", START))
    assert len(contestants) == (1 if sizes[1] == 250_000 else 2)


def test_a_champion_too_large_for_every_later_task_is_the_incumbent_and_no_baseline() -> None:
    task = to_the_race().facts(RaceDue)[0].task
    large, small = contestant_of(200_000), contestant_of(4_000)
    assert as_baseline(large, task) is None
    assert as_baseline(small, task) is small
    assert that_fit((small,), large, task) == ((small,), large)


def test_a_crowning_that_was_recorded_alone_is_completed_and_not_repeated() -> None:
    """The librarian died between champion.crowned and goal.completed."""
    floor = to_the_race()
    floor.finish_race()
    state = CuratorState()
    for recorded in floor.log:
        if not isinstance(recorded.fact, GoalCompleted):
            state = curator.evolve(state, recorded)
    assert [draft.fact for draft in curator.decide(state, state.position)] == [floor.end]


# ---- time ----------------------------------------------------------------------------------------------------------


def test_a_timed_out_search_settles_open_work_and_finals_decide() -> None:
    floor = running()
    floor.choose_baseline()
    first, *rest = floor.propose()
    floor.climb(first)
    floor.wait(101)
    closed = floor.facts(GenerationClosed)[0]
    assert (closed.proposed, closed.measured) == (4, 1)
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.TIMED_OUT
    before = floor.state.goals["g"]
    floor.climb(rest[0])
    assert floor.state.goals["g"] is before, "late facts change nothing"
    for nominated in floor.nominate():
        floor.prove(nominated)
    floor.finish_race()
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.TIMED_OUT, Outcome.CHAMPION)


def test_a_search_that_times_out_during_baselines_passes_through_finals() -> None:
    floor = running().wait(101)
    assert floor.facts(FinalsDue)[0].ended_by is EndedBy.TIMED_OUT
    floor.nominate()
    assert floor.end.outcome is Outcome.NO_VERIFIED_IMPROVEMENT


def test_finals_have_their_own_deadline() -> None:
    floor = running().wait(90)
    floor.search()
    floor.wait(49)
    assert not floor.facts(GoalTimedOut)
    floor.wait(1)
    assert floor.facts(GoalTimedOut)[0].phase is Phase.FINALS
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.TIMED_OUT, Outcome.NO_VERIFIED_IMPROVEMENT)


def test_a_race_past_the_finals_deadline_ends_without_a_verdict_and_its_late_result_crowns_nobody() -> None:
    floor = to_the_race().wait(51)
    assert (floor.end.ended_by, floor.end.outcome) == (EndedBy.TIMED_OUT, Outcome.NONE)
    floor.finish_race()
    assert not floor.facts(ChampionCrowned)


def test_a_deadline_fact_that_arrives_after_its_phase_changes_nothing() -> None:
    floor = running().search()
    before = floor.state.goals["g"]
    late = GoalTimedOut(goal_id="g", phase=Phase.SEARCH, deadline=floor.now)
    floor.record(due("g", "timed_out.search", late))
    assert floor.state.goals["g"] is before
    assert before.phase is GoalPhase.FINALS


def to_the_race() -> Floor:
    floor = running().search()
    for nominated in floor.nominate():
        floor.prove(nominated)
    return floor


def contestant(floor: Floor) -> Any:
    return floor.facts(RaceDue)[0].contestants[0].candidate_id


def entrant(candidate_id: Any, ratio: float, width: float = 0.01) -> Entrant:
    return Entrant(
        candidate_id=candidate_id,
        comparison=comparison(ratio, RatioKind.HOLD_OUT, Verdict.FASTER, width),
        search_ratio=ratio,
    )


def test_a_strangers_terminal_fact_settles_nothing() -> None:
    floor = running()
    floor.choose_baseline()
    floor.propose()
    before = floor.state.goals["g"]
    stranger = CandidateMeasured(
        goal_id="g", candidate_id=uuid4(), generation=1, comparison=comparison(9.0), worth_more=True
    )
    floor.record(due("g", "stranger", stranger))
    assert floor.state.goals["g"] is before
