"""What a report says of a goal. Its JSON is the model as it stands; `render.py` makes text of it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from schemas.enums import EndedBy, Outcome, RatioKind, Reason, Regime, Stage, SteerAction, Target, Verdict
from schemas.measurement import Interval, MachineProfile, RoofPoint
from schemas.model import Model
from schemas.work import Genome


class Stated(Model):
    """A ratio with everything without which it means nothing."""

    kind: RatioKind
    verdict: Verdict
    ratio: Interval | None
    """Baseline's time over the candidate's; absent when the measurement failed."""
    against: tuple[str, ...]
    regime: Regime
    machine: str
    noise_floor: float
    note: str


class ShapeTimes(Model):
    """One shape of the hold-out race."""

    shape: str
    weight: float
    baseline: str
    baseline_ns: float
    champion_ns: float
    roof_ns: float | None
    roof_fraction: float | None
    """Time of moving the same bytes over the champion's time; 1 is the roof. Absent when compute-bound."""


class SourceChange(Model):
    """How the champion's source differs from the baseline's."""

    baseline: str
    summary: str
    diff: str
    """Unified; empty when the baseline is a library with no source of ours."""


class ChampionReport(Model):
    candidate_id: UUID
    strategy: str
    author: str
    """A proposer of Assay's, or whoever submitted it, as he calls himself."""
    variant: str
    genome: Genome
    threads: int | None
    flags: tuple[str, ...]
    source: str
    hold_out: Stated
    search: Stated | None
    shrinkage: float | None
    """1 − hold-out estimate / search estimate: what the search believed and the race did not find."""
    shapes: tuple[ShapeTimes, ...]
    change: SourceChange
    lessons: tuple[str, ...]
    """Statements of the lessons that it meets."""


class FinalistReport(Model):
    candidate_id: UUID
    rank: int
    status: Literal["nominated", "rejected", "abandoned", "proven", "raced", "champion"]
    search: Stated | None
    hold_out: Stated | None
    message: str = ""


class BaselineReport(Model):
    """One contender for the baseline."""

    name: str
    description: str
    status: Literal["raced", "screened", "refused", "absent"]
    message: str
    median_ns: tuple[float, ...]
    won: tuple[str, ...]
    """Shapes on which it was the strongest."""


class SteerReport(Model):
    """What a person did to the goal while it ran."""

    at: datetime
    action: SteerAction
    what: str
    """What was added, advised, pinned or banned; empty for the actions that need no more than a word."""
    reason: str


class RejectReport(Model):
    """Candidates stopped at one stage for one reason."""

    stage: Stage
    reason: Reason
    count: int
    example: UUID
    message: str


class LessonReport(Model):
    statement: str
    condition: dict[str, str]
    effect: Interval | None
    """Search ratio of candidates with the gene value over those without."""
    count: int
    failures: dict[str, int]
    used_by_champion: bool


class TallyReport(Model):
    """How many candidates came how far."""

    generations: int
    proposed: int
    compiled: int
    verified: int
    measured: int
    rejected: int
    abandoned: int


class GoalReport(Model):
    """A goal from its acceptance to its end, or as far as it has come."""

    goal_id: str
    name: str
    workload: str
    target: Target
    route: str | None
    regime: Regime
    shapes: tuple[str, ...]
    accepted_at: datetime
    completed_at: datetime | None
    ended_by: EndedBy | None
    outcome: Outcome | None
    message: str
    hold_out_gap_s: float | None
    """As it was in the race; before it, as the goal asks."""
    champion: ChampionReport | None
    finalists: tuple[FinalistReport, ...]
    best_search: Stated | None
    """The best that the search believed in. Never a result."""
    a_a: Stated | None
    """The strongest baseline against its byte-identical rebuild, in the race's own schedule."""
    baselines: tuple[BaselineReport, ...]
    roofs: tuple[RoofPoint, ...]
    tally: TallyReport
    rejects: tuple[RejectReport, ...]
    lessons: tuple[LessonReport, ...]
    steers: tuple[SteerReport, ...]
    machine: MachineProfile | None
