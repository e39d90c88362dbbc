"""What is due next for one goal: one short function per phase of its path (architecture.md, The path of a goal)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kernel_lab.workloads import WORKLOADS
from schemas.enums import EndedBy, Outcome
from schemas.envelope import Draft, due
from schemas.events import (
    BaselineDue,
    ChampionCrowned,
    Contestant,
    CounterexampleKept,
    Fact,
    FinalsDue,
    GenerationClosed,
    GenerationDue,
    GoalCompleted,
    LessonRecorded,
    MeasurementRequested,
    RaceDue,
)
from schemas.measurement import Entrant
from schemas.work import Counterexample, MachineClass, Task
from services.evidence import goal_fold, halving, lessons
from services.evidence.goal_parts import CandidateState, FinalistState, Generation, GoalPhase, best_of, count
from services.evidence.goal_state import ATTEMPTS, FIRST_GENERATION, GoalState
from services.librarian.assignment import generation_seed, task_for
from services.librarian.crown import rule
from services.librarian.fitting import as_baseline, that_fit

Drafts = tuple[Draft[Any], ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the log knows beside the goal itself, at the position of the decision."""

    position: int
    task: Task | None
    """As pinned, or as it would be pinned now; None while no route is available."""
    counterexamples: tuple[Counterexample, ...]
    incumbent: Contestant | None
    withdrawn: frozenset[str] = frozenset()
    """Inputs that shall not be kept again, as `input_of` names them."""


def decide(goal: GoalState, evidence: Evidence) -> Drafts:
    """What is due for `goal` at `evidence.position`; nothing while its work is under way."""
    if goal.cancelled:
        return (_completed(goal, EndedBy.CANCELLED, Outcome.NONE, "cancelled"),)
    match goal.phase:
        case GoalPhase.WAITING:
            return _waiting(goal, evidence)
        case GoalPhase.BASELINES:
            return _baselines(goal, evidence)
        case GoalPhase.SEARCHING:
            return _searching(goal, evidence)
        case GoalPhase.FINALS:
            return _finals(goal, evidence)
        case GoalPhase.RACING:
            return _racing(goal, evidence)
        case GoalPhase.COMPLETED:
            return ()


# ---- before the search ---------------------------------------------------------------------------------------------


def _waiting(goal: GoalState, evidence: Evidence) -> Drafts:
    if goal.stopped:  # no route was pinned, so nothing can be asked of anyone: the one stop that has no finals
        return (_completed(goal, EndedBy.STOPPED, Outcome.NONE, "stopped while it waited for a route"),)
    if goal.goal.workload not in WORKLOADS:
        return (_failed(goal, f"workload {goal.goal.workload} is not installed any more"),)
    if evidence.task is None:
        return ()
    return (_baseline_due(goal, evidence, evidence.task, 0),)


def first_task(goal: GoalState, machine: MachineClass | None) -> Task | None:
    """What `goal` would be pinned to if it started now on `machine`, the best route available for its target."""
    workload = WORKLOADS.get(goal.goal.workload)
    if workload is None or machine is None:
        return None
    return task_for(goal.goal_id, goal.goal, workload, machine)


def _baselines(goal: GoalState, evidence: Evidence) -> Drafts:
    assert goal.baseline is not None
    assert goal.task is not None
    if goal.baseline_missing is not None:
        return (_failed(goal, f"no baseline to compare with: {goal.baseline_missing}"),)
    if goal.settled_by_time or (goal.stopped and goal.baseline.abandoned):
        return (_finals_due(goal, evidence, _ending(goal) or EndedBy.STOPPED, 0),)
    if not goal.baseline.abandoned:
        return ()
    if goal.baseline.number + 1 == ATTEMPTS:
        return (_failed(goal, f"the baselines could not be raced in {ATTEMPTS} attempts"),)
    return (_baseline_due(goal, evidence, goal.task, goal.baseline.number + 1),)


def _baseline_due(goal: GoalState, evidence: Evidence, task: Task, attempt: int) -> Draft[Any]:
    fact = BaselineDue(
        goal_id=goal.goal_id,
        position=evidence.position,
        attempt=attempt,
        champion=as_baseline(evidence.incumbent, task),
        task=_informed(task, evidence),
    )
    return _state(goal, "baseline", fact, attempt)


# ---- the search ----------------------------------------------------------------------------------------------------


def _searching(goal: GoalState, evidence: Evidence) -> Drafts:
    generation = goal.generation
    if generation is None:
        ended_by = _ending(goal)
        if ended_by is not None:
            return _search_ended(goal, evidence, ended_by)
        return (_generation_due(goal, evidence, goal.closed + FIRST_GENERATION, 0),)
    if generation.abandoned:
        return _generation_lost(goal, generation, evidence)
    if goal.settled_by_time:
        return _closing(goal, generation, evidence)
    return _halving(goal, generation, evidence) if generation.settled and goal.submissions_settled else ()


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
    return _state(goal, f"measurement.{candidate_id}", fact, round_)


def _search_ended(goal: GoalState, evidence: Evidence, ended_by: EndedBy) -> Drafts:
    """Finals, once what was submitted between two generations is settled as well."""
    if not (goal.submissions_settled or goal.settled_by_time):
        return ()
    return (*_kept(goal, goal.submissions, evidence), _finals_due(goal, evidence, ended_by, 0))


def _ending(goal: GoalState) -> EndedBy | None:
    """Why the search is over, when it is."""
    target = goal.goal.objective.stop_at
    budget = goal.goal.budget
    if target is not None and goal.best is not None and goal.best[1] >= target:
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
        task=_informed(goal.task, evidence),
    )
    return _state(goal, "generation", fact, number * ATTEMPTS + attempt)


def _generation_lost(goal: GoalState, generation: Generation, evidence: Evidence) -> Drafts:
    if goal.stopped or goal.settled_by_time:
        return _search_ended(goal, evidence, _ending(goal) or EndedBy.STOPPED)
    if generation.attempt + 1 == ATTEMPTS:
        return (_failed(goal, f"generation {generation.number} could not be proposed in {ATTEMPTS} attempts"),)
    return (_generation_due(goal, evidence, generation.number, generation.attempt + 1),)


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
        best_candidate=best[0] if best else None,
        best_search_ratio=best[1] if best else None,
    )
    return (
        *_kept(goal, members, evidence),
        *_lessons(goal, generation),
        _state(goal, "generation.closed", closed, generation.number),
    )


def _kept(goal: GoalState, caught: Mapping[UUID, CandidateState | FinalistState], evidence: Evidence) -> Drafts:
    """Inputs that caught somebody and that nobody kept before, each naming the candidate it first caught."""
    known = {input_of(one) for one in evidence.counterexamples} | evidence.withdrawn
    new: dict[str, Counterexample] = {}
    for candidate_id, judged in caught.items():
        one = judged.counterexample
        if one is not None and input_of(one) not in known:
            new.setdefault(input_of(one), one.model_copy(update={"found_by": one.found_by or candidate_id}))
    return tuple(
        _state(goal, f"counterexample.{input_}", CounterexampleKept(goal_id=goal.goal_id, counterexample=one))
        for input_, one in new.items()
    )


def input_of(found: Counterexample) -> str:
    """What makes two counterexamples the same: the input, whoever found it."""
    axes = ",".join(f"{name}{size}" for name, size in sorted(found.axes.items()))
    return f"{found.workload}|{axes}|{found.distribution}|{found.seed}|{found.alignment}"


def _lessons(goal: GoalState, generation: Generation) -> Drafts:
    assert goal.task is not None
    tally = goal.tally.including(goal_fold.trials(generation))
    return tuple(
        _state(
            goal,
            f"lesson.{new.topic}",
            LessonRecorded(
                goal_id=goal.goal_id, generation=generation.number, lesson=new.lesson, evidence=new.evidence
            ),
            generation.number,
        )
        for new in lessons.news(tally, goal.lessons, goal.task)
    )


# ---- finals and race -----------------------------------------------------------------------------------------------


def _finals_due(goal: GoalState, evidence: Evidence, ended_by: EndedBy, attempt: int) -> Draft[Any]:
    assert goal.task is not None
    fact = FinalsDue(
        goal_id=goal.goal_id,
        attempt=attempt,
        position=evidence.position,
        ended_by=ended_by,
        finalists=goal.goal.finals.finalists,
        task=_informed(goal.task, evidence),
    )
    return _state(goal, "finals", fact, attempt)


def _finals(goal: GoalState, evidence: Evidence) -> Drafts:
    finals = goal.finals
    assert finals is not None
    assert goal.ended_by is not None
    if goal.settled_by_time:
        return (_out_of_time(goal),)
    if finals.abandoned:
        if finals.attempt + 1 == ATTEMPTS:
            return (_failed(goal, f"no finalists could be nominated in {ATTEMPTS} attempts"),)
        return (_finals_due(goal, evidence, goal.ended_by, finals.attempt + 1),)
    if not finals.settled:
        return ()
    kept = _kept(goal, finals.members(), evidence)
    if finals.proven():
        return (*kept, _race_due(goal, evidence, 0))
    message = f"{len(finals.members())} nominated, none proven" if finals.opened else _why_none_was_nominated(goal)
    return (*kept, _completed(goal, goal.ended_by, Outcome.NO_VERIFIED_IMPROVEMENT, message))


def _why_none_was_nominated(goal: GoalState) -> str:
    counts, leader = goal.counts_so_far, goal.leader
    if leader is not None:
        return f"nothing was worth nominating: the best search ratio was {leader[1]:.3f}×"
    if counts.measured:
        return f"no number for any of {counts.measured} measured candidates: the machine was unfit or disturbed"
    if counts.verified:
        return f"the search was over before any of {counts.verified} verified candidates was measured"
    return f"none of {counts.proposed} candidates was verified"


def _race_due(goal: GoalState, evidence: Evidence, attempt: int) -> Draft[Any]:
    assert goal.task is not None
    assert goal.finals is not None
    contestants = tuple(
        Contestant(candidate_id=id_, build=finalist.build, search_ratio=finalist.search_ratio)
        for id_, finalist in goal.finals.proven().items()
    )
    task = _informed(goal.task, evidence)
    fitting, incumbent = that_fit(contestants, evidence.incumbent, task)
    fact = RaceDue(
        goal_id=goal.goal_id,
        attempt=attempt,
        position=evidence.position,
        contestants=fitting,
        incumbent=incumbent,
        task=task,
    )
    return _state(goal, "race", fact, attempt)


def _racing(goal: GoalState, evidence: Evidence) -> Drafts:
    assert goal.race_due is not None
    if goal.race is not None:
        return _ruled(goal)
    if goal.settled_by_time:
        return (_out_of_time(goal),)
    if not goal.race_due.abandoned:
        return ()
    if goal.race_due.number + 1 == ATTEMPTS:
        return (_failed(goal, f"the race could not be run in {ATTEMPTS} attempts"),)
    return (_race_due(goal, evidence, goal.race_due.number + 1),)


def _ruled(goal: GoalState) -> Drafts:
    assert goal.race is not None
    assert goal.ended_by is not None
    assert goal.finals is not None
    if goal.quarantined and goal.goal.finals.confirmation > 0 and not goal.settled_by_time:
        return ()  # for a person, until the deadline
    proven = goal.finals.proven()
    entrants = tuple(entrant for entrant in goal.race.entrants if entrant.candidate_id in proven)
    race = goal.race.model_copy(update={"entrants": entrants})  # only a race among the proven crowns a champion
    ruling = rule(race, goal.goal.objective.min_gain, goal.confirmed)
    champion_id = ruling.winner.candidate_id if ruling.winner else None
    completed = _completed(goal, goal.ended_by, ruling.outcome, ruling.message, champion_id)
    if ruling.winner is None or goal.champion_id is not None:
        return (completed,)
    return (_crowned(goal, ruling.winner), completed)


def _crowned(goal: GoalState, winner: Entrant) -> Draft[Any]:
    assert goal.task is not None
    assert goal.finals is not None
    build = goal.finals.finalists[winner.candidate_id].build
    fact = ChampionCrowned(
        goal_id=goal.goal_id,
        candidate_id=winner.candidate_id,
        workload=goal.task.workload,
        route=goal.task.route,
        build=build,
        comparison=winner.comparison.model_copy(update={"pairs": ()}),  # raw samples stay in race.finished, its cause
        search_ratio=winner.search_ratio,
        lessons=lessons.statements_met(goal.lessons.values(), build.kernel.genome),
    )
    return _state(goal, "champion", fact)


# ---- the end -------------------------------------------------------------------------------------------------------


def _out_of_time(goal: GoalState) -> Draft[Any]:
    nominated = goal.finals is not None and bool(goal.finals.finalists)
    outcome = Outcome.NONE if nominated else Outcome.NO_VERIFIED_IMPROVEMENT
    message = "the finals' deadline passed " + ("before a verdict" if nominated else "with nothing nominated")
    return _completed(goal, EndedBy.TIMED_OUT, outcome, message)


def _failed(goal: GoalState, message: str) -> Draft[Any]:
    return _completed(goal, EndedBy.FAILED, Outcome.NONE, message)


def _completed(
    goal: GoalState, ended_by: EndedBy, outcome: Outcome, message: str, champion_id: UUID | None = None
) -> Draft[Any]:
    fact = GoalCompleted(
        goal_id=goal.goal_id, ended_by=ended_by, outcome=outcome, champion_id=champion_id, message=message
    )
    return _state(goal, "completed", fact)


def _state(goal: GoalState, slot: str, fact: Fact, n: int = 0) -> Draft[Any]:
    return due(goal.goal_id, slot, fact, n, because=goal.last_id)


def _informed(task: Task, evidence: Evidence) -> Task:
    return informed(task, evidence.counterexamples)


def informed(task: Task, counterexamples: tuple[Counterexample, ...]) -> Task:
    """`task` with the counterexamples known now."""
    return task.model_copy(update={"counterexamples": counterexamples})
