"""Every proposal and nomination, thought up again from the brief of its `*.due` fact, and held against the recorded."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from schemas.envelope import Draft, Recorded
from schemas.events import (
    CandidateProposed,
    Fact,
    FinalistNominated,
    FinalsAbandoned,
    FinalsDue,
    FinalsOpened,
    GenerationAbandoned,
    GenerationDue,
    GenerationOpened,
    GoalCompleted,
    SearchExhausted,
)
from schemas.ids import GoalId
from services.console.replaying.findings import Finding, disagreement, finding
from services.proposer.core import Nominate, Propose, Proposer, ProposerWork
from services.proposer.work import Thinker

PROPOSED: tuple[type[Fact], ...] = (
    CandidateProposed,
    GenerationOpened,
    SearchExhausted,
    FinalistNominated,
    FinalsOpened,
)
"""What a proposer answers. That it gave up (`abandoned`) is an accident and no decision."""
LAST = (GenerationOpened, SearchExhausted, FinalsOpened, GenerationAbandoned, FinalsAbandoned)
"""Ends an answer: what should have come before it has come."""
PROPOSERS = "assay/proposer/"
"""How authors begin whose candidates are a proposer's own."""


@dataclass
class _Asked:
    """A due fact, the answer that follows from the log, and what of it is recorded."""

    goal_id: GoalId
    again: dict[UUID, Draft[Any]]
    recorded: set[UUID] = field(default_factory=set)


class ProposerAudit:
    """Follows the log; for each due fact a proposer that knows nothing but the log up to its position thinks again."""

    def __init__(self, thinker: Thinker) -> None:
        self._thinker = thinker
        self._core = Proposer()
        self._asked: dict[UUID, _Asked] = {}

    async def follow(self, recorded: Recorded[Any]) -> tuple[Finding, ...]:
        """What is wrong with `recorded`, the next of the log."""
        match recorded.fact:
            case GenerationDue() | FinalsDue():
                self._asked[recorded.id] = await self._think(recorded)
            case GoalCompleted(goal_id=goal_id):
                self._asked = {id_: asked for id_, asked in self._asked.items() if asked.goal_id != goal_id}
            case fact if isinstance(fact, (*PROPOSED, *LAST)):
                return self._judge(recorded)
            case _:
                pass
        return ()

    async def _think(self, due: Recorded[Any]) -> _Asked:
        work: ProposerWork = Propose(due.fact) if isinstance(due.fact, GenerationDue) else Nominate(due.fact)
        drafts = self._core.conclude(due.envelope, work, await self._thinker.perform(work))
        return _Asked(due.fact.goal_id, {draft.id: draft for draft in drafts})

    def _judge(self, recorded: Recorded[Any]) -> tuple[Finding, ...]:
        cause = recorded.envelope.causation_id
        asked = self._asked.get(cause) if cause else None
        if asked is None:
            return (finding(recorded, "no due fact of its goal is its cause"),) if _is_a_proposers(recorded) else ()
        asked.recorded.add(recorded.id)
        wrong = [problem] if (problem := _problem(recorded, asked)) else []
        if isinstance(recorded.fact, (GenerationOpened, FinalsOpened)):
            wrong += [
                f"{draft.fact.TYPE} {draft.id} belongs to it and is not recorded before it"
                for draft in asked.again.values()
                if draft.id not in asked.recorded and not isinstance(draft.fact, LAST)
            ]
        return tuple(finding(recorded, one) for one in wrong)


def _problem(recorded: Recorded[Any], asked: _Asked) -> str | None:
    if isinstance(recorded.fact, GenerationAbandoned | FinalsAbandoned):
        return None
    again = asked.again.get(recorded.id)
    if again is None:
        return f"not proposed when it is thought up again: {len(asked.again)} other facts are"
    return disagreement(recorded, again)


def _is_a_proposers(recorded: Recorded[Any]) -> bool:
    """A candidate that a person submitted has another author, and the desk's request as its cause."""
    fact = recorded.fact
    return not isinstance(fact, CandidateProposed) or fact.author.startswith(PROPOSERS)
