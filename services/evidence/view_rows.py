"""The rows of the views: made of the fold's states here, stored by `views.py`, kept in memory by replays and checks."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

from schemas.envelope import Recorded
from schemas.ids import GoalId
from schemas.model import clip
from services.evidence import views_sql as sql
from services.evidence.candidate_rows import CandidateStatus, Move, Proposal
from services.evidence.goal_state import GoalState
from services.evidence.standings import Standing, best_first
from services.evidence.view_fold import ViewFold

Row = dict[str, Any]


def goal_row(state: GoalState) -> tuple[Any, ...]:
    """`state` in the order of GOAL_COLUMNS."""
    counts, leader = state.counts_so_far, state.leader
    ratio = state.champion.ratio if state.champion else None
    return (
        state.goal_id,
        state.goal.name,
        state.goal.workload,
        state.goal.target.value,
        state.task.route if state.task else None,
        state.phase.value,
        state.paused_since is not None,
        state.ended_by and state.ended_by.value,
        state.outcome and state.outcome.value,
        state.accepted_at,
        state.completed_at,
        state.generation.number if state.generation else state.closed,
        state.goal.budget.candidates,
        counts.proposed,
        counts.compiled,
        counts.verified,
        counts.measured,
        sum(counts.rejected.values()),
        counts.abandoned,
        json.dumps(counts.rejected, sort_keys=True),
        leader.candidate_id if leader else None,
        leader.search_ratio if leader else None,
        state.champion_id,
        ratio.estimate if ratio else None,
        ratio.low if ratio else None,
        ratio.high if ratio else None,
        state.deadline[1] if state.deadline else None,
        clip(state.message) if state.message is not None else None,
        state.position,
    )


class MemoryViews:
    """The views of a log up to some position, in memory: the very rows that Postgres would show."""

    def __init__(self) -> None:
        self._fold = ViewFold()
        self._goals: dict[GoalId, Row] = {}
        self._candidates: dict[UUID, Row] = {}
        self._standings: dict[tuple[GoalId, UUID], Standing] = {}

    @property
    def position(self) -> int:
        """The rows show the log up to here."""
        return self._fold.position

    def apply(self, facts: Iterable[Recorded[Any]], upto: int) -> None:
        """The rows show the log up to `upto`; `facts` is everything since the last call, or more."""
        changes = self._fold.advance(facts, upto)
        for goal_id, state in changes.goals.items():
            self._goals[goal_id] = goal_as_row(state)
        for proposal in changes.proposals:
            self._candidates.setdefault(proposal.candidate_id, candidate_as_row(proposal))
        for candidate_id, move in changes.moves.items():
            if candidate_id in self._candidates:
                self._candidates[candidate_id] |= _told(move)

        for standing in changes.standings:
            self._standings.setdefault((standing.goal_id, standing.candidate_id), standing)
        for key in changes.crowned:
            if key in self._standings:
                self._standings[key] = replace(self._standings[key], champion=True)

    def leaderboard(self, goal_id: GoalId | None = None) -> tuple[Row, ...]:
        """The best lower bound first, as the one leaderboard query answers."""
        standings = (one for one in self._standings.values() if goal_id in (None, one.goal_id))
        return tuple(asdict(standing) for standing in best_first(standings))

    def goals(self, goal_id: GoalId | None = None) -> tuple[Row, ...]:
        """Newest first, as views.goals is read."""
        rows = (row for row in self._goals.values() if goal_id in (None, row["goal_id"]))
        return tuple(sorted(rows, key=lambda row: (-row["accepted_at"].timestamp(), row["goal_id"])))

    def candidates(self, goal_id: GoalId | None = None) -> tuple[Row, ...]:
        """By generation, the best search ratio first, as views.candidates is read."""
        rows = (row for row in self._candidates.values() if goal_id in (None, row["goal_id"]))
        return tuple(sorted(rows, key=_candidate_order))


def goal_as_row(state: GoalState) -> Row:
    """`state` as a reader of views.goals gets it."""
    row = dict(zip((name for name, _ in sql.GOAL_COLUMNS), goal_row(state), strict=True))
    return row | {"rejections": json.loads(row["rejections"])}


def candidate_as_row(proposal: Proposal) -> Row:
    """A candidate of which nothing is known yet but its proposal."""
    untold: Row = {name: None for name, _ in sql.MOVE_COLUMNS}
    return {name: getattr(proposal, name) for name, _ in sql.PROPOSAL_COLUMNS} | untold | _told(_PROPOSED)


_PROPOSED = Move(CandidateStatus.PROPOSED)


def _told(move: Move) -> Row:
    """The columns that `move` changes."""
    return {name: value for name in Move.__slots__ if (value := getattr(move, name)) is not None}


def _candidate_order(row: Row) -> tuple[Any, ...]:
    ratio = row["search_ratio"]
    best_first = (ratio is None, 0.0 if ratio is None else -ratio)
    return (row["goal_id"], row["generation"], *best_first, row["proposed_at"], row["candidate_id"])
