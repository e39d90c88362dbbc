"""The fold behind the views: a batch of facts becomes the rows it changes. A late fact changes none."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from schemas.envelope import Recorded
from schemas.events import CandidateProposed, ChampionCrowned, GoalAccepted, GoalCompleted, RaceFinished
from schemas.ids import GoalId
from services.evidence import goal_fold, goal_state
from services.evidence.candidate_rows import CandidateStatus, Move, Proposal, dropped, move_of, proposal_of
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import GoalState
from services.evidence.log import Log
from services.evidence.standings import Standing, standings_of


@dataclass
class Changes:
    """Rows to write, and the log position they stand for."""

    position: int
    goals: dict[GoalId, GoalState] = field(default_factory=dict)
    proposals: list[Proposal] = field(default_factory=list)
    moves: dict[UUID, Move] = field(default_factory=dict)
    standings: list[Standing] = field(default_factory=list)
    crowned: list[tuple[GoalId, UUID]] = field(default_factory=list)


class ViewFold:
    """Unfinished goals as of `position`. Advanced in place: one view has one fold, and a batch is folded once."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._goals: dict[GoalId, GoalState] = {}

    async def refold(self, log: Log) -> None:
        """The goals that are unfinished at `position` are known."""
        unfinished = await unfinished_goals(log, self.position)
        for goal_id in unfinished:
            async for recorded in log.read(0, self.position, goal_id):
                self._step(recorded, Changes(self.position))

    def advance(self, facts: Iterable[Recorded[Any]], upto: int) -> Changes:
        """The rows that `facts`, all there are up to position `upto`, change. Facts folded before are skipped."""
        changes = Changes(max(upto, self.position))
        for recorded in facts:
            if recorded.position > self.position:
                self._step(recorded, changes)
        self.position = changes.position
        return changes

    def _step(self, recorded: Recorded[Any], changes: Changes) -> None:
        fact, goal_id = recorded.fact, recorded.fact.about_goal
        if isinstance(fact, GoalAccepted):
            if goal_id not in self._goals:
                self._keep(goal_state.begin(recorded), changes)
            return
        before = self._goals.get(goal_id) if goal_id else None
        if before is None:
            return
        after = goal_fold.evolve(before, recorded)
        if after is before:
            return
        self._keep(after, changes)
        for candidate_id in dropped(before, after):
            _move(changes, candidate_id, Move(CandidateStatus.DROPPED))
        if isinstance(fact, RaceFinished):
            changes.standings += standings_of(after, recorded)
        elif isinstance(fact, ChampionCrowned):
            changes.crowned.append((fact.goal_id, fact.candidate_id))
        if isinstance(fact, CandidateProposed):
            changes.proposals.append(proposal_of(recorded))
        elif (move := move_of(fact)) is not None:
            _move(changes, fact.candidate_id, move)

    def _keep(self, state: GoalState, changes: Changes) -> None:
        changes.goals[state.goal_id] = state
        self._goals[state.goal_id] = state
        if state.phase is GoalPhase.COMPLETED:
            del self._goals[state.goal_id]


async def unfinished_goals(log: Log, upto: int) -> tuple[GoalId, ...]:
    """Goals accepted and not completed at `upto`, in the order accepted."""
    found: dict[GoalId, None] = {}
    async for recorded in log.read(0, upto, None, (GoalAccepted, GoalCompleted)):
        goal_id = recorded.fact.goal_id
        if isinstance(recorded.fact, GoalAccepted):
            found.setdefault(goal_id)
        else:
            found.pop(goal_id, None)
    return tuple(found)


def _move(changes: Changes, candidate_id: UUID, move: Move) -> None:
    changes.moves[candidate_id] = changes.moves.get(candidate_id, Move()).then(move)
