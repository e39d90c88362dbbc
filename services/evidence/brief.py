"""The brief: what a proposer may know. The log up to exactly P, folded; the same history gives the same brief."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from schemas.events import CandidateVerified, FinalsDue, GenerationDue
from schemas.faults import Bug, Transient
from schemas.goal import Goal, SpaceLimits
from schemas.steering import Ban, Hint, without_banned
from schemas.work import Build, Task
from services.evidence.earlier_goals import EARLIER_FACTS, EarlierGoals, Rejection, Rejections, Warm
from services.evidence.log import Log
from services.evidence.search_history import HISTORY_FACTS, Cell, Credit, SearchHistory, Tried, standing

HISTORIES_KEPT = 16
"""Goals whose fold is kept between briefs. Chosen: more goals than one host searches at once."""


@dataclass(frozen=True)
class Brief:
    """Everything that a strategy may look at, and the seed that makes its choices repeatable."""

    goal_id: str
    goal: Goal
    task: Task
    position: int
    generation: int
    seed: int
    size: int
    tried: tuple[Tried, ...]
    """In the order proposed."""
    known: frozenset[str]
    """Fingerprints not worth an evaluation: proposed in this goal and not abandoned, or rejected before by the same
    ladder version and bound."""
    archive: Mapping[Cell, Tried]
    """MAP-Elites over how candidates use the hardware."""
    elites: tuple[tuple[Tried, ...], ...]
    """Per island, best first."""
    best: Tried | None
    credit: tuple[Credit, ...]
    """What each operator's latest proposals came to: the bandit's input."""
    warm: tuple[Warm, ...]
    """Proven kernels of earlier goals, nearest first."""
    stale_generations: int
    """Closed generations in a row in which nothing was worth more than what led before."""
    hint: Hint | None = None
    """A person's latest advice."""
    bans: tuple[Ban, ...] = ()

    @property
    def limits(self) -> SpaceLimits:
        """The space that the goal allows, without what was banned since."""
        return without_banned(self.goal.search.space, self.bans)

    @property
    def islands(self) -> int:
        return self.goal.search.islands

    @property
    def last_before_finals(self) -> bool:
        """Budget or patience end with this generation, unless it finds something better."""
        budget, searched = self.goal.budget, sum(tried.submitted is None for tried in self.tried)
        return searched + self.size >= budget.candidates or self.stale_generations + 1 >= budget.stagnation


@dataclass(frozen=True)
class Nominee:
    """A measured candidate with the build that was measured."""

    candidate_id: UUID
    search_ratio: float
    build: Build


class BriefReader:
    """Reads briefs, each continuing the fold of the goal's last one: a long goal costs its length once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._histories: OrderedDict[str, SearchHistory] = OrderedDict()
        self._earlier = EarlierGoals()
        self._earlier_read = 0
        self._rejections: dict[str, Rejections] = {}

    async def brief(self, due: GenerationDue) -> Brief:
        """The log up to exactly `due.position`, as `due` needs it."""
        history = await self._history(due.goal_id, due.position)
        goal = _goal_of(history, due.goal_id)
        await self._read_earlier(due.position)
        return Brief(
            goal_id=due.goal_id,
            goal=goal,
            task=due.task,
            position=due.position,
            generation=due.generation,
            seed=due.seed,
            size=due.size,
            tried=history.tried,
            known=history.known | await self._rejected_before(due.goal_id, goal, due.position),
            archive=history.archive,
            elites=tuple(history.elites(island) for island in range(goal.search.islands)),
            best=history.best,
            credit=history.credit,
            warm=self._earlier.warm(due.task, due.position),
            stale_generations=history.stale_generations,
            hint=history.hint,
            bans=history.bans,
        )

    async def nominees(self, due: FinalsDue) -> tuple[Nominee, ...]:
        """The pinned and then the best by search ratio at `due.position`: at most `due.finalists`, no two of the same
        object and none that was rejected as a finalist before, best first."""
        history = await self._history(due.goal_id, due.position)
        refuted = {one.build.object.sha256 for tried in history.disproven if (one := await self._nominee(tried))}
        chosen: dict[str, tuple[Tried, Nominee]] = {}
        for tried in history.nominees():
            if len(chosen) == due.finalists:
                break
            nominee = await self._nominee(tried)
            if nominee is not None and nominee.build.object.sha256 not in refuted:
                chosen.setdefault(nominee.build.object.sha256, (tried, nominee))
        best_first = sorted(chosen.values(), key=lambda pair: standing(pair[0]))
        return tuple(nominee for _, nominee in best_first)

    async def _nominee(self, tried: Tried) -> Nominee | None:
        verified = await self._log.get(tried.verified_id) if tried.verified_id else None
        if verified is None or not isinstance(verified.fact, CandidateVerified) or tried.search_ratio is None:
            return None
        return Nominee(tried.id, tried.search_ratio, verified.fact.build)

    async def _history(self, goal_id: str, position: int) -> SearchHistory:
        """The goal's fold at `position`: continued, or begun again when it is already past (a redelivery)."""
        head = await self._log.head()
        if head.position < position:
            raise Transient(f"the log ends at {head.position}; the brief of {goal_id} needs it up to {position}")
        history = self._histories.pop(goal_id, None)
        if history is None or history.position > position:
            history = SearchHistory()
        async for recorded in self._log.read(history.position, position, goal_id, HISTORY_FACTS):
            history.absorb(recorded)
        self._histories[goal_id] = history
        while len(self._histories) > HISTORIES_KEPT:
            self._histories.popitem(last=False)
        return history

    async def _read_earlier(self, upto: int) -> None:
        if upto <= self._earlier_read:
            return
        async for recorded in self._log.read(self._earlier_read, upto, None, EARLIER_FACTS):
            self._earlier.absorb(recorded)
        self._earlier_read = upto

    async def _rejected_before(self, goal_id: str, goal: Goal, upto: int) -> frozenset[str]:
        """Fingerprints that the newest ladder refused in goals that are judged like this one."""
        found: list[Rejection] = []
        for earlier in self._earlier.like(goal_id, goal, upto):
            rejections = self._rejections.setdefault(earlier.goal_id, Rejections(earlier.goal_id))
            found.extend(await rejections.read(self._log, upto))
        stated = [(one.position, one.ladder) for one in found]
        _, ladder = max([*stated, self._earlier.newest_ladder(goal.target, upto)])
        return frozenset(one.fingerprint for one in found if one.ladder == ladder)


async def read_brief(log: Log, due: GenerationDue) -> Brief:
    """The brief of `due`, folded from nothing: for audits and replays."""
    return await BriefReader(log).brief(due)


async def read_nominees(log: Log, due: FinalsDue) -> tuple[Nominee, ...]:
    """The finalists of `due`, folded from nothing."""
    return await BriefReader(log).nominees(due)


def _goal_of(history: SearchHistory, goal_id: str) -> Goal:
    if history.goal is None:
        raise Bug(f"generation.due for {goal_id}, but its goal.accepted is not in the log before it")
    return history.goal
