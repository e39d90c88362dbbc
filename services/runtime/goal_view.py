"""What workers know of a goal: the librarian's KV view. Absent means work."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.envelope import Envelope
from schemas.events import CandidateCompiled, CandidateProposed, CandidateVerified, GenerationDue
from schemas.ids import GoalId
from services.runtime.bus import Bucket

SEARCH_WORK = (GenerationDue, CandidateProposed, CandidateCompiled, CandidateVerified)
"""Causes whose work is worthless once the goal is in its finals."""


class GoalStanding(StrEnum):
    SEARCHING = "searching"
    FINALS = "finals"
    ENDED = "ended"


class GoalMark(BaseModel):
    """A bucket value: where a goal stood at a log position."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    state: GoalStanding
    position: int


@dataclass(frozen=True)
class GoalView:
    """Reads and writes the marks. Only a higher position overwrites."""

    bucket: Bucket

    async def mark(self, goal_id: GoalId) -> GoalMark | None:
        """Where the goal stands. An unreadable mark counts as absent: absent means work."""
        return (await self._read(goal_id))[0]

    async def drops(self, cause: Envelope[Any]) -> bool:
        """Nobody wants the work of `cause` any more."""
        mark = await self.mark(cause.goal_id) if cause.goal_id else None
        if mark is None:
            return False
        searching = isinstance(cause.fact, SEARCH_WORK)
        return mark.state is GoalStanding.ENDED or (mark.state is GoalStanding.FINALS and searching)

    async def advance(self, goal_id: GoalId, state: GoalStanding, position: int) -> None:
        """The mark is at `position` or beyond."""
        value = GoalMark(state=state, position=position).model_dump_json().encode()
        while True:
            mark, revision = await self._read(goal_id)
            if mark is not None and mark.position >= position:
                return
            if await self.bucket.update(goal_id, value, revision) is not None:
                return

    async def _read(self, goal_id: GoalId) -> tuple[GoalMark | None, int]:
        found = await self.bucket.get(goal_id)
        if found is None:
            return None, 0
        try:
            return GoalMark.model_validate_json(found[0]), found[1]
        except ValidationError:
            return None, found[1]
