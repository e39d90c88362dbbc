"""The verifier: a verdict for every compiled candidate and every finalist, under one id each."""

from uuid import uuid4

import pytest

from schemas.enums import AbandonReason, JudgedAs, Language, Reason, Rung, Stage
from schemas.envelope import Envelope
from schemas.events import (
    CandidateAbandoned,
    CandidateCompiled,
    CandidateRejected,
    CandidateVerified,
    FinalistAbandoned,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    SearchExhausted,
)
from schemas.faults import Bug
from schemas.ids import answer_id
from schemas.verdict import Judgement
from schemas.work import Counterexample
from services.runtime.routes import INPUTS
from services.runtime.service import Do, Quiet
from services.verifier.core import Prove, Verifier, Verify
from services.verifier.work import judge_null
from tests.search_story import START, build, judgement, kernel, task

CANDIDATE = uuid4()
BUILD, TASK = build(kernel("k1")), task()
VERIFY, PROVE = Verify(BUILD, TASK), Prove(BUILD, TASK)
FOUND = Counterexample(workload="rms_norm", axes={"T": 1, "H": 3}, distribution="normal", seed=5)


def compiled() -> Envelope[CandidateCompiled]:
    fact = CandidateCompiled(
        goal_id="g1", candidate_id=CANDIDATE, generation=2, build=BUILD, compile_ms=50.0, warnings="", task=TASK
    )
    return Envelope(uuid4(), fact, "assay/compiler/a", START)


def nominated() -> Envelope[FinalistNominated]:
    fact = FinalistNominated(
        goal_id="g1", candidate_id=CANDIDATE, attempt=1, rank=0, search_ratio=1.2, build=BUILD, task=TASK
    )
    return Envelope(uuid4(), fact, "assay/proposer/a", START)


def said(verdict: JudgedAs, counterexample: Counterexample | None = None) -> Judgement:
    rejected = verdict is JudgedAs.REJECTED
    return judgement(verdict).model_copy(
        update={
            "rung": Rung.NUMERIC if verdict is not JudgedAs.VERIFIED else None,
            "reason": Reason.OUT_OF_BOUND if rejected else None,
            "message": "y[3] is 0" if verdict is not JudgedAs.VERIFIED else None,
            "counterexample": counterexample,
        }
    )


def test_the_verifier_takes_the_work_that_the_queue_brings() -> None:
    assert Verifier.inputs == INPUTS[Verifier.name]


def test_a_compiled_candidate_climbs_and_a_finalist_proves_beside_other_shared_work() -> None:
    assert Verifier().decide(compiled()) == Do(VERIFY)
    assert Verifier().decide(nominated()) == Do(PROVE)
    assert VERIFY.quiet is PROVE.quiet is Quiet.SHARED


def test_a_null_candidate_needs_no_quiet() -> None:
    null = build(kernel("n").model_copy(update={"language": Language.NULL}))
    assert Verify(null, TASK).quiet is Prove(null, TASK).quiet is Quiet.NONE


def test_a_verified_candidate_is_stated_with_all_that_the_benchmarker_needs() -> None:
    cause, verdict = compiled(), said(JudgedAs.VERIFIED)
    (draft,) = Verifier().conclude(cause, VERIFY, verdict)
    assert draft.fact == CandidateVerified(
        goal_id="g1", candidate_id=CANDIDATE, generation=2, build=BUILD, judgement=verdict, task=TASK
    )


def test_verified_rejected_and_abandoned_share_one_id_so_the_first_wins() -> None:
    cause = compiled()
    drafts = [Verifier().conclude(cause, VERIFY, said(verdict))[0] for verdict in JudgedAs]
    drafts += Verifier().abandon(cause, AbandonReason.WORKER_LOST, "handed out six times")
    assert {draft.id for draft in drafts} == {answer_id(cause.id, "verify")}
    assert {type(draft.fact) for draft in drafts} == {CandidateVerified, CandidateRejected, CandidateAbandoned}


def test_proven_rejected_and_abandoned_share_one_id_so_the_first_wins() -> None:
    cause = nominated()
    drafts = [Verifier().conclude(cause, PROVE, said(verdict))[0] for verdict in JudgedAs]
    drafts += Verifier().abandon(cause, AbandonReason.WORKER_LOST, "handed out six times")
    assert {draft.id for draft in drafts} == {answer_id(cause.id, "prove")}
    assert {type(draft.fact) for draft in drafts} == {FinalistProven, FinalistRejected, FinalistAbandoned}


def test_a_rejection_names_its_stage_reason_and_the_candidate_that_its_counterexample_caught() -> None:
    verdict = said(JudgedAs.REJECTED, FOUND)
    (draft,) = Verifier().conclude(compiled(), VERIFY, verdict)
    assert draft.fact == CandidateRejected(
        goal_id="g1",
        candidate_id=CANDIDATE,
        generation=2,
        stage=Stage.VERIFY,
        reason=Reason.OUT_OF_BOUND,
        message="y[3] is 0",
        judgement=verdict,
        counterexample=FOUND.model_copy(update={"found_by": CANDIDATE}),
    )


def test_a_known_counterexample_keeps_its_finder() -> None:
    finder = uuid4()
    known = FOUND.model_copy(update={"found_by": finder})
    (draft,) = Verifier().conclude(nominated(), PROVE, said(JudgedAs.REJECTED, known))
    assert draft.fact.counterexample == known
    assert draft.fact.rung is Rung.NUMERIC


def test_a_rung_that_could_not_run_abandons_and_never_verifies() -> None:
    (candidate,) = Verifier().conclude(compiled(), VERIFY, said(JudgedAs.NO_VERDICT))
    (finalist,) = Verifier().conclude(nominated(), PROVE, said(JudgedAs.NO_VERDICT))
    for fact in (candidate.fact, finalist.fact):
        assert fact.reason is AbandonReason.TOOL_FAILURE
        assert fact.message == "v3_numeric: y[3] is 0"
    assert candidate.fact.stage is Stage.VERIFY


def test_a_fact_that_is_no_work_is_a_bug() -> None:
    closed = SearchExhausted(goal_id="g1", generation=0, message="")
    stray = Envelope(uuid4(), closed, "assay/proposer/a", START)
    with pytest.raises(Bug):
        Verifier().decide(stray)
    with pytest.raises(Bug):
        Verifier().abandon(stray, AbandonReason.WORKER_LOST, "")


def test_a_null_candidate_is_verified_at_once_and_claims_no_rung() -> None:
    verdict = judge_null(VERIFY)
    assert verdict.verdict is JudgedAs.VERIFIED
    assert verdict.rungs == ()
    assert verdict.isolation == "none"
    assert verdict == judge_null(PROVE)
