"""What a fact makes of one candidate: its climb from proposed to its end, and the longer looks after it."""

from dataclasses import replace

from schemas.enums import Verdict
from schemas.events import (
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    MeasurementNotRun,
    MeasurementRefused,
    MeasurementRequested,
)
from schemas.measurement import Comparison
from services.evidence.goal_parts import CandidateState, End
from services.evidence.worth import ratio_of, worth_of

GUIDES_NOTHING = frozenset({Verdict.INVALID, Verdict.UNFIT, Verdict.QUARANTINED})
"""Verdicts whose ratio, if there is one, must not steer the search (measurement.md, 5, 4 and 10)."""

HalvingMove = MeasurementRequested | CandidateRemeasured | MeasurementRefused | MeasurementNotRun
CandidateMove = CandidateCompiled | CandidateVerified | CandidateMeasured | CandidateRejected | CandidateAbandoned


def begun(fact: CandidateProposed) -> CandidateState:
    """A candidate that was just proposed."""
    return CandidateState(fact.kernel.genome, fact.kernel.fingerprint)


def climbed(candidate: CandidateState, fact: CandidateMove) -> CandidateState:
    """An open `candidate` one step on, or at its end."""
    match fact:
        case CandidateCompiled():
            return replace(candidate, compiled=True)
        case CandidateVerified(build=build):
            return replace(candidate, compiled=True, verified=True, build=build)
        case CandidateMeasured(comparison=comparison, worth_more=worth_more):
            seen = _seen(replace(candidate, end=End.MEASURED), comparison)
            return seen if worth_more and candidate.build is not None else replace(seen, looks=())
        case CandidateRejected(reason=reason, counterexample=counterexample):
            return replace(candidate, end=End.REJECTED, reason=reason, counterexample=counterexample)
        case CandidateAbandoned():
            return replace(candidate, end=End.ABANDONED)


def looked_again(candidate: CandidateState, fact: HalvingMove) -> CandidateState:
    """`candidate` after a step of a longer look; the very same object when the step does not count."""
    if candidate.end is not End.MEASURED:
        return candidate
    if isinstance(fact, MeasurementRequested):
        is_next = fact.round == candidate.answered + 1 and candidate.asked < fact.round
        return replace(candidate, asked=fact.round) if is_next else candidate
    if fact.round != candidate.asked or candidate.answered >= fact.round:
        return candidate
    return _after_round(replace(candidate, answered=fact.round), fact)


def _after_round(
    candidate: CandidateState, fact: CandidateRemeasured | MeasurementRefused | MeasurementNotRun
) -> CandidateState:
    match fact:
        case CandidateRemeasured(comparison=comparison):
            return _seen(candidate, comparison)
        case MeasurementRefused(reason=reason, counterexample=counterexample):
            return replace(
                candidate,
                end=End.REJECTED,
                search_ratio=None,
                worth=None,
                reason=reason,
                counterexample=counterexample,
            )
        case MeasurementNotRun():
            return candidate


def _seen(candidate: CandidateState, comparison: Comparison) -> CandidateState:
    """`candidate` with one more look at it; unchanged when the measurement says nothing."""
    ratio, worth = ratio_of(comparison), worth_of(comparison)
    if ratio is None or worth is None or comparison.verdict in GUIDES_NOTHING:
        return candidate
    return replace(candidate, search_ratio=ratio, worth=worth, looks=(*candidate.looks, worth))
