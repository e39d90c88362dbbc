"""One goal as its facts tell it: the state that `goal_fold.py` folds, the curator decides from and the views show."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from schemas.enums import EndedBy, Outcome, Phase, Verdict
from schemas.envelope import Recorded
from schemas.events import GoalAccepted
from schemas.goal import Goal
from schemas.ids import GoalId
from schemas.lesson import Lesson
from schemas.measurement import Comparison, Race
from schemas.steering import Ban
from schemas.work import Task
from services.evidence.goal_parts import (
    Attempt,
    Best,
    CandidateState,
    Clock,
    Counts,
    End,
    Finals,
    Generation,
    GoalPhase,
    Past,
    best_of,
    count,
)
from services.evidence.lessons import Tally, Topic

ATTEMPTS = 3
"""Work other than a candidate's is tried once and retried twice (architecture.md, Settling)."""

FIRST_GENERATION = 1


@dataclass(frozen=True, slots=True)
class GoalState:
    """Everything that decides what is due next."""

    goal_id: GoalId
    goal: Goal
    """As accepted, with every extension of its budget since."""
    accepted_at: datetime
    position: int
    """Of the last fact that counted."""
    last_id: UUID
    """Of the same fact: the cause of what is decided next."""
    phase: GoalPhase = GoalPhase.WAITING
    task: Task | None = None
    """As pinned by baseline.due; with the baselines once they are chosen."""
    clock: Clock | None = None
    """Of the search, then of the finals."""
    paused_since: datetime | None = None
    stopped: bool = False
    cancelled: bool = False
    timed_out: Phase | None = None
    answered: frozenset[UUID] = frozenset()
    """Ids of the desk's answers about this goal: a request that is handed out again was answered."""
    pins: tuple[UUID, ...] = ()
    """Candidates that shall be finalists."""
    bans: tuple[Ban, ...] = ()

    baseline: Attempt | None = None
    baseline_missing: str | None = None
    """Why there is nothing to compare with."""

    generation: Generation | None = None
    submissions: Mapping[UUID, CandidateState] = field(default_factory=dict)
    """Admitted from outside and not yet counted: they settle with the generation that is open, or the next."""
    closed: int = 0
    """Generations closed."""
    past: tuple[Past, ...] = ()
    """One for each time that candidates were counted."""
    counts: Counts = field(default_factory=Counts)
    """Over closed generations, submissions included."""
    submitted: int = 0
    """Submissions among them: they spend none of the budget."""
    best: Best | None = None
    """Over closed generations."""
    stagnant: int = 0
    """Closed generations in a row in which nothing was worth more than what led before."""
    exhausted: bool = False
    tally: Tally = field(default_factory=Tally)
    lessons: Mapping[Topic, Lesson] = field(default_factory=dict)
    """The latest on each topic."""

    finals: Finals | None = None
    race_due: Attempt | None = None
    race: Race | None = None
    confirmed: tuple[UUID, ...] = ()
    """Raced candidates whose quarantined result a person vouches for."""
    champion_id: UUID | None = None
    champion: Comparison | None = None
    ended_by: EndedBy | None = None
    """As stated by finals.due, then by goal.completed."""
    outcome: Outcome | None = None
    message: str | None = None
    """Of goal.completed."""
    completed_at: datetime | None = None

    @property
    def runs_against(self) -> Phase:
        """Whose deadline the work of this phase has."""
        return Phase.FINALS if self.phase in (GoalPhase.FINALS, GoalPhase.RACING) else Phase.SEARCH

    @property
    def settled_by_time(self) -> bool:
        """The running deadline passed: no answer to open work counts any more."""
        return self.timed_out is self.runs_against

    @property
    def leader(self) -> Best | None:
        """What is worth most so far, the running generation included."""
        running = best_of(self.generation.members() if self.generation else {})
        known = [one for one in (self.best, running, best_of(self.submissions)) if one is not None]
        return max(known, key=lambda one: one.worth, default=None)

    @property
    def counts_so_far(self) -> Counts:
        """Counts with the running generation and open submissions included."""
        running = self.generation.candidates if self.generation else {}
        return self.counts.plus(count((*running.values(), *self.submissions.values())))

    @property
    def spent(self) -> int:
        """Candidates of closed generations that the budget counts."""
        return self.counts.proposed - self.submitted

    @property
    def submissions_settled(self) -> bool:
        """Every submission has its terminal fact."""
        return all(one.end is not None for one in self.submissions.values())

    @property
    def uncounted(self) -> Mapping[UUID, CandidateState]:
        """Members of the running generation and submissions: what the next closing counts."""
        return {**(self.generation.members() if self.generation else {}), **self.submissions}

    def holder_of(self, fingerprint: str) -> UUID | None:
        """The candidate of this goal that is the same kernel; None when there is none, or only abandoned ones."""
        running = {**(self.generation.candidates if self.generation else {}), **self.submissions}
        for id_, one in running.items():
            if one.fingerprint == fingerprint and one.end is not End.ABANDONED:
                return id_
        return next((past.standing[fingerprint] for past in self.past if fingerprint in past.standing), None)

    def fingerprint_of(self, candidate_id: UUID) -> str | None:
        """The kernel of a candidate; None for a stranger and for an abandoned one."""
        running = {**(self.generation.candidates if self.generation else {}), **self.submissions}
        if candidate_id in running:
            return running[candidate_id].fingerprint
        pairs = (pair for past in self.past for pair in past.standing.items())
        return next((fingerprint for fingerprint, id_ in pairs if id_ == candidate_id), None)

    def was_measured(self, candidate_id: UUID) -> bool:
        """The candidate has a search ratio."""
        now = self.uncounted.get(candidate_id)
        return (now is not None and now.search_ratio is not None) or any(
            candidate_id in past.measured for past in self.past
        )

    @property
    def deadline(self) -> tuple[Phase, datetime] | None:
        """The deadline that runs now; None while none does."""
        if self.clock is None or self.paused_since is not None or self.phase is GoalPhase.COMPLETED:
            return None
        if self.settled_by_time:
            return None
        return self.runs_against, self.clock.deadline(self._wall_s)

    @property
    def _wall_s(self) -> float:
        if self.runs_against is Phase.SEARCH:
            return self.goal.budget.wall
        return self.goal.finals.wall + (self.goal.finals.confirmation if self.quarantined else 0.0)

    @property
    def quarantined(self) -> tuple[UUID, ...]:
        """Raced candidates whose result is too good to be believed and that nobody has confirmed."""
        entrants = self.race.entrants if self.race else ()
        held = (one.candidate_id for one in entrants if one.comparison.verdict is Verdict.QUARANTINED)
        return tuple(id_ for id_ in held if id_ not in self.confirmed)


def begin(accepted: Recorded[GoalAccepted]) -> GoalState:
    """The state of a goal that was just accepted."""
    return GoalState(
        goal_id=accepted.fact.goal_id,
        goal=accepted.fact.goal,
        accepted_at=accepted.recorded_at,
        position=accepted.position,
        last_id=accepted.id,
    )


def digest(goal: Goal) -> str:
    """Equal for goal files that ask for the same, however they are written."""
    return hashlib.sha256(json.dumps(goal.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()
