"""What the compiler answers: an object for a candidate, or why there is none."""

from dataclasses import dataclass
from typing import Any, ClassVar, assert_never

from schemas.enums import AbandonReason, Language, Reason, Stage
from schemas.envelope import Envelope, answer
from schemas.events import CandidateAbandoned, CandidateCompiled, CandidateProposed, CandidateRejected, Fact
from schemas.faults import Bug
from schemas.model import clip
from schemas.work import Build, Kernel, MachineClass
from services.runtime.service import Do, Facts, Quiet

COMPILE = "compile"
"""Shared by compiled, rejected and abandoned: the first wins."""

MESSAGE_LIMIT_BYTES = 1024
"""Of a one-line reason; what the compiler printed goes to `diagnostics`. Chosen."""


@dataclass(frozen=True)
class Compile:
    """Compile this kernel for this machine class."""

    kernel: Kernel
    workload: str
    machine: MachineClass

    @property
    def quiet(self) -> Quiet:
        """Compiling next to a measurement ruins it; the null backend disturbs nobody."""
        return Quiet.NONE if self.kernel.language is Language.NULL else Quiet.SHARED


@dataclass(frozen=True)
class Compiled:
    """The object is in the artifact store."""

    build: Build
    compile_ms: float
    warnings: str


@dataclass(frozen=True)
class Refused:
    """The source is no kernel."""

    reason: Reason
    message: str
    diagnostics: str


class Compiler:
    """Turns every proposed candidate into an object or a reason."""

    name: ClassVar[str] = "compiler"
    inputs: ClassVar[tuple[type[Fact], ...]] = (CandidateProposed,)

    def decide(self, cause: Envelope[Any]) -> Do[Compile] | Facts:
        match cause.fact:
            case CandidateProposed(kernel=kernel, task=task):
                return Do(Compile(kernel, task.workload, task.machine))
            case other:
                raise Bug(f"{other.TYPE} is no work for the compiler")

    def conclude(self, cause: Envelope[Any], work: Compile, outcome: Compiled | Refused) -> Facts:
        del work
        proposed: CandidateProposed = cause.fact
        match outcome:
            case Compiled():
                return (answer(cause, COMPILE, _compiled(cause, proposed, outcome)),)
            case Refused():
                return (answer(cause, COMPILE, _rejected(cause, proposed, outcome)),)
            case _:
                assert_never(outcome)

    def abandon(self, cause: Envelope[Any], reason: AbandonReason, message: str) -> Facts:
        proposed: CandidateProposed = cause.fact
        fact = CandidateAbandoned(
            goal_id=proposed.goal_id,
            candidate_id=cause.id,
            generation=proposed.generation,
            stage=Stage.COMPILE,
            reason=reason,
            message=message,
        )
        return (answer(cause, COMPILE, fact),)


def _compiled(cause: Envelope[Any], proposed: CandidateProposed, outcome: Compiled) -> CandidateCompiled:
    return CandidateCompiled(
        goal_id=proposed.goal_id,
        candidate_id=cause.id,
        generation=proposed.generation,
        build=outcome.build,
        compile_ms=outcome.compile_ms,
        warnings=clip(outcome.warnings),
        task=proposed.task,
    )


def _rejected(cause: Envelope[Any], proposed: CandidateProposed, outcome: Refused) -> CandidateRejected:
    return CandidateRejected(
        goal_id=proposed.goal_id,
        candidate_id=cause.id,
        generation=proposed.generation,
        stage=Stage.COMPILE,
        reason=outcome.reason,
        message=clip(outcome.message, MESSAGE_LIMIT_BYTES),
        diagnostics=clip(outcome.diagnostics),
    )
