"""What is due between the end of the search and the end of the goal. Pure."""

from collections import Counter
from typing import Any

from schemas.enums import EndedBy, Outcome
from schemas.envelope import Draft
from schemas.events import ChampionCrowned, FinalsDue, RaceDue
from schemas.measurement import Entrant
from schemas.work import Contestant
from services.evidence import lessons
from services.evidence.goal_parts import End, Finals
from services.evidence.goal_state import ATTEMPTS, GoalState
from services.librarian.catches import newly_kept
from services.librarian.crown import rule
from services.librarian.dues import Drafts, Evidence, completed, failed, informed, state
from services.librarian.fitting import that_fit


def finals_due(goal: GoalState, evidence: Evidence, ended_by: EndedBy, attempt: int) -> Draft[Any]:
    assert goal.task is not None
    fact = FinalsDue(
        goal_id=goal.goal_id,
        attempt=attempt,
        position=evidence.position,
        ended_by=ended_by,
        finalists=goal.goal.finals.finalists,
        task=informed(goal.task, evidence.counterexamples),
    )
    return state(goal, "finals", fact, attempt)


def in_finals(goal: GoalState, evidence: Evidence) -> Drafts:
    finals = goal.finals
    assert finals is not None
    assert goal.ended_by is not None
    if goal.settled_by_time:
        return (_out_of_time(goal),)
    if finals.abandoned:
        if finals.attempt + 1 == ATTEMPTS:
            return (failed(goal, f"no finalists could be nominated in {ATTEMPTS} attempts"),)
        return (finals_due(goal, evidence, goal.ended_by, finals.attempt + 1),)
    if not finals.settled:
        return ()
    kept = newly_kept(goal, finals.members(), evidence)
    if finals.proven():
        return (*kept, _race_due(goal, evidence, 0))
    if kept:
        return kept  # whoever comes next is tried on them first
    if finals.in_vain and finals.attempt + 1 < ATTEMPTS:
        return (finals_due(goal, evidence, goal.ended_by, finals.attempt + 1),)
    message = _why_none_was_proven(finals) if finals.opened or finals.earlier else _why_none_was_nominated(goal)
    return (completed(goal, goal.ended_by, Outcome.NO_VERIFIED_IMPROVEMENT, message),)


def _why_none_was_proven(finals: Finals) -> str:
    abandoned = sum(one.end is End.ABANDONED for one in finals.members().values())
    reasons = Counter(reason.value for reason in finals.rejections) + Counter(abandoned=abandoned)
    told = ", ".join(f"{n} {reason}" for reason, n in reasons.items())
    return f"{reasons.total()} nominated, none proven: {told}"


def _why_none_was_nominated(goal: GoalState) -> str:
    counts, leader = goal.counts_so_far, goal.leader
    if leader is not None:
        return f"nothing was worth nominating: the best search ratio was {leader.search_ratio:.3f}×"
    if counts.measured:
        return f"no number for any of {counts.measured} measured candidates: the machine was unfit or disturbed"
    if counts.verified:
        return f"the search was over before any of {counts.verified} verified candidates was measured"
    return f"none of {counts.proposed} candidates was verified"


def racing(goal: GoalState, evidence: Evidence) -> Drafts:
    assert goal.race_due is not None
    if goal.race is not None:
        return _ruled(goal)
    if goal.settled_by_time:
        return (_out_of_time(goal),)
    if not goal.race_due.abandoned:
        return ()
    if goal.race_due.number + 1 == ATTEMPTS:
        return (failed(goal, f"the race could not be run in {ATTEMPTS} attempts"),)
    return (_race_due(goal, evidence, goal.race_due.number + 1),)


def _race_due(goal: GoalState, evidence: Evidence, attempt: int) -> Draft[Any]:
    assert goal.task is not None
    assert goal.finals is not None
    contestants = tuple(
        Contestant(candidate_id=id_, build=finalist.build, search_ratio=finalist.search_ratio)
        for id_, finalist in goal.finals.proven().items()
    )
    task = informed(goal.task, evidence.counterexamples)
    fitting, incumbent = that_fit(contestants, evidence.incumbent, task)
    fact = RaceDue(
        goal_id=goal.goal_id,
        attempt=attempt,
        position=evidence.position,
        contestants=fitting,
        incumbent=incumbent,
        task=task,
    )
    return state(goal, "race", fact, attempt)


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
    end = completed(goal, goal.ended_by, ruling.outcome, ruling.message, champion_id)
    if ruling.winner is None or goal.champion_id is not None:
        return (end,)
    return (_crowned(goal, ruling.winner), end)


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
    return state(goal, "champion", fact)


def _out_of_time(goal: GoalState) -> Draft[Any]:
    nominated = goal.finals is not None and bool(goal.finals.finalists)
    outcome = Outcome.NONE if nominated else Outcome.NO_VERIFIED_IMPROVEMENT
    message = "the finals' deadline passed " + ("before a verdict" if nominated else "with nothing nominated")
    return completed(goal, EndedBy.TIMED_OUT, outcome, message)
