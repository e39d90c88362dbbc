"""What the proposer answers: a generation of candidates, or the finalists of a search."""

from dataclasses import dataclass
from typing import Any, ClassVar, assert_never

from schemas.enums import AbandonReason
from schemas.envelope import Envelope, answer
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
    SearchExhausted,
)
from schemas.faults import Bug
from services.evidence.brief import Nominee
from services.proposer.portfolio import Exhausted, Proposal, Proposed
from services.runtime.service import Do, Facts, Quiet

PROPOSE = "propose"
OPEN = "open"
"""Shared by opened, exhausted and abandoned: a generation is settled one way, and the first wins."""
NOMINATE = "nominate"
OPEN_FINALS = "open_finals"


@dataclass(frozen=True)
class Propose:
    """Think up the generation that is due."""

    due: GenerationDue
    quiet: Quiet = Quiet.NONE


@dataclass(frozen=True)
class Nominate:
    """Choose the finalists that are due."""

    due: FinalsDue
    quiet: Quiet = Quiet.NONE


@dataclass(frozen=True)
class Nominated:
    """The finalists, best first. There may be none."""

    nominees: tuple[Nominee, ...]


ProposerWork = Propose | Nominate
ProposerOutcome = Proposed | Exhausted | Nominated


class Proposer:
    """Turns what the curator makes due into candidates and finalists."""

    name: ClassVar[str] = "proposer"
    inputs: ClassVar[tuple[type[Fact], ...]] = (GenerationDue, FinalsDue)

    def decide(self, cause: Envelope[Any]) -> Do[ProposerWork] | Facts:
        match cause.fact:
            case GenerationDue() as due:
                return Do(Propose(due))
            case FinalsDue() as due:
                return Do(Nominate(due))
            case other:
                raise Bug(f"{other.TYPE} is no work for the proposer")

    def conclude(self, cause: Envelope[Any], work: ProposerWork, outcome: ProposerOutcome) -> Facts:
        match work, outcome:
            case Propose(due=due), Proposed(proposals=proposals):
                return _opened(cause, due, proposals)
            case Propose(due=due), Exhausted(message=message):
                fact = SearchExhausted(goal_id=due.goal_id, generation=due.generation, message=message)
                return (answer(cause, OPEN, fact),)
            case Nominate(due=due), Nominated(nominees=nominees):
                return _finals_opened(cause, due, nominees)
            case _:
                raise Bug(f"{type(work).__name__} cannot end in {type(outcome).__name__}")

    def abandon(self, cause: Envelope[Any], reason: AbandonReason, message: str) -> Facts:
        due: GenerationDue | FinalsDue = cause.fact
        match due:
            case GenerationDue():
                abandoned = GenerationAbandoned(
                    goal_id=due.goal_id, generation=due.generation, attempt=due.attempt, reason=reason, message=message
                )
                return (answer(cause, OPEN, abandoned),)
            case FinalsDue():
                finals = FinalsAbandoned(goal_id=due.goal_id, attempt=due.attempt, reason=reason, message=message)
                return (answer(cause, OPEN_FINALS, finals),)
            case _:
                assert_never(due)


def _opened(cause: Envelope[Any], due: GenerationDue, proposals: tuple[Proposal, ...]) -> Facts:
    """Every candidate, then the generation that names them: it opens once all of them are on the stream."""
    drafts = tuple(
        answer(cause, PROPOSE, _candidate(due, proposal), ordinal) for ordinal, proposal in enumerate(proposals)
    )
    opened = GenerationOpened(
        goal_id=due.goal_id, generation=due.generation, candidate_ids=tuple(draft.id for draft in drafts)
    )
    return (*drafts, answer(cause, OPEN, opened))


def _candidate(due: GenerationDue, proposal: Proposal) -> CandidateProposed:
    strategy, _, _operator = proposal.strategy.partition("/")
    return CandidateProposed(
        goal_id=due.goal_id,
        generation=due.generation,
        island=proposal.island,
        strategy=proposal.strategy,
        author=f"assay/proposer/{strategy}",
        parents=proposal.parents,
        kernel=proposal.kernel,
        task=due.task,
    )


def _finals_opened(cause: Envelope[Any], due: FinalsDue, nominees: tuple[Nominee, ...]) -> Facts:
    drafts = tuple(
        answer(cause, NOMINATE, _finalist(due, rank, nominee), rank - 1)
        for rank, nominee in enumerate(nominees, start=1)
    )
    ids = tuple(nominee.candidate_id for nominee in nominees)
    opened = FinalsOpened(goal_id=due.goal_id, attempt=due.attempt, candidate_ids=ids)
    return (*drafts, answer(cause, OPEN_FINALS, opened))


def _finalist(due: FinalsDue, rank: int, nominee: Nominee) -> FinalistNominated:
    return FinalistNominated(
        goal_id=due.goal_id,
        candidate_id=nominee.candidate_id,
        attempt=due.attempt,
        rank=rank,
        search_ratio=nominee.search_ratio,
        build=nominee.build,
        task=due.task,
    )
