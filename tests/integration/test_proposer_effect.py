"""The proposer's effect over a real log in Postgres, opened as the host opens it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kernel_lab.spaces.installed import load_spaces
from schemas.envelope import encode
from schemas.faults import Misconfigured
from services.evidence.log import Incoming
from services.evidence.postgres_log import PostgresLog
from services.proposer.core import Nominate, Nominated, Propose, Proposer
from services.proposer.portfolio import Proposed
from services.proposer.work import open_effect
from services.runtime.settings import Settings
from tests.fixtures.postgres import Database
from tests.search_spaces import LARGE
from tests.search_story import Story, goal


def record(database: Database, story: Story, after: int = 0) -> None:
    """What `story` tells after a position is in the log."""

    async def append() -> None:
        log = PostgresLog(database.recorder_dsn)
        told = [Incoming(encode(one.envelope), "epoch", one.position) for one in story.log[after:]]
        await log.append(told)
        await log.close()

    asyncio.run(append())


def effect(database: Database) -> Callable[[Any], Any]:
    return open_effect(Settings(postgres_dsn=database.reader_dsn))


def test_a_search_is_proposed_from_the_log_generation_by_generation(database: Database) -> None:
    story = Story()
    story.accepted(goal())
    perform, proposer, seen = effect(database), Proposer(), set[str]()
    recorded = 0
    for number in range(3):
        due = story.generation_due(number, size=8)
        record(database, story, recorded)
        recorded = story.position
        outcome = perform(Propose(due.fact))
        assert isinstance(outcome, Proposed)
        fingerprints = {proposal.kernel.fingerprint for proposal in outcome.proposals}
        assert len(fingerprints) == 8
        assert not fingerprints & seen
        seen |= fingerprints
        for draft in proposer.conclude(due.envelope, Propose(due.fact), outcome):
            story.state(draft)
            if draft.fact.TYPE == "candidate.proposed.v1":
                story.measured(draft.id, 1 + len(seen) / 100)


def test_a_redelivered_generation_is_proposed_the_same_by_another_copy(database: Database) -> None:
    story = Story()
    story.accepted(goal())
    due = story.generation_due(0)
    record(database, story)
    assert effect(database)(Propose(due.fact)) == effect(database)(Propose(due.fact))


def test_finalists_come_with_the_build_that_was_measured(database: Database) -> None:
    story = Story()
    story.accepted(goal())
    story.measured(story.proposed("slow"), 1.1)
    story.measured(story.proposed("fast"), 1.3)
    due = story.finals_due()
    record(database, story)
    outcome = effect(database)(Nominate(due.fact))
    assert isinstance(outcome, Nominated)
    assert [nominee.build.kernel.fingerprint for nominee in outcome.nominees] == ["fast", "slow"]


def test_a_proposer_without_a_log_refuses_to_start() -> None:
    with pytest.raises(Misconfigured, match="ASSAY_POSTGRES_DSN"):
        open_effect(Settings())


def test_a_space_of_your_own_joins_the_ones_that_come_with_assay() -> None:
    spaces = load_spaces(("tests.fixtures.own_spaces",))
    variants = spaces[(LARGE.workload, LARGE.language)].variants
    assert {"two_pass", "eighth_of_the_row"} <= set(variants)


def test_a_module_that_is_no_space_is_named() -> None:
    with pytest.raises(Misconfigured, match=r"tests\.nowhere cannot be imported"):
        load_spaces(("tests.nowhere",))
    with pytest.raises(Misconfigured, match="json defines no SPACES"):
        load_spaces(("json",))
