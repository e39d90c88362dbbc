"""What earlier goals left behind for a new one: proven kernels to start from, and rejections not to pay for again.

Facts of many goals arrive here out of step with each other's briefs, so everything keeps its position and a brief sees
only what lies at or before its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from schemas.enums import Target
from schemas.envelope import Recorded
from schemas.events import (
    CandidateProposed,
    CandidateRejected,
    ChampionCrowned,
    Fact,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    GoalAccepted,
)
from schemas.goal import Goal
from schemas.ids import Route
from schemas.work import Kernel, Task
from services.evidence.log import Log

WARM_LIMIT = 8
"""Chosen: half of a small generation; what is known already should not crowd out what is new."""

EARLIER_GOALS = 16
"""Most recent goals of the same kind whose rejections are remembered. Chosen: bounds the reading."""

EARLIER_FACTS: tuple[type[Fact], ...] = (GoalAccepted, FinalistNominated, FinalistProven, ChampionCrowned)
"""At most one goal and a handful of finalists per goal: a small part of any log."""

Axes = dict[str, int]


@dataclass(frozen=True)
class Warm:
    """A kernel that an earlier goal proved: proposed again, verified again, measured again."""

    candidate_id: UUID
    goal_id: str
    kernel: Kernel
    route: Route
    shapes: tuple[Axes, ...]
    crowned: bool
    ratio: float
    position: int


@dataclass(frozen=True)
class Rejection:
    """A fingerprint that a ladder refused."""

    fingerprint: str
    ladder: str
    position: int


@dataclass(frozen=True)
class Accepted:
    goal_id: str
    goal: Goal
    position: int

    def judges_like(self, goal: Goal) -> bool:
        """A rejection there holds here: same operation, target and bound."""
        mine, theirs = (
            (g.workload, g.target, g.dtype, g.tolerance.scale, g.constraints.deterministic) for g in (self.goal, goal)
        )
        return mine == theirs


@dataclass(frozen=True)
class Nomination:
    """What a nomination tells that a proof does not."""

    route: Route
    shapes: tuple[Axes, ...]
    search_ratio: float


class EarlierGoals:
    """Every goal's proven finalists and champions, as far as absorbed."""

    def __init__(self) -> None:
        self._goals: dict[str, Accepted] = {}
        self._nominated: dict[UUID, Nomination] = {}
        self._kernels: dict[str, Kernel] = {}
        self._warm: list[Warm] = []
        self._ladders: list[tuple[int, Target, str]] = []

    def absorb(self, recorded: Recorded[Any]) -> None:
        """`recorded`, the next of EARLIER_FACTS, is part of what earlier goals left."""
        match recorded.fact:
            case GoalAccepted(goal_id=goal_id, goal=goal):
                self._goals[goal_id] = Accepted(goal_id, goal, recorded.position)
            case FinalistNominated(candidate_id=id_, task=task) as fact:
                shapes = tuple(shape.axes for shape in task.shapes)
                self._nominated[id_] = Nomination(task.route, shapes, fact.search_ratio)
            case FinalistProven() as fact:
                self._prove(recorded.position, fact)
            case ChampionCrowned() as fact:
                self._crown(recorded.position, fact)
            case _:
                pass

    def like(self, goal_id: str, goal: Goal, upto: int) -> tuple[Accepted, ...]:
        """The latest goals whose rejections hold for `goal`, in log order."""
        alike = [
            earlier
            for earlier in self._goals.values()
            if earlier.position <= upto and earlier.goal_id != goal_id and earlier.judges_like(goal)
        ]
        return tuple(alike[-EARLIER_GOALS:])

    def newest_ladder(self, target: Target, upto: int) -> tuple[int, str]:
        """Position and version of the last ladder that proved anything for `target`."""
        there = ((position, ladder) for position, aimed, ladder in self._ladders if aimed is target)
        return max((entry for entry in there if entry[0] <= upto), default=(0, ""))

    def warm(self, task: Task, upto: int) -> tuple[Warm, ...]:
        """The nearest proven kernels of the same operation: same machine class first, then nearest shapes."""
        usable = (
            warm
            for warm in self._warm
            if warm.position <= upto
            and warm.goal_id != task.goal_id
            and warm.kernel.language in task.languages
            and self._workload_of(warm) == task.workload
        )
        shapes = tuple(shape.axes for shape in task.shapes)
        nearest: dict[tuple[str, tuple[str, ...], int | None], Warm] = {}
        for warm in sorted(usable, key=lambda warm: _nearness(warm, task.route, shapes)):
            nearest.setdefault((warm.kernel.source, warm.kernel.flags, warm.kernel.threads), warm)
        return tuple(nearest.values())[:WARM_LIMIT]

    def _workload_of(self, warm: Warm) -> str | None:
        accepted = self._goals.get(warm.goal_id)
        return accepted.goal.workload if accepted else None

    def _prove(self, position: int, fact: FinalistProven) -> None:
        accepted, nominated = self._goals.get(fact.goal_id), self._nominated.pop(fact.candidate_id, None)
        if accepted is None or nominated is None:
            return
        self._ladders.append((position, accepted.goal.target, fact.judgement.ladder))
        proven = Warm(
            candidate_id=fact.candidate_id,
            goal_id=fact.goal_id,
            kernel=self._one(fact.build.kernel),
            route=nominated.route,
            shapes=nominated.shapes,
            crowned=False,
            ratio=nominated.search_ratio,
            position=position,
        )
        self._warm.append(proven)

    def _crown(self, position: int, fact: ChampionCrowned) -> None:
        ratio = fact.comparison.ratio
        crowned = Warm(
            candidate_id=fact.candidate_id,
            goal_id=fact.goal_id,
            kernel=self._one(fact.build.kernel),
            route=fact.route,
            shapes=tuple(shape.axes for shape in fact.comparison.shapes),
            crowned=True,
            ratio=ratio.estimate if ratio else 1.0,
            position=position,
        )
        self._warm.append(crowned)

    def _one(self, kernel: Kernel) -> Kernel:
        """The first kernel with this fingerprint: a source is kept once, however often it wins."""
        return self._kernels.setdefault(kernel.fingerprint, kernel)


class Rejections:
    """What the ladder refused in one earlier goal, read once and continued."""

    def __init__(self, goal_id: str) -> None:
        self.goal_id = goal_id
        self._position = 0
        self._found: list[Rejection] = []

    async def read(self, log: Log, upto: int) -> tuple[Rejection, ...]:
        """Every judged rejection of that goal at or before `upto`."""
        if upto > self._position:
            types = (CandidateRejected, FinalistRejected)
            async for recorded in log.read(self._position, upto, self.goal_id, types):
                await self._note(log, recorded)
            self._position = upto
        return tuple(found for found in self._found if found.position <= upto)

    async def _note(self, log: Log, recorded: Recorded[Any]) -> None:
        judgement = recorded.fact.judgement
        if judgement is None:
            return  # refused by a compiler or a stopwatch, which says nothing about the next goal's
        proposed = await log.get(recorded.fact.candidate_id)
        if proposed is not None and isinstance(proposed.fact, CandidateProposed):
            self._found.append(Rejection(proposed.fact.kernel.fingerprint, judgement.ladder, recorded.position))


def _nearness(warm: Warm, route: Route, shapes: Sequence[Axes]) -> tuple[bool, float, bool, float, int]:
    return (warm.route != route, shape_distance(warm.shapes, shapes), not warm.crowned, -warm.ratio, warm.position)


def shape_distance(some: Sequence[Axes], others: Sequence[Axes]) -> float:
    """Doublings between the nearest two shapes, summed over axes; 0 when one shape is in both."""
    pairs = ((a, b) for a in some for b in others if a.keys() == b.keys())
    return min((sum(abs(math.log2((a[x] + 1) / (b[x] + 1))) for x in a) for a, b in pairs), default=math.inf)
