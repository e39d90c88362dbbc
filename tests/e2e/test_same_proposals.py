"""The same history and seed give the same candidates: recomputed from the log, and run again from nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kernel_lab.spaces import SPACES
from schemas.envelope import Envelope
from schemas.events import CandidateProposed, FinalistNominated, FinalsDue, GenerationDue
from services.evidence.log import Log
from services.evidence.postgres_log import PostgresLog
from services.proposer.core import Nominate, Propose, Proposer, ProposerWork
from services.proposer.work import Thinker
from tests.fixtures.factory import Factory, null_goal

pytestmark = pytest.mark.slow

PROPOSALS = (CandidateProposed, FinalistNominated)


@pytest.fixture
async def log(running_factory: Factory) -> AsyncIterator[Log]:
    """The log of a factory in which a goal has ended."""
    running_factory.submit(null_goal(), "g")
    running_factory.wait_for_end("g")
    opened = PostgresLog(running_factory.json("status")["postgres"]["dsn"])
    yield opened
    await opened.close()


async def recomputed(log: Log, due: Envelope[GenerationDue | FinalsDue]) -> dict[object, object]:
    """What a proposer that knows nothing but the log up to the due's position answers."""
    work: ProposerWork = Propose(due.fact) if isinstance(due.fact, GenerationDue) else Nominate(due.fact)
    drafts = Proposer().conclude(due, work, await Thinker(log, SPACES).perform(work))
    return {draft.id: draft.fact for draft in drafts if isinstance(draft.fact, PROPOSALS)}


async def test_every_recorded_proposal_and_nomination_can_be_recomputed_from_the_log(log: Log) -> None:
    dues = [recorded.envelope async for recorded in log.read(goal_id="g", types=(GenerationDue, FinalsDue))]
    recorded = {r.id: r.fact async for r in log.read(goal_id="g", types=PROPOSALS)}
    again: dict[object, object] = {}
    for due in dues:
        again |= await recomputed(log, due)
    assert len(recorded) == 202, "200 candidates and two finalists"
    assert again == recorded


async def test_another_seed_proposes_others(log: Log) -> None:
    (first, *_) = [recorded.envelope async for recorded in log.read(goal_id="g", types=(GenerationDue,))]
    other = Envelope(
        first.id, first.fact.model_copy(update={"seed": first.fact.seed + 1}), first.source, first.time, None
    )
    assert await recomputed(log, other) != await recomputed(log, first)


@pytest.mark.long
def test_the_same_goal_in_another_factory_proposes_the_same_candidates(factory: Factory, tmp_path: Path) -> None:
    other = Factory(tmp_path / "other", factory.environment)
    try:
        first, second = proposed_in(factory), proposed_in(other)
    finally:
        other.down()
    assert len(first) == 200
    assert first == second


def proposed_in(factory: Factory) -> list[tuple[int, str]]:
    """Generation and fingerprint of every candidate, in the order proposed."""
    factory.up()
    factory.submit(null_goal(), "g")
    factory.wait_for_end("g")
    facts = [fact["data"] for fact in factory.facts("g") if fact["type"] == CandidateProposed.TYPE]
    return [(fact["generation"], fact["kernel"]["fingerprint"]) for fact in facts]
