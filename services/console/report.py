"""A goal's report: a pure function of its facts."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, TypeVar
from uuid import UUID

from schemas.enums import Language, Reason, Stage
from schemas.envelope import Recorded
from schemas.events import (
    BaselineChosen,
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    ChampionCrowned,
    Fact,
    FinalistAbandoned,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    GenerationClosed,
    GoalAccepted,
    GoalCompleted,
    GoalSteered,
    LessonRecorded,
    MachineObserved,
    MeasurementRefused,
    RaceFinished,
)
from schemas.faults import Misconfigured
from schemas.measurement import BaselineRace, Comparison, Contender, MachineProfile, ShapeResult
from schemas.work import Baseline, Kernel, gene_text
from services.console.report_model import (
    BaselineReport,
    ChampionReport,
    FinalistReport,
    GoalReport,
    LessonReport,
    RejectReport,
    ShapeTimes,
    SourceChange,
    Stated,
    SteerReport,
    TallyReport,
)
from services.console.units import span_text
from services.evidence.worth import worth_of

F = TypeVar("F", bound=Fact)
Terminal = CandidateMeasured | MeasurementRefused | CandidateRejected | CandidateAbandoned


class GoalFacts:
    """The facts of one goal, by kind, and of the machines it ran on. A second terminal fact of a candidate is late."""

    def __init__(self, facts: Iterable[Recorded[Any]]) -> None:
        self._by_type: dict[type[Fact], list[Recorded[Any]]] = {}
        self.ends: dict[UUID, Terminal] = {}
        self._looks: dict[UUID, list[Comparison]] = {}
        for recorded in sorted(facts, key=lambda one: one.position):
            self._by_type.setdefault(type(recorded.fact), []).append(recorded)
            if isinstance(recorded.fact, CandidateMeasured | CandidateRejected | CandidateAbandoned):
                self.ends.setdefault(recorded.fact.candidate_id, recorded.fact)
            if isinstance(recorded.fact, CandidateMeasured | CandidateRemeasured):
                self._looks.setdefault(recorded.fact.candidate_id, []).append(recorded.fact.comparison)
            if isinstance(recorded.fact, MeasurementRefused):
                self.ends[recorded.fact.candidate_id] = recorded.fact

    def recorded(self, type_: type[F]) -> Sequence[Recorded[F]]:
        return self._by_type.get(type_, [])

    def all(self, type_: type[F]) -> list[F]:
        return [recorded.fact for recorded in self.recorded(type_)]

    def last(self, type_: type[F]) -> F | None:
        return next((recorded.fact for recorded in reversed(self.recorded(type_))), None)

    def search_of(self, candidate_id: UUID) -> Comparison | None:
        """What the search measured of a candidate, at its longest look that gave a number."""
        if not isinstance(self.ends.get(candidate_id), CandidateMeasured):
            return None
        looks = self._looks[candidate_id]
        return next((look for look in reversed(looks) if look.ratio is not None), looks[-1])

    def leader(self) -> Comparison | None:
        """Of the candidate that is worth most among those that were measured longest."""
        known = [
            (sum(look.ratio is not None for look in self._looks[id_]), worth, search)
            for id_ in self._looks
            if (search := self.search_of(id_)) is not None and (worth := worth_of(search)) is not None
        ]
        return max(known, key=lambda row: row[:2])[2] if known else None


def report_goal(goal_id: str, recorded: Iterable[Recorded[Any]]) -> GoalReport:
    """The report of a goal, from its facts and every machine.observed. Raises Misconfigured for an unknown goal."""
    facts = GoalFacts(recorded)
    accepted = next(iter(facts.recorded(GoalAccepted)), None)
    if accepted is None:
        raise Misconfigured(f"no goal {goal_id} in the log; `assay goal list` shows which there are")
    goal = accepted.fact.goal
    race, completed = facts.last(RaceFinished), facts.last(GoalCompleted)
    baselines = facts.last(BaselineChosen)
    first = next(iter(facts.all(CandidateProposed)), None)
    champion = facts.last(ChampionCrowned)
    return GoalReport(
        goal_id=goal_id,
        name=goal.name,
        workload=goal.workload,
        target=goal.target,
        route=first.task.route if first else champion.route if champion else None,
        regime=goal.objective.regime,
        shapes=_shapes(facts),
        accepted_at=accepted.recorded_at,
        completed_at=facts.recorded(GoalCompleted)[-1].recorded_at if completed else None,
        ended_by=completed.ended_by if completed else None,
        outcome=completed.outcome if completed else None,
        message=completed.message if completed else "",
        hold_out_gap_s=race.race.hold_out_gap_s if race else goal.finals.hold_out_gap,
        champion=_champion(champion, facts) if champion else None,
        finalists=_finalists(facts),
        best_search=_best_search(facts),
        a_a=stated(race.race.a_a) if race else None,
        baselines=_baselines(baselines.race) if baselines else (),
        roofs=baselines.race.roofs if baselines else (),
        tally=_tally(facts),
        rejects=_rejects(facts),
        lessons=_lessons(facts, champion),
        steers=tuple(_steer(recorded) for recorded in facts.recorded(GoalSteered)),
        machine=_machine(facts),
    )


def _steer(recorded: Recorded[GoalSteered]) -> SteerReport:
    fact = recorded.fact
    return SteerReport(at=recorded.recorded_at, action=fact.action, what=steer_text(fact), reason=fact.reason)


def steer_text(fact: GoalSteered) -> str:
    """What a steer adds, advises, pins or bans, in words."""
    if fact.extend is not None:
        more = fact.extend
        parts = (f"{more.candidates} candidates", span_text(more.wall), f"{more.stagnation} generations of patience")
        given = (more.candidates, more.wall, more.stagnation)
        return ", ".join(part for part, amount in zip(parts, given, strict=True) if amount)
    if fact.hint is not None:
        region = " ".join(f"{name}={','.join(map(gene_text, values))}" for name, values in fact.hint.include.items())
        return " · ".join(part for part in (fact.hint.text, region) if part)
    return str(fact.ban or fact.pin or "")


def stated(comparison: Comparison) -> Stated:
    """The ratio of a comparison with all that belongs to it."""
    return Stated(
        kind=comparison.kind,
        verdict=comparison.verdict,
        ratio=comparison.ratio,
        against=tuple(dict.fromkeys(row.baseline for row in comparison.shapes)),
        regime=comparison.regime,
        machine=comparison.machine,
        noise_floor=comparison.noise_floor,
        note=comparison.note,
    )


def shape_text(axes: dict[str, int]) -> str:
    """`T16×H1024`, as goals write shapes."""
    return "×".join(f"{name}{size}" for name, size in axes.items())


def source_change(baseline: Baseline | None, kernel: Kernel) -> SourceChange:
    """How `kernel` differs from the baseline's source, where there is one."""
    lines = len(kernel.source.splitlines())
    if baseline is None:
        return SourceChange(baseline="none", summary=f"{lines} lines of {kernel.language}", diff="")
    if baseline.artifact is None or baseline.artifact.kernel.language is not Language.C:
        summary = f"{baseline.name} is a library call; the champion is {lines} lines of {kernel.language}"
        return SourceChange(baseline=baseline.name, summary=summary, diff="")
    theirs = baseline.artifact.kernel
    diff = list(
        difflib.unified_diff(
            theirs.source.splitlines(), kernel.source.splitlines(), baseline.name, "champion", lineterm=""
        )
    )
    added = sum(line.startswith("+") for line in diff[2:])
    removed = sum(line.startswith("-") for line in diff[2:])
    flags = f"flags {' '.join(theirs.flags) or 'none'} → {' '.join(kernel.flags) or 'none'}"
    summary = f"{added} lines added, {removed} removed; threads {theirs.threads} → {kernel.threads}; {flags}"
    return SourceChange(baseline=baseline.name, summary=summary, diff="\n".join(diff))


def _champion(crowned: ChampionCrowned, facts: GoalFacts) -> ChampionReport:
    kernel = crowned.build.kernel
    search = facts.search_of(crowned.candidate_id)
    proposed = {one.id: one.fact for one in facts.recorded(CandidateProposed)}.get(crowned.candidate_id)
    return ChampionReport(
        candidate_id=crowned.candidate_id,
        strategy=proposed.strategy if proposed else "",
        author=proposed.author if proposed else "",
        variant=kernel.variant,
        genome=kernel.genome,
        threads=kernel.threads,
        flags=kernel.flags,
        source=kernel.source,
        hold_out=stated(crowned.comparison),
        search=stated(search) if search else None,
        shrinkage=_shrinkage(search, crowned.comparison),
        shapes=tuple(map(_times, crowned.comparison.shapes)),
        change=source_change(_heaviest_baseline(facts), kernel),
        lessons=crowned.lessons,
    )


def _times(row: ShapeResult) -> ShapeTimes:
    return ShapeTimes(
        shape=shape_text(row.axes),
        weight=row.weight,
        baseline=row.baseline,
        baseline_ns=row.baseline_ns,
        champion_ns=row.candidate_ns,
        roof_ns=row.roof_ns,
        roof_fraction=row.roof_ns / row.candidate_ns if row.roof_ns else None,
    )


def _shrinkage(search: Comparison | None, hold_out: Comparison) -> float | None:
    if search is None or search.ratio is None or hold_out.ratio is None:
        return None
    return 1 - hold_out.ratio.estimate / search.ratio.estimate


def _heaviest_baseline(facts: GoalFacts) -> Baseline | None:
    """The strongest baseline of the shape that weighs most in the goal."""
    chosen, first = facts.last(BaselineChosen), next(iter(facts.all(CandidateProposed)), None)
    if chosen is None or not chosen.race.strongest:
        return None
    weights = {shape_text(shape.axes): shape.weight for shape in (first.task.shapes if first else ())}
    return max(chosen.race.strongest, key=lambda baseline: weights.get(shape_text(baseline.axes), 0.0))


def _finalists(facts: GoalFacts) -> tuple[FinalistReport, ...]:
    nominated = {fact.candidate_id: fact for fact in facts.all(FinalistNominated)}
    return tuple(_finalist(fact, facts) for fact in sorted(nominated.values(), key=lambda fact: fact.rank))


def _finalist(nominated: FinalistNominated, facts: GoalFacts) -> FinalistReport:
    id_ = nominated.candidate_id
    race, crowned = facts.last(RaceFinished), facts.last(ChampionCrowned)
    raced = {entrant.candidate_id: entrant for entrant in race.race.entrants} if race else {}
    rejected = {fact.candidate_id: fact for fact in facts.all(FinalistRejected)}
    abandoned = {fact.candidate_id: fact for fact in facts.all(FinalistAbandoned)}
    proven = {fact.candidate_id for fact in facts.all(FinalistProven)}
    search = facts.search_of(id_)
    hold_out = raced[id_].comparison if id_ in raced else None
    report = FinalistReport(
        candidate_id=id_,
        rank=nominated.rank,
        status="nominated",
        search=stated(search) if search else None,
        hold_out=stated(hold_out) if hold_out else None,
    )
    if crowned is not None and crowned.candidate_id == id_:
        return report.model_copy(update={"status": "champion"})
    if id_ in raced:
        return report.model_copy(update={"status": "raced"})
    if id_ in proven:
        return report.model_copy(update={"status": "proven"})
    if id_ in rejected:
        why = f"{rejected[id_].reason}: {rejected[id_].message}"
        return report.model_copy(update={"status": "rejected", "message": why})
    if id_ in abandoned:
        return report.model_copy(update={"status": "abandoned", "message": abandoned[id_].message})
    return report


def _best_search(facts: GoalFacts) -> Stated | None:
    leader = facts.leader()
    return stated(leader) if leader else None


def _baselines(race: BaselineRace) -> tuple[BaselineReport, ...]:
    """Every contender, the winners first, then by time."""
    rows = [_baseline(contender, race) for contender in race.contenders]
    return tuple(sorted(rows, key=lambda row: (-len(row.won), not row.median_ns, sum(row.median_ns), row.name)))


def _baseline(contender: Contender, race: BaselineRace) -> BaselineReport:
    won = tuple(shape_text(baseline.axes) for baseline in race.strongest if baseline.name == contender.name)
    return BaselineReport(
        name=contender.name,
        description=contender.description,
        status=contender.status,
        message=contender.message,
        median_ns=contender.median_ns,
        won=won,
    )


def _tally(facts: GoalFacts) -> TallyReport:
    ends = list(facts.ends.values())
    return TallyReport(
        generations=len(facts.all(GenerationClosed)),
        proposed=len(facts.all(CandidateProposed)),
        compiled=len(facts.all(CandidateCompiled)),
        verified=len(facts.all(CandidateVerified)),
        measured=sum(isinstance(end, CandidateMeasured) for end in ends),
        rejected=sum(isinstance(end, CandidateRejected | MeasurementRefused) for end in ends),
        abandoned=sum(isinstance(end, CandidateAbandoned) for end in ends),
    )


def _rejects(facts: GoalFacts) -> tuple[RejectReport, ...]:
    """By stage on the path, then the commonest reason first."""
    searched = [
        (end.stage, end.reason, end.candidate_id, end.message)
        for end in facts.ends.values()
        if isinstance(end, CandidateRejected | MeasurementRefused)
    ]
    proved = [(Stage.PROVE, f.reason, f.candidate_id, f.message) for f in facts.all(FinalistRejected)]
    rows = [_reject(list(group)) for _, group in groupby(sorted(searched + proved, key=_kind), key=_kind)]
    order = list(Stage)
    return tuple(sorted(rows, key=lambda row: (order.index(row.stage), -row.count, row.reason)))


def _kind(reject: tuple[Stage, Reason, UUID, str]) -> tuple[str, str]:
    return (reject[0], reject[1])


def _reject(alike: Sequence[tuple[Stage, Reason, UUID, str]]) -> RejectReport:
    stage, reason, example, message = alike[0]
    return RejectReport(stage=stage, reason=reason, count=len(alike), example=example, message=message)


def _lessons(facts: GoalFacts, champion: ChampionCrowned | None) -> tuple[LessonReport, ...]:
    """The latest on each topic; what the champion used comes first."""
    used = set(champion.lessons) if champion else set()
    latest = {}
    for fact in facts.all(LessonRecorded):
        lesson = fact.lesson
        latest[(tuple(sorted(lesson.condition.items())), lesson.effect is None)] = lesson
    rows = [
        LessonReport(
            statement=lesson.statement,
            condition=lesson.condition,
            effect=lesson.effect,
            count=lesson.count,
            failures=lesson.failures,
            used_by_champion=lesson.statement in used,
        )
        for lesson in latest.values()
    ]
    return tuple(sorted(rows, key=lambda row: not row.used_by_champion))


def _shapes(facts: GoalFacts) -> tuple[str, ...]:
    first = next(iter(facts.all(CandidateProposed)), None)
    if first is not None:
        return tuple(shape_text(shape.axes) for shape in first.task.shapes)
    asked = facts.all(GoalAccepted)[0].goal.shapes
    return (asked,) if isinstance(asked, str) else tuple(shape_text(shape.axes) for shape in asked)


def _machine(facts: GoalFacts) -> MachineProfile | None:
    """The goal's machine as it was last seen before it was raced on: what it became later is another story."""
    raced: list[Recorded[RaceFinished | BaselineChosen]] = []
    raced += [*facts.recorded(RaceFinished)[-1:], *facts.recorded(BaselineChosen)[-1:]]
    if not raced:
        return None
    place, until = raced[0].fact.race.machine, raced[0].position
    seen = [one.fact.profile for one in facts.recorded(MachineObserved) if one.position < until]
    there = [profile for profile in seen if f"{profile.machine.route}/{profile.host}" == place]
    calibrated = [profile for profile in there if profile.fit is not None]
    known = calibrated or there
    return known[-1] if known else None
