"""What is due while a goal searches. Pure."""

from typing import Any
from uuid import UUID

from schemas.enums import EndedBy
from schemas.envelope import Draft
from schemas.events import GenerationClosed, GenerationDue, LessonRecorded, MeasurementRequested
from services.evidence import goal_fold, halving, lessons
from services.evidence.goal_parts import Generation, best_of, count
from services.evidence.goal_state import ATTEMPTS, FIRST_GENERATION, GoalState
from services.librarian.assignment import generation_seed
from services.librarian.catches import newly_kept
from services.librarian.dues import Drafts, Evidence, failed, informed, state
from services.librarian.finals_rulings import finals_due


def searching(goal: GoalState, evidence: Evidence) -> Drafts:
    generation = goal.generation
    if generation is None:
        ended_by = ending(goal)
        if ended_by is not None:
            return _search_ended(goal, evidence, ended_by)
        return (_generation_due(goal, evidence, goal.closed + FIRST_GENERATION, 0),)
    if generation.abandoned:
        return _generation_lost(goal, generation, evidence)
    if goal.settled_by_time:
        return _closing(goal, generation, evidence)
    return _halving(goal, generation, evidence) if generation.settled and goal.submissions_settled else ()


def ending(goal: GoalState) -> EndedBy | None:
    """Why the search is over, when it is."""
    target = goal.goal.objective.stop_at
    budget = goal.goal.budget
    if target is not None and goal.best is not None and goal.best.worth >= target:
        return EndedBy.TARGET
    if goal.stopped:
        return EndedBy.STOPPED
    if goal.settled_by_time:
        return EndedBy.TIMED_OUT
    if goal.exhausted:
        return EndedBy.EXHAUSTED
    if goal.spent >= budget.candidates:
        return EndedBy.BUDGET
    return EndedBy.STAGNATION if goal.stagnant >= budget.stagnation else None


def _generation_due(goal: GoalState, evidence: Evidence, number: int, attempt: int) -> Draft[Any]:
    search, budget = goal.goal.search, goal.goal.budget
    assert goal.task is not None
    fact = GenerationDue(
        goal_id=goal.goal_id,
        generation=number,
        attempt=attempt,
        position=evidence.position,
        seed=generation_seed(search.seed, number, attempt),
        size=min(search.generation_size, budget.candidates - goal.spent),
        task=informed(goal.task, evidence.counterexamples),
    )
    return state(goal, "generation", fact, number * ATTEMPTS + attempt)


def _generation_lost(goal: GoalState, generation: Generation, evidence: Evidence) -> Drafts:
    if goal.stopped or goal.settled_by_time:
        return _search_ended(goal, evidence, ending(goal) or EndedBy.STOPPED)
    if generation.attempt + 1 == ATTEMPTS:
        return (failed(goal, f"generation {generation.number} could not be proposed in {ATTEMPTS} attempts"),)
    return (_generation_due(goal, evidence, generation.number, generation.attempt + 1),)


def _halving(goal: GoalState, generation: Generation, evidence: Evidence) -> Drafts:
    """The next round of longer looks, or the end of the generation after the last. A stop asks for no more rounds."""
    lacking = None if goal.stopped else halving.missing(goal.uncounted)
    if lacking is None:
        return () if halving.is_waiting(goal.uncounted) else _closing(goal, generation, evidence)
    round_, candidates = lacking
    return tuple(_measurement_requested(goal, generation, evidence, round_, id_) for id_ in candidates)


def _measurement_requested(
    goal: GoalState, generation: Generation, evidence: Evidence, round_: int, candidate_id: UUID
) -> Draft[Any]:
    build = goal.uncounted[candidate_id].build
    assert goal.task is not None
    assert build is not None
    fact = MeasurementRequested(
        goal_id=goal.goal_id,
        candidate_id=candidate_id,
        generation=generation.number,
        round=round_,
        position=evidence.position,
        build=build,
        task=goal.task,
    )
    return state(goal, f"measurement.{candidate_id}", fact, round_)


def _search_ended(goal: GoalState, evidence: Evidence, ended_by: EndedBy) -> Drafts:
    """Finals, once what was submitted between two generations is settled as well."""
    if not (goal.submissions_settled or goal.settled_by_time):
        return ()
    return (*newly_kept(goal, goal.submissions, evidence), finals_due(goal, evidence, ended_by, 0))


def _closing(goal: GoalState, generation: Generation, evidence: Evidence) -> Drafts:
    members = goal.uncounted
    best = best_of(members)
    counts = count(members.values())
    closed = GenerationClosed(
        goal_id=goal.goal_id,
        generation=generation.number,
        proposed=counts.proposed,
        compiled=counts.compiled,
        verified=counts.verified,
        measured=counts.measured,
        rejected=dict(counts.rejected),
        abandoned=counts.abandoned,
        best_candidate=best.candidate_id if best else None,
        best_search_ratio=best.search_ratio if best else None,
    )
    return (
        *newly_kept(goal, members, evidence),
        *_lessons(goal, generation),
        state(goal, "generation.closed", closed, generation.number),
    )


def _lessons(goal: GoalState, generation: Generation) -> Drafts:
    assert goal.task is not None
    tally = goal.tally.including(goal_fold.trials(generation))
    return tuple(
        state(
            goal,
            f"lesson.{new.topic}",
            LessonRecorded(
                goal_id=goal.goal_id, generation=generation.number, lesson=new.lesson, evidence=new.evidence
            ),
            generation.number,
        )
        for new in lessons.news(tally, goal.lessons, goal.task)
    )
