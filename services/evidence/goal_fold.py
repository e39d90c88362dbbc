"""The fold of one goal: what each fact makes of its state.

`evolve(state, late_fact) is state`: a fact about settled work, a second word about decided work and a stranger's fact
are recorded in the log and change nothing here. A step copies one generation at most (512 candidates), so folding a
goal costs time linear in its facts.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from schemas.envelope import Recorded
from schemas.events import (
    BaselineAbandoned,
    BaselineChosen,
    BaselineDue,
    BaselineNotFound,
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    ChampionCrowned,
    FinalistAbandoned,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    FinalsAbandoned,
    FinalsDue,
    FinalsOpened,
    GenerationAbandoned,
    GenerationClosed,
    GenerationDue,
    GenerationOpened,
    GoalCompleted,
    GoalSteered,
    GoalTimedOut,
    LessonRecorded,
    MeasurementNotRun,
    MeasurementRefused,
    MeasurementRequested,
    RaceDue,
    RaceFinished,
    RaceNotRun,
    SearchExhausted,
)
from services.evidence.candidate_fold import CandidateMove, HalvingMove, begun, climbed, looked_again
from services.evidence.goal_parts import (
    Attempt,
    CandidateState,
    Clock,
    End,
    FinalistState,
    Finals,
    Generation,
    GoalPhase,
    best_of,
    count,
    past_of,
)
from services.evidence.goal_state import FIRST_GENERATION, GoalState
from services.evidence.lessons import Trial, topic_of
from services.evidence.steering_fold import steered, timed_out

NOBODY: Mapping[UUID, CandidateState] = MappingProxyType({})


def evolve(state: GoalState, recorded: Recorded[Any]) -> GoalState:
    """The state after `recorded`; the very same object when the fact is late and does not count."""
    after = state if state.phase is GoalPhase.COMPLETED else _step(state, recorded)
    return after if after is state else replace(after, position=recorded.position, last_id=recorded.id)


def trials(generation: Generation) -> tuple[Trial, ...]:
    """The settled candidates of `generation` as lessons count them. Submissions have no genome to learn about."""
    return tuple(
        Trial(id_, one.genome, one.search_ratio, one.reason) for id_, one in generation.members().items() if one.end
    )


def _step(state: GoalState, recorded: Recorded[Any]) -> GoalState:  # noqa: C901 — one flat match
    match recorded.fact:
        case CandidateProposed():
            return _candidate_proposed(state, recorded)
        case (
            CandidateCompiled() | CandidateVerified() | CandidateMeasured() | CandidateRejected() | CandidateAbandoned()
        ):
            return _candidate_moved(state, recorded.fact)
        case MeasurementRequested() | CandidateRemeasured() | MeasurementRefused() | MeasurementNotRun():
            return _halving_moved(state, recorded.fact)
        case GenerationDue() | GenerationOpened() | GenerationAbandoned() | GenerationClosed() | SearchExhausted():
            return _generation_moved(state, recorded)
        case BaselineDue() | BaselineChosen() | BaselineNotFound() | BaselineAbandoned():
            return _baseline_moved(state, recorded)
        case FinalsDue() | FinalsOpened() | FinalsAbandoned():
            return _finals_moved(state, recorded)
        case FinalistNominated() | FinalistProven() | FinalistRejected() | FinalistAbandoned():
            return _finalist_moved(state, recorded)
        case RaceDue() | RaceFinished() | RaceNotRun() | ChampionCrowned():
            return _race_moved(state, recorded)
        case GoalSteered() as fact:
            return _answered(steered(state, fact, recorded.recorded_at), recorded.id)
        case GoalTimedOut(phase=phase):
            return timed_out(state, phase)
        case LessonRecorded(lesson=lesson):
            return replace(state, lessons={**state.lessons, topic_of(lesson): lesson})
        case GoalCompleted() as fact:
            return replace(
                state,
                phase=GoalPhase.COMPLETED,
                ended_by=fact.ended_by,
                outcome=fact.outcome,
                message=fact.message,
                completed_at=recorded.recorded_at,
            )
        case _:
            return state


# ---- baselines -----------------------------------------------------------------------------------------------------


def _baseline_moved(state: GoalState, recorded: Recorded[Any]) -> GoalState:
    fact = recorded.fact
    if isinstance(fact, BaselineDue):
        return _baseline_due(state, recorded)
    if not _runs(state.baseline, fact.attempt, state.phase is GoalPhase.BASELINES) or state.settled_by_time:
        return state
    match fact:
        case BaselineChosen(race=race):
            assert state.task is not None
            task = state.task.model_copy(update={"baselines": race.strongest})
            return replace(state, phase=GoalPhase.SEARCHING, task=task)
        case BaselineNotFound(message=message):
            return replace(state, baseline_missing=message) if state.baseline_missing is None else state
        case _:
            assert state.baseline is not None
            return replace(state, baseline=replace(state.baseline, abandoned=True))


def _baseline_due(state: GoalState, due: Recorded[BaselineDue]) -> GoalState:
    again = state.phase is GoalPhase.BASELINES and _may_retry(state.baseline, due.fact.attempt)
    if state.phase is not GoalPhase.WAITING and not again:
        return state
    return replace(
        state,
        phase=GoalPhase.BASELINES,
        task=due.fact.task,
        baseline=Attempt(due.id, due.fact.attempt),
        clock=state.clock or Clock(due.recorded_at),
    )


def _runs(attempt: Attempt | None, number: int, in_phase: bool) -> bool:
    """Attempt `number` is the one under way."""
    return in_phase and attempt is not None and attempt.number == number and not attempt.abandoned


def _may_retry(attempt: Attempt | None, number: int) -> bool:
    return attempt is not None and attempt.abandoned and number == attempt.number + 1


# ---- generations ---------------------------------------------------------------------------------------------------


def _generation_moved(state: GoalState, recorded: Recorded[Any]) -> GoalState:
    if state.phase is not GoalPhase.SEARCHING:
        return state
    fact, generation = recorded.fact, state.generation
    if isinstance(fact, GenerationDue):
        return _generation_due(state, recorded)
    if generation is None or fact.generation != generation.number:
        return state
    if isinstance(fact, GenerationClosed):
        return _generation_closed(state, generation)
    if generation.opened is not None or generation.abandoned or state.settled_by_time:
        return state
    if recorded.envelope.causation_id != generation.due_id:
        return state
    match fact:
        case GenerationOpened(candidate_ids=ids):
            known = tuple(id_ for id_ in ids if id_ in generation.candidates)
            return replace(state, generation=replace(generation, opened=known, exhausted=not known))
        case SearchExhausted():
            return replace(state, generation=replace(generation, opened=(), exhausted=True))
        case _:
            return replace(state, generation=replace(generation, abandoned=True))


def _generation_due(state: GoalState, due: Recorded[GenerationDue]) -> GoalState:
    last, fact = state.generation, due.fact
    new = last is None and fact.generation == state.closed + FIRST_GENERATION
    again = last is not None and last.abandoned and (fact.generation, fact.attempt) == (last.number, last.attempt + 1)
    if not (new or again):
        return state
    return replace(state, generation=Generation(due.id, fact.generation, fact.attempt, {}))


def _generation_closed(state: GoalState, generation: Generation) -> GoalState:
    best = best_of(state.uncounted)
    better = best is not None and best.beats(state.best)
    return replace(
        _counted(state, _admitted_meanwhile(state)),
        generation=None,
        closed=state.closed + 1,
        stagnant=0 if better else state.stagnant + 1,
        exhausted=generation.exhausted,
        tally=state.tally.including(trials(generation)),
    )


def _counted(state: GoalState, carried: Mapping[UUID, CandidateState] = NOBODY) -> GoalState:
    """What was uncounted is counted and remembered, but for those `carried` on; what else is open of it is dropped."""
    settled = {id_: one for id_, one in state.uncounted.items() if id_ not in carried}
    best = best_of(settled)
    if not settled:
        return state
    return replace(
        state,
        submissions=carried,
        past=(*state.past, past_of(settled)),
        counts=state.counts.plus(count(settled.values())),
        submitted=state.submitted + len(state.submissions) - len(carried),
        best=best if best is not None and best.beats(state.best) else state.best,
    )


def _admitted_meanwhile(state: GoalState) -> Mapping[UUID, CandidateState]:
    """Submissions that the desk admitted after the closing was decided and before it was recorded: the next generation
    counts them."""
    if state.settled_by_time:
        return NOBODY
    return {id_: one for id_, one in state.submissions.items() if one.end is None}


def _candidate_proposed(state: GoalState, proposed: Recorded[CandidateProposed]) -> GoalState:
    if proposed.fact.submitted:
        return _submitted(state, proposed)
    generation = state.generation
    if generation is None or state.settled_by_time or proposed.id in generation.candidates:
        return state
    if proposed.envelope.causation_id != generation.due_id or generation.opened is not None:
        return state
    return _with_candidate(state, proposed.id, begun(proposed.fact))


def _submitted(state: GoalState, proposed: Recorded[CandidateProposed]) -> GoalState:
    if state.phase is not GoalPhase.SEARCHING or state.settled_by_time or proposed.id in state.submissions:
        return state
    admitted = replace(state, submissions={**state.submissions, proposed.id: begun(proposed.fact)})
    return _answered(admitted, proposed.id)


def _answered(state: GoalState, answer_id: UUID) -> GoalState:
    return replace(state, answered=state.answered | {answer_id})


def _candidate_moved(state: GoalState, fact: CandidateMove) -> GoalState:
    id_ = fact.candidate_id
    running = state.generation.candidates if state.generation else {}
    candidate = running.get(id_) or state.submissions.get(id_)
    if candidate is None or candidate.end is not None or state.settled_by_time:
        return state
    moved = climbed(candidate, fact)
    return state if moved == candidate else _with_candidate(state, id_, moved)


def _halving_moved(state: GoalState, fact: HalvingMove) -> GoalState:
    generation = state.generation
    if generation is None or fact.generation != generation.number or state.settled_by_time:
        return state
    candidate = generation.candidates.get(fact.candidate_id) or state.submissions.get(fact.candidate_id)
    if candidate is None:
        return state
    moved = looked_again(candidate, fact)
    return state if moved is candidate else _with_candidate(state, fact.candidate_id, moved)


def _with_candidate(state: GoalState, id_: UUID, candidate: CandidateState) -> GoalState:
    if id_ in state.submissions:
        return replace(state, submissions={**state.submissions, id_: candidate})
    assert state.generation is not None
    candidates = {**state.generation.candidates, id_: candidate}
    return replace(state, generation=replace(state.generation, candidates=candidates))


# ---- finals --------------------------------------------------------------------------------------------------------


def _finals_moved(state: GoalState, recorded: Recorded[Any]) -> GoalState:
    fact, finals = recorded.fact, state.finals
    if isinstance(fact, FinalsDue):
        return _finals_due(state, recorded)
    if state.phase is not GoalPhase.FINALS or finals is None or finals.opened is not None or finals.abandoned:
        return state
    if state.settled_by_time or recorded.envelope.causation_id != finals.due_id:
        return state
    match fact:
        case FinalsOpened(candidate_ids=ids):
            known = tuple(id_ for id_ in ids if id_ in finals.finalists)
            return replace(state, finals=replace(finals, opened=known))
        case _:
            return replace(state, finals=replace(finals, abandoned=True))


def _finals_due(state: GoalState, due: Recorded[FinalsDue]) -> GoalState:
    last, fact = state.finals, due.fact
    if state.phase in (GoalPhase.BASELINES, GoalPhase.SEARCHING):
        clock = Clock(due.recorded_at)
    elif state.phase is GoalPhase.FINALS and last and _may_nominate_again(last, fact.attempt):
        clock = state.clock or Clock(due.recorded_at)
    else:
        return state
    return replace(
        _counted(replace(state, generation=None)),
        phase=GoalPhase.FINALS,
        clock=clock,
        finals=Finals(due.id, fact.attempt, {}, last.rejections if last else ()),
        ended_by=fact.ended_by,
    )


def _may_nominate_again(last: Finals, number: int) -> bool:
    return (last.abandoned or last.in_vain) and number == last.attempt + 1


def _finalist_moved(state: GoalState, recorded: Recorded[Any]) -> GoalState:
    fact, finals = recorded.fact, state.finals
    if state.phase is not GoalPhase.FINALS or finals is None or fact.attempt != finals.attempt or finals.abandoned:
        return state
    if state.settled_by_time:
        return state
    known = finals.finalists.get(fact.candidate_id)
    match fact:
        case FinalistNominated(build=build, search_ratio=ratio):
            if known is not None or recorded.envelope.causation_id != finals.due_id:
                return state
            moved = FinalistState(build, ratio)
        case _ if known is None or known.end is not None:
            return state
        case FinalistProven(build=build):
            moved = replace(known, end=End.PROVEN, build=build)
        case FinalistRejected(reason=reason, counterexample=counterexample):
            moved = replace(known, end=End.REJECTED, reason=reason, counterexample=counterexample)
        case _:
            moved = replace(known, end=End.ABANDONED)
    return replace(state, finals=replace(finals, finalists={**finals.finalists, fact.candidate_id: moved}))


def _race_moved(state: GoalState, recorded: Recorded[Any]) -> GoalState:
    fact = recorded.fact
    if isinstance(fact, RaceDue):
        again = state.phase is GoalPhase.RACING and _may_retry(state.race_due, fact.attempt)
        if state.phase is not GoalPhase.FINALS and not again:
            return state
        return replace(state, phase=GoalPhase.RACING, race_due=Attempt(recorded.id, fact.attempt))
    if isinstance(fact, ChampionCrowned):
        if state.race is None or state.champion_id is not None:
            return state
        return replace(state, champion_id=fact.candidate_id, champion=fact.comparison)
    if not _runs(state.race_due, fact.attempt, state.phase is GoalPhase.RACING) or state.race is not None:
        return state
    if state.settled_by_time:
        return state
    if isinstance(fact, RaceFinished):
        return replace(state, race=fact.race)
    assert state.race_due is not None
    return replace(state, race_due=replace(state.race_due, abandoned=True))
