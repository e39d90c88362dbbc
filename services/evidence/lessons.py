"""Lessons: what a goal's candidates say about a gene value, with an interval or with failures. Computed, never written.

Search ratios of one goal share baseline, shapes and machine, so they may be compared with each other. They stay search
numbers: a lesson guides proposals and explains a champion; it is not a result.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from scipy.special import stdtrit

from schemas.enums import Reason
from schemas.lesson import Lesson
from schemas.measurement import Interval
from schemas.work import Genome, Task, gene_text

ENOUGH = 3
"""Candidates on each side of a comparison, and rejections behind a failure lesson. Chosen: below three, a variance is a
guess."""
LEVEL = 0.99
"""Chosen: a space has about fifty gene values, so at 99 % a goal learns about one accident in two generations."""
MOSTLY = 0.5
"""Share of its candidates that a gene value must lose to be worth a failure lesson. Chosen."""
EVIDENCE_NAMED = 64


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """A genome holds this value of this gene."""

    gene: str
    value: str

    def met_by(self, genome: Genome) -> bool:
        return self.gene in genome and gene_text(genome[self.gene]) == self.value


@dataclass(frozen=True, slots=True, order=True)
class Topic:
    """What a lesson is about; a newer lesson on the same topic supersedes it."""

    condition: Condition
    about_failures: bool

    def __str__(self) -> str:
        return f"{self.condition.gene}={self.condition.value}{'.failures' if self.about_failures else ''}"


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate whose work is settled, as far as lessons care. Abandoned ones are nobody's fault: both are None."""

    candidate_id: UUID
    genome: Genome
    search_ratio: float | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, sum and sum of squares of log search ratios."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, log_ratio: float) -> "Moments":
        return Moments(self.count + 1, self.total + log_ratio, self.squares + log_ratio * log_ratio)

    def minus(self, part: "Moments") -> "Moments":
        return Moments(self.count - part.count, self.total - part.total, self.squares - part.squares)

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def variance_of_mean(self) -> float:
        spread = max(0.0, self.squares - self.total * self.mean)
        return spread / (self.count - 1) / self.count


@dataclass(frozen=True, slots=True)
class Record:
    """Everything counted under one condition."""

    measured: Moments = Moments()
    failures: Mapping[str, int] = field(default_factory=dict)
    trials: int = 0
    """Measured and rejected."""
    evidence: tuple[UUID, ...] = ()

    def plus(self, trial: Trial) -> "Record":
        failures = dict(self.failures)
        if trial.reason is not None:
            failures[trial.reason] = failures.get(trial.reason, 0) + 1
        return Record(
            measured=_plus(self.measured, trial),
            failures=failures,
            trials=self.trials + 1,
            evidence=(*self.evidence, trial.candidate_id)[:EVIDENCE_NAMED],
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over a goal's settled candidates: lessons need no more, so no candidate is kept."""

    overall: Moments = Moments()
    records: Mapping[Condition, Record] = field(default_factory=dict)

    def including(self, trials: Iterable[Trial]) -> "Tally":
        """`trials` are counted as well."""
        overall, records = self.overall, dict(self.records)
        for trial in trials:
            if trial.search_ratio is None and trial.reason is None:
                continue
            overall = _plus(overall, trial)
            for condition in conditions_of(trial.genome):
                records[condition] = records.get(condition, Record()).plus(trial)
        return Tally(overall, records)


@dataclass(frozen=True, slots=True)
class News:
    """A lesson that is new, or that says something else than the last on its topic."""

    topic: Topic
    lesson: Lesson
    evidence: tuple[UUID, ...]


def news(tally: Tally, known: Mapping[Topic, Lesson], task: Task) -> tuple[News, ...]:
    """The lessons that `tally` teaches beyond `known`, in a fixed order."""
    found = []
    for condition, record in sorted(tally.records.items(), key=lambda item: item[0]):
        for topic, lesson in _lessons(condition, record, tally, known, task):
            if _is_news(lesson, known.get(topic)):
                found.append(News(topic, lesson, record.evidence))
    return tuple(found)


def topic_of(lesson: Lesson) -> Topic:
    """What a recorded lesson is about."""
    condition = Condition(lesson.condition.get("gene", ""), lesson.condition.get("value", ""))
    return Topic(condition, about_failures=lesson.effect is None)


def statements_met(lessons: Iterable[Lesson], genome: Genome) -> tuple[str, ...]:
    """Statements of the lessons whose condition `genome` meets and that show an effect."""
    return tuple(
        lesson.statement
        for lesson in lessons
        if lesson.effect is not None and _direction(lesson.effect) != 0 and topic_of(lesson).condition.met_by(genome)
    )


def conditions_of(genome: Genome) -> tuple[Condition, ...]:
    return tuple(Condition(gene, gene_text(value)) for gene, value in genome.items())


def effect_of(record: Record, tally: Tally) -> Interval | None:
    """Search ratio of candidates with the gene value over those without; None when either side has too few.

    Welch's t-interval on mean log ratios, degrees of freedom by Satterthwaite.
    """
    with_, without = record.measured, tally.overall.minus(record.measured)
    if with_.count < ENOUGH or without.count < ENOUGH:
        return None
    a, b = with_.variance_of_mean, without.variance_of_mean
    weight = a * a / (with_.count - 1) + b * b / (without.count - 1)
    freedom = (a + b) ** 2 / weight if weight > 0 else float(with_.count + without.count - 2)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(a + b)
    middle = with_.mean - without.mean
    return Interval(estimate=_exp(middle), low=_exp(middle - half), high=_exp(middle + half), level=LEVEL)


def _lessons(
    condition: Condition, record: Record, tally: Tally, known: Mapping[Topic, Lesson], task: Task
) -> Iterable[tuple[Topic, Lesson]]:
    about_effect, about_failures = Topic(condition, about_failures=False), Topic(condition, about_failures=True)
    effect = effect_of(record, tally)
    if effect is not None and (_direction(effect) != 0 or about_effect in known):
        yield about_effect, _lesson(condition, record, task, effect, _effect_statement(condition, effect))
    lost = sum(record.failures.values())
    if lost >= ENOUGH and lost >= MOSTLY * record.trials:
        yield about_failures, _lesson(condition, record, task, None, _failure_statement(condition, record, lost))


def _lesson(condition: Condition, record: Record, task: Task, effect: Interval | None, statement: str) -> Lesson:
    return Lesson(
        workload=task.workload,
        condition={"machine": task.route, "gene": condition.gene, "value": condition.value},
        statement=statement,
        effect=effect,
        count=record.trials,
        failures=dict(sorted(record.failures.items())),
    )


def _effect_statement(condition: Condition, effect: Interval) -> str:
    what = f"{condition.gene}={condition.value}"
    match _direction(effect):
        case 0:
            return f"{what} no longer makes a difference that the measurements show"
        case 1:
            return f"{what} is {effect.estimate:.2f}× as fast as the rest (search, {effect.low:.2f}–{effect.high:.2f})"
        case _:
            return f"{what} slows to {effect.estimate:.2f}× of the rest (search, {effect.low:.2f}–{effect.high:.2f})"


def _failure_statement(condition: Condition, record: Record, lost: int) -> str:
    by_reason = ", ".join(f"{reason} {n}" for reason, n in sorted(record.failures.items(), key=lambda i: (-i[1], i[0])))
    return f"{condition.gene}={condition.value} loses {lost} of {record.trials} candidates ({by_reason})"


def _is_news(lesson: Lesson, last: Lesson | None) -> bool:
    """It is the first on its topic, points elsewhere, leaves the last interval, or stands on twice the evidence."""
    if last is None or lesson.count >= 2 * last.count:
        return True
    if lesson.effect is None or last.effect is None:
        return lesson.failures.keys() != last.failures.keys()
    moved = not last.effect.low <= lesson.effect.estimate <= last.effect.high
    return moved or _direction(lesson.effect) != _direction(last.effect)


def _direction(effect: Interval | None) -> int:
    """1 or -1 when the whole interval lies on one side of 1, else 0; failures count as -1."""
    if effect is None:
        return -1
    return (effect.low > 1) - (effect.high < 1)


def _exp(log_ratio: float) -> float:
    """Finite for every finite argument: a double ends near e^709."""
    return math.exp(max(-700.0, min(700.0, log_ratio)))


def _plus(moments: Moments, trial: Trial) -> Moments:
    ratio = trial.search_ratio
    return moments.plus(math.log(ratio)) if ratio is not None and ratio > 0 else moments
