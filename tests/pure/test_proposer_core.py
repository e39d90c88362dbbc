"""The proposer: what it answers to what is due."""

from dataclasses import replace
from uuid import UUID

import pytest

from schemas.enums import AbandonReason
from schemas.events import (
    CandidateProposed,
    FinalistNominated,
    FinalsAbandoned,
    FinalsOpened,
    GenerationAbandoned,
    GenerationOpened,
    SearchExhausted,
)
from schemas.faults import Bug, Transient
from schemas.ids import answer_id
from schemas.work import Genome
from services.evidence.brief import Nominee
from services.proposer.core import Nominate, Nominated, Propose, Proposer
from services.proposer.portfolio import Exhausted, Proposal, Proposed
from services.proposer.work import Thinker
from services.runtime.routes import INPUTS
from services.runtime.service import Do, Quiet
from tests.search_spaces import LARGE, spaces, terrain
from tests.search_story import Story, build, goal, kernel

PROPOSALS = tuple(Proposal(number % 2, "genetic/mutation", (UUID(int=9),), kernel(f"k{number}")) for number in range(3))


def test_the_proposer_takes_the_work_that_the_queue_brings() -> None:
    assert Proposer.inputs == INPUTS[Proposer.name]


def test_a_due_generation_is_thought_up_next_to_any_measurement() -> None:
    recorded = Story().generation_due(2)
    assert Proposer().decide(recorded.envelope) == Do(Propose(recorded.fact))
    assert Propose(recorded.fact).quiet is Quiet.NONE


def test_candidates_are_stated_before_the_generation_that_names_them() -> None:
    recorded = Story().generation_due(2)
    drafts = Proposer().conclude(recorded.envelope, Propose(recorded.fact), Proposed(PROPOSALS))
    *candidates, opened = drafts
    assert all(isinstance(draft.fact, CandidateProposed) for draft in candidates)
    assert [draft.id for draft in candidates] == [answer_id(recorded.id, "propose", n) for n in range(3)]
    assert isinstance(opened.fact, GenerationOpened)
    assert opened.id == answer_id(recorded.id, "open")
    assert opened.fact.candidate_ids == tuple(draft.id for draft in candidates)
    assert opened.fact.generation == 2


def test_a_candidate_says_who_thought_of_it_and_from_whom() -> None:
    recorded = Story().generation_due(2)
    fact = Proposer().conclude(recorded.envelope, Propose(recorded.fact), Proposed(PROPOSALS))[1].fact
    assert isinstance(fact, CandidateProposed)
    assert fact.author == "assay/proposer/genetic"
    assert fact.strategy == "genetic/mutation"
    assert (fact.island, fact.parents, fact.generation) == (1, (UUID(int=9),), 2)
    assert fact.task == recorded.fact.task


def test_a_search_with_nothing_left_is_exhausted_under_the_id_of_opening() -> None:
    recorded = Story().generation_due(4)
    (draft,) = Proposer().conclude(recorded.envelope, Propose(recorded.fact), Exhausted("nothing left"))
    assert draft.id == answer_id(recorded.id, "open")
    assert draft.fact == SearchExhausted(goal_id="g1", generation=4, message="nothing left")


def test_finalists_are_ranked_and_then_opened() -> None:
    recorded = Story().finals_due()
    nominees = tuple(Nominee(UUID(int=n), 1.5 - n / 10, build(kernel(f"k{n}"))) for n in range(2))
    *finalists, opened = Proposer().conclude(recorded.envelope, Nominate(recorded.fact), Nominated(nominees))
    facts = [draft.fact for draft in finalists]
    assert all(isinstance(fact, FinalistNominated) for fact in facts)
    assert [(fact.rank, fact.candidate_id, fact.search_ratio) for fact in facts] == [
        (1, UUID(int=0), 1.5),
        (2, UUID(int=1), 1.4),
    ]
    assert [draft.id for draft in finalists] == [answer_id(recorded.id, "nominate", n) for n in range(2)]
    assert opened.fact == FinalsOpened(goal_id="g1", attempt=0, candidate_ids=(UUID(int=0), UUID(int=1)))
    assert opened.id == answer_id(recorded.id, "open_finals")


def test_finals_may_open_with_nobody_in_them() -> None:
    recorded = Story().finals_due()
    (opened,) = Proposer().conclude(recorded.envelope, Nominate(recorded.fact), Nominated(()))
    assert opened.fact == FinalsOpened(goal_id="g1", attempt=0, candidate_ids=())


def test_work_that_nobody_could_do_is_abandoned_under_its_own_slot() -> None:
    story = Story()
    generation, finals = story.generation_due(1), story.finals_due()
    (abandoned,) = Proposer().abandon(generation.envelope, AbandonReason.WORKER_LOST, "five copies died")
    assert abandoned.id == answer_id(generation.id, "open")
    assert abandoned.fact == GenerationAbandoned(
        goal_id="g1", generation=1, attempt=0, reason=AbandonReason.WORKER_LOST, message="five copies died"
    )
    (abandoned,) = Proposer().abandon(finals.envelope, AbandonReason.TOOL_FAILURE, "no disk")
    assert abandoned.id == answer_id(finals.id, "open_finals")
    assert isinstance(abandoned.fact, FinalsAbandoned)


def test_an_outcome_of_other_work_is_a_bug() -> None:
    recorded = Story().finals_due()
    with pytest.raises(Bug):
        Proposer().conclude(recorded.envelope, Nominate(recorded.fact), Exhausted("?"))


async def test_thinking_over_a_log_gives_what_the_pure_portfolio_gives() -> None:
    story = Story()
    story.accepted()
    recorded = story.generation_due(0, size=16)
    thinker = Thinker(await story.in_memory(), spaces(LARGE))
    outcome = await thinker.perform(Propose(recorded.fact))
    assert isinstance(outcome, Proposed)
    assert outcome == await Thinker(await story.in_memory(), spaces(LARGE)).perform(Propose(recorded.fact))
    assert len(outcome.proposals) == 16


async def test_a_search_told_back_through_the_log_repeats_nothing_and_improves() -> None:
    """A whole search in memory: every generation is proposed, measured by a made-up machine, and read back."""
    story = Story()
    story.accepted(goal(budget={"candidates": 160, "wall": 60.0}))
    place = terrain(LARGE)
    proposer = Proposer()
    for number in range(10):
        recorded = story.generation_due(number, size=16)
        work = Propose(recorded.fact)
        outcome = await Thinker(await story.in_memory(), spaces(LARGE)).perform(work)
        for draft in proposer.conclude(recorded.envelope, work, outcome):
            told = story.state(draft)
            if isinstance(told.fact, CandidateProposed):
                story.measured(told.id, _speed(told.fact))
        story.generation_closed(number)
    facts = [told.fact for told in story.log if isinstance(told.fact, CandidateProposed)]
    fingerprints = [fact.kernel.fingerprint for fact in facts]
    assert len(fingerprints) == len(set(fingerprints)) == 160
    sampled = max(_speed(fact) for fact in facts if fact.strategy == "latin_hypercube")
    assert max(map(_speed, facts)) >= max(sampled, 0.97 * max(map(_speed_of, place.points)))


def _speed(fact: CandidateProposed) -> float:
    return _speed_of(fact.kernel.genome)


def _speed_of(genome: Genome) -> float:
    assert isinstance(genome["prefetch"], int)
    assert isinstance(genome["unroll"], int)
    wide = 0.2 if genome["vector_bits"] == 512 else 0.0
    streaming = 0.3 if genome["streaming"] else 0.0
    return 1 + wide + streaming - abs(genome["prefetch"] - 13) / 40 - abs(genome["unroll"] - 8) / 80


async def test_a_log_that_is_behind_is_waited_for() -> None:
    story = Story()
    story.accepted()
    recorded = story.generation_due(0)
    ahead = replace(Propose(recorded.fact), due=recorded.fact.model_copy(update={"position": 50}))
    with pytest.raises(Transient):
        await Thinker(await story.in_memory(), spaces(LARGE)).perform(ahead)
