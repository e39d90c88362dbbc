"""What the verifier answers: verified or rejected for a candidate, proven or rejected for a finalist."""

from dataclasses import dataclass
from typing import Any, ClassVar, assert_never

from schemas.enums import AbandonReason, JudgedAs, Language, Stage
from schemas.envelope import Envelope, answer
from schemas.events import (
    CandidateAbandoned,
    CandidateCompiled,
    CandidateRejected,
    CandidateVerified,
    Fact,
    FinalistAbandoned,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
)
from schemas.faults import Bug
from schemas.verdict import Judgement
from schemas.work import Build, Counterexample, Task
from services.runtime.service import Do, Facts, Quiet

VERIFY = "verify"
"""Shared by verified, rejected and abandoned: the first wins."""
PROVE = "prove"
"""The same for finalists."""


@dataclass(frozen=True)
class Verify:
    """Climb the cheap rungs with this candidate."""

    build: Build
    task: Task

    @property
    def quiet(self) -> Quiet:
        return _quiet(self.build)


@dataclass(frozen=True)
class Prove:
    """Climb every rung with this finalist, at every depth there is."""

    build: Build
    task: Task

    @property
    def quiet(self) -> Quiet:
        return _quiet(self.build)


class Verifier:
    """Says of every compiled candidate, and of every finalist, whether it may be believed."""

    name: ClassVar[str] = "verifier"
    inputs: ClassVar[tuple[type[Fact], ...]] = (CandidateCompiled, FinalistNominated)

    def decide(self, cause: Envelope[Any]) -> Do[Verify | Prove] | Facts:
        match cause.fact:
            case CandidateCompiled(build=build, task=task):
                return Do(Verify(build, task))
            case FinalistNominated(build=build, task=task):
                return Do(Prove(build, task))
            case other:
                raise Bug(f"{other.TYPE} is no work for the verifier")

    def conclude(self, cause: Envelope[Any], work: Verify | Prove, outcome: Judgement) -> Facts:
        if outcome.verdict is JudgedAs.NO_VERDICT:
            return self.abandon(cause, AbandonReason.TOOL_FAILURE, _why_none(outcome))
        match work:
            case Verify():
                return (answer(cause, VERIFY, _of_candidate(cause.fact, outcome)),)
            case Prove():
                return (answer(cause, PROVE, _of_finalist(cause.fact, outcome)),)
            case _:
                assert_never(work)

    def abandon(self, cause: Envelope[Any], reason: AbandonReason, message: str) -> Facts:
        match cause.fact:
            case CandidateCompiled() as compiled:
                return (answer(cause, VERIFY, _candidate_abandoned(compiled, reason, message)),)
            case FinalistNominated() as nominated:
                return (answer(cause, PROVE, _finalist_abandoned(nominated, reason, message)),)
            case other:
                raise Bug(f"{other.TYPE} is no work for the verifier")


def _quiet(build: Build) -> Quiet:
    """Verifying next to a measurement ruins it; a null candidate disturbs nobody."""
    return Quiet.NONE if build.kernel.language is Language.NULL else Quiet.SHARED


def _of_candidate(compiled: CandidateCompiled, judgement: Judgement) -> CandidateVerified | CandidateRejected:
    if judgement.verdict is JudgedAs.VERIFIED:
        return CandidateVerified(
            goal_id=compiled.goal_id,
            candidate_id=compiled.candidate_id,
            generation=compiled.generation,
            build=compiled.build,
            judgement=judgement,
            task=compiled.task,
        )
    assert judgement.reason is not None, "a rejection has a reason"
    return CandidateRejected(
        goal_id=compiled.goal_id,
        candidate_id=compiled.candidate_id,
        generation=compiled.generation,
        stage=Stage.VERIFY,
        reason=judgement.reason,
        message=judgement.message or "",
        judgement=judgement,
        counterexample=_signed(judgement, compiled),
    )


def _of_finalist(nominated: FinalistNominated, judgement: Judgement) -> FinalistProven | FinalistRejected:
    if judgement.verdict is JudgedAs.VERIFIED:
        return FinalistProven(
            goal_id=nominated.goal_id,
            candidate_id=nominated.candidate_id,
            attempt=nominated.attempt,
            build=nominated.build,
            judgement=judgement,
        )
    assert judgement.reason is not None, "a rejection has a reason"
    return FinalistRejected(
        goal_id=nominated.goal_id,
        candidate_id=nominated.candidate_id,
        attempt=nominated.attempt,
        reason=judgement.reason,
        rung=judgement.rung,
        message=judgement.message or "",
        judgement=judgement,
        counterexample=_signed(judgement, nominated),
    )


def _signed(judgement: Judgement, caught: CandidateCompiled | FinalistNominated) -> Counterexample | None:
    """The counterexample, with the candidate that it first caught; a known one keeps its finder."""
    found = judgement.counterexample
    if found is None or found.found_by is not None:
        return found
    return found.model_copy(update={"found_by": caught.candidate_id})


def _candidate_abandoned(compiled: CandidateCompiled, reason: AbandonReason, message: str) -> CandidateAbandoned:
    return CandidateAbandoned(
        goal_id=compiled.goal_id,
        candidate_id=compiled.candidate_id,
        generation=compiled.generation,
        stage=Stage.VERIFY,
        reason=reason,
        message=message,
    )


def _finalist_abandoned(nominated: FinalistNominated, reason: AbandonReason, message: str) -> FinalistAbandoned:
    return FinalistAbandoned(
        goal_id=nominated.goal_id,
        candidate_id=nominated.candidate_id,
        attempt=nominated.attempt,
        reason=reason,
        message=message,
    )


def _why_none(judgement: Judgement) -> str:
    return f"{judgement.rung}: {judgement.message}"
