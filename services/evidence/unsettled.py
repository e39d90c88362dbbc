"""Work that unfinished goals wait for: what a new epoch of the stream must carry again (architecture.md)."""

from collections.abc import Mapping
from uuid import UUID

from schemas.envelope import Message, Recorded
from schemas.events import (
    Fact,
    FinalsAbandoned,
    FinalsDue,
    FinalsOpened,
    GenerationAbandoned,
    GenerationDue,
    GenerationOpened,
    SearchExhausted,
)
from schemas.framing import unframe
from schemas.ids import GoalId
from services.evidence.log import Log
from services.evidence.view_fold import unfinished_goals
from services.runtime.routes import INPUTS, OUTPUTS

WORK: frozenset[type[Fact]] = frozenset(fact for facts in INPUTS.values() for fact in facts)
ANSWERS: frozenset[type[Fact]] = frozenset(fact for service in INPUTS for fact in OUTPUTS[service])
LAST_WORDS: Mapping[type[Fact], tuple[type[Fact], ...]] = {
    GenerationDue: (GenerationOpened, SearchExhausted, GenerationAbandoned),
    FinalsDue: (FinalsOpened, FinalsAbandoned),
}
"""Work that is answered by many facts is done with one of these; any other with its one answer."""


async def unsettled_work(log: Log, upto: int) -> tuple[Message, ...]:
    """Every work message of an unfinished goal that nobody has answered at `upto`, as it came, in the order of the log.

    What was done already and is handed out again is answered with the same ids, so it counts once.
    """
    positions: list[int] = []
    for goal_id in await unfinished_goals(log, upto):
        positions += await _unanswered(log, goal_id, upto)
    return tuple([await _message(log, position) for position in sorted(positions)])


async def _unanswered(log: Log, goal_id: GoalId, upto: int) -> list[int]:
    waiting: dict[UUID, Recorded[Fact]] = {}
    async for recorded in log.read(0, upto, goal_id):
        if type(recorded.fact) in WORK:
            waiting[recorded.id] = recorded
        cause = recorded.envelope.causation_id
        asked = waiting.get(cause) if cause else None
        if asked is not None and cause is not None and _settles(recorded.fact, asked.fact):
            del waiting[cause]
    return [recorded.position for recorded in waiting.values()]


def _settles(answer: Fact, work: Fact) -> bool:
    return isinstance(answer, LAST_WORDS[type(work)]) if type(work) in LAST_WORDS else type(answer) in ANSWERS


async def _message(log: Log, position: int) -> Message:
    async for row in log.rows(position - 1, position):
        return unframe(row.raw)
    raise LookupError(f"the log has no row {position}")
