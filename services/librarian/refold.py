"""What a librarian knows when its term begins: unfinished goals folded fully, what outlives goals by type."""

from dataclasses import dataclass

from schemas.events import GoalAccepted, GoalCompleted
from schemas.ids import GoalId
from services.evidence import goal_fold, goal_state
from services.evidence.goal_state import GoalState
from services.evidence.log import Log
from services.librarian import curator
from services.librarian.curator import GLOBAL_FACTS, CuratorState


@dataclass(frozen=True, slots=True)
class Refolded:
    """The curator's state at the log's head, and the goals that ended, oldest first."""

    state: CuratorState
    ended: tuple[GoalId, ...]


async def refold(log: Log) -> Refolded:
    """Equal to folding every fact of the log, for a fraction of the reading."""
    upto = (await log.head()).position
    state = CuratorState()
    async for recorded in log.read(0, upto, None, GLOBAL_FACTS):
        state = curator.evolve(state, recorded)
    accepted: dict[GoalId, str] = {}
    open_goals: dict[GoalId, None] = {}
    ended: dict[GoalId, None] = {}
    async for recorded in log.read(0, upto, None, (GoalAccepted, GoalCompleted)):
        goal_id = recorded.fact.goal_id
        if isinstance(recorded.fact, GoalCompleted):
            open_goals.pop(goal_id, None)
            ended.setdefault(goal_id)
        elif goal_id not in accepted:
            accepted[goal_id] = goal_state.digest(recorded.fact.goal)
            open_goals[goal_id] = None
    goals = {goal_id: await _fold(log, goal_id, upto) for goal_id in open_goals}
    return Refolded(curator.resumed(state, upto, goals, accepted), tuple(ended))


async def _fold(log: Log, goal_id: GoalId, upto: int) -> GoalState:
    state: GoalState | None = None
    async for recorded in log.read(0, upto, goal_id):
        if state is not None:
            state = goal_fold.evolve(state, recorded)
        elif isinstance(recorded.fact, GoalAccepted):
            state = goal_state.begin(recorded)
    assert state is not None  # its goal.accepted was just read
    return state
