"""What a goal has come to so far, for people who watch: a fold over its facts. Decides nothing."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from schemas.enums import EndedBy, Outcome, SteerAction, Verdict
from schemas.envelope import Recorded
from schemas.events import (
    BaselineChosen,
    BaselineDue,
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    FinalistNominated,
    FinalistProven,
    FinalsDue,
    GenerationDue,
    GoalAccepted,
    GoalCompleted,
    GoalSteered,
    MeasurementRefused,
    MeasurementRequested,
    RaceDue,
    RaceFinished,
)
from schemas.goal import Goal
from schemas.steering import extended
from services.evidence.worth import ratio_of, worth_of


@dataclass
class Progress:
    """Counts and the best search ratio, grown one fact at a time by `add`."""

    goal_id: str
    goal: Goal | None = None
    phase: str = "waiting for a machine"
    waits_for: str | None = None
    """What keeps the goal from starting, while it waits for a machine."""
    paused: bool = False
    route: str | None = None
    generation: int = 0
    proposed: int = 0
    submitted: int = 0
    """Of those proposed, how many came from outside."""
    compiled: int = 0
    verified: int = 0
    measured: int = 0
    abandoned: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    remeasured: int = 0
    looks: dict[UUID, tuple[int, float, float]] = field(default_factory=dict)
    """Of each measured candidate: how often it was looked at, and the worth and the ratio of the last look."""
    nominated: int = 0
    proven: int = 0
    started_at: datetime | None = None
    paused_at: datetime | None = None
    paused_s: float = 0.0
    search_ended_at: datetime | None = None
    ended_by: EndedBy | None = None
    outcome: Outcome | None = None
    message: str = ""

    @property
    def best_search_ratio(self) -> float | None:
        """Of the candidate that leads: what is worth most among those measured longest."""
        leader = max(self.looks.values(), default=None)
        return leader[2] if leader else None

    @property
    def completed(self) -> bool:
        return self.outcome is not None

    def add(self, recorded: Recorded[Any]) -> None:  # noqa: C901 — one flat match
        """`recorded` is counted. Late facts count too: this shows activity, it does not decide."""
        match recorded.fact:
            case GoalAccepted(goal=goal):
                self.goal = goal
            case GoalSteered() as fact:
                self._steer(fact, recorded.recorded_at)
            case BaselineDue(task=task):
                self.phase, self.route = "racing the baselines", task.route
                self.started_at = self.started_at or recorded.recorded_at
            case BaselineChosen():
                self.phase = "searching"
            case GenerationDue(generation=generation):
                self.phase, self.generation = "searching", generation
            case CandidateProposed(submitted=submitted):
                self.proposed += 1
                self.submitted += submitted
            case CandidateCompiled():
                self.compiled += 1
            case CandidateVerified():
                self.verified += 1
            case CandidateMeasured() as fact:
                self.measured += 1
                self._look(fact)
            case MeasurementRequested(round=round_):
                self.phase = f"measuring the best again, round {round_}"
            case CandidateRemeasured() as fact:
                self.remeasured += 1
                self._look(fact)
            case MeasurementRefused(candidate_id=id_, reason=reason):
                self.looks.pop(id_, None)
                self.rejected[reason.value] += 1
            case CandidateRejected(reason=reason):
                self.rejected[reason.value] += 1
            case CandidateAbandoned():
                self.abandoned += 1
            case FinalsDue():
                self.phase = "finals"
                self.search_ended_at = self.search_ended_at or recorded.recorded_at
            case FinalistNominated():
                self.nominated += 1
            case FinalistProven():
                self.proven += 1
            case RaceDue():
                self.phase = "hold-out race"
            case RaceFinished(race=race):
                held = any(one.comparison.verdict is Verdict.QUARANTINED for one in race.entrants)
                if held and self.goal is not None and self.goal.finals.confirmation > 0:
                    self.phase = "waiting for a person to confirm a quarantined result (assay goal confirm)"
            case GoalCompleted(ended_by=ended_by, outcome=outcome, message=message):
                self.phase, self.ended_by, self.outcome, self.message = "completed", ended_by, outcome, message
                self.search_ended_at = self.search_ended_at or recorded.recorded_at
            case _:
                pass

    def _look(self, fact: CandidateMeasured | CandidateRemeasured) -> None:
        ratio, worth = ratio_of(fact.comparison), worth_of(fact.comparison)
        if ratio is not None and worth is not None:
            before = self.looks.get(fact.candidate_id, (0, 0.0, 0.0))
            self.looks[fact.candidate_id] = (before[0] + 1, worth, ratio)

    def _steer(self, fact: GoalSteered, at: datetime) -> None:
        match fact.action:
            case SteerAction.PAUSE:
                self.paused, self.paused_at = True, self.paused_at or at
            case SteerAction.RESUME:
                self.paused_s, self.paused, self.paused_at = self._paused_until(at), False, None
            case SteerAction.EXTEND if self.goal and fact.extend and self.search_ended_at is None:
                self.goal = extended(self.goal, fact.extend)
            case _:
                pass

    def _paused_until(self, at: datetime) -> float:
        """Seconds of pause since the search began."""
        if self.paused_at is None or self.started_at is None:
            return self.paused_s
        return self.paused_s + max(0.0, (at - max(self.paused_at, self.started_at)).total_seconds())

    def search_time_s(self, now: datetime) -> float:
        """How long the search has taken; paused time does not count."""
        if self.started_at is None:
            return 0.0
        until = self.search_ended_at or now
        return max(0.0, (until - self.started_at).total_seconds() - self._paused_until(until))

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "goal_id": self.goal_id,
            "name": self.goal.name if self.goal else None,
            "workload": self.goal.workload if self.goal else None,
            "phase": self.phase,
            "waits_for": self.waits_for,
            "paused": self.paused,
            "route": self.route,
            "generation": self.generation,
            "proposed": self.proposed,
            "submitted": self.submitted,
            "budget_candidates": self.goal.budget.candidates if self.goal else None,
            "compiled": self.compiled,
            "verified": self.verified,
            "measured": self.measured,
            "remeasured": self.remeasured,
            "rejected": dict(self.rejected),
            "abandoned": self.abandoned,
            "best_search_ratio": self.best_search_ratio,
            "nominated": self.nominated,
            "proven": self.proven,
            "started_at": self.started_at.isoformat() if self.started_at else None,
            "ended_by": self.ended_by,
            "outcome": self.outcome,
            "message": self.message,
        }
