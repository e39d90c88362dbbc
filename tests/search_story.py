"""Builds the facts of a search, recorded in order, for tests of briefs, strategies and reports."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from schemas.enums import (
    AbandonReason,
    Dtype,
    EndedBy,
    JudgedAs,
    Language,
    RatioKind,
    Reason,
    Regime,
    Rung,
    Stage,
    Target,
    Verdict,
)
from schemas.envelope import Draft, Envelope, Recorded, answer, due, encode
from schemas.events import (
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    ChampionCrowned,
    Fact,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
    FinalsDue,
    GenerationClosed,
    GenerationDue,
    GoalAccepted,
    MeasurementRefused,
)
from schemas.goal import Constraints, Goal, Shape
from schemas.ids import NAMESPACE
from schemas.measurement import Comparison, Interval, ShapeResult
from schemas.requests import RawRequest
from schemas.verdict import Judgement
from schemas.work import Artifact, Build, Genome, Kernel, MachineClass, Task
from services.evidence.log import Incoming
from services.evidence.memory_log import MemoryLog

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKLOAD = "rms_norm"
MACHINE = MachineClass(
    route="cpu_0badcafe",
    architecture="x86_64",
    model="a test machine",
    march="x86-64-v3",
    features=(),
    vector_bits=256,
    threads=2,
    llc_bytes=32 << 20,
)


def goal(**changes: Any) -> Goal:
    """A goal that searches on two islands."""
    stated: dict[str, Any] = {"workload": WORKLOAD, "target": Target.CPU, "shapes": (shape(T=16, H=1024),)}
    return Goal.model_validate(stated | changes)


def shape(**axes: int) -> Shape:
    return Shape(axes=axes)


def task(goal_id: str = "g1", machine: MachineClass = MACHINE, **changes: Any) -> Task:
    stated: dict[str, Any] = {
        "goal_id": goal_id,
        "workload": WORKLOAD,
        "dtype": Dtype.F32,
        "target": Target.CPU,
        "route": machine.route,
        "machine": machine,
        "languages": (Language.C,),
        "shapes": (shape(T=16, H=1024),),
        "regime": Regime.COLD,
        "min_gain": 0.02,
        "tolerance_scale": 1.0,
        "constraints": Constraints(),
        "hold_out_gap_s": 5.0,
    }
    return Task.model_validate(stated | changes)


def kernel(fingerprint: str, genome: Genome | None = None, source: str = "") -> Kernel:
    return Kernel(
        language=Language.C,
        source=source or f"/* {fingerprint} */",
        threads=1,
        variant=str((genome or {}).get("variant", "")),
        genome=genome or {},
        fingerprint=fingerprint,
    )


def build(of: Kernel, digest: str | None = None) -> Build:
    stored = Artifact(sha256=digest or f"object of {of.fingerprint}", uri="memory://k.so", size=1)
    return Build(kernel=of, object=stored, command=("gcc", "k.c"), toolchain="gcc test")


def judgement(verdict: JudgedAs = JudgedAs.VERIFIED, ladder: str = "ladder-1") -> Judgement:
    return Judgement(
        verdict=verdict,
        rung=None,
        reason=None,
        message=None,
        worst=None,
        rungs=(),
        seeds={},
        input_digests={},
        isolation="none",
        ladder=ladder,
    )


def comparison(
    ratio: float | None, kind: RatioKind = RatioKind.SEARCH, worst: float = 1.1, **changes: Any
) -> Comparison:
    interval = Interval(estimate=ratio, low=ratio * 0.98, high=ratio * 1.02, level=0.99) if ratio else None
    row = ShapeResult(
        axes={"T": 16, "H": 1024}, weight=1, baseline="c_naive_o3", baseline_ns=1000, candidate_ns=900, ratio=worst
    )
    stated: dict[str, Any] = {
        "kind": kind,
        "verdict": Verdict.FASTER if ratio else Verdict.INVALID,
        "ratio": interval,
        "regime": Regime.COLD,
        "machine": f"{MACHINE.route}/host",
        "noise_floor": 0.01,
        "delta": 0.01,
        "looks": 1,
        "dropped_fraction": 0.0,
        "shapes": (row,),
    }
    return Comparison.model_validate(stated | changes)


@dataclass
class Story:
    """A log in the making. Every method states one fact and returns it as recorded."""

    goal_id: str = "g1"
    log: list[Recorded[Any]] = field(default_factory=list)

    @property
    def position(self) -> int:
        return len(self.log)

    async def in_memory(self) -> MemoryLog:
        """The story as a real log."""
        log = MemoryLog()
        await log.append([Incoming(encode(told.envelope), "epoch", told.position) for told in self.log])
        return log

    def say(self, fact: Fact, id_: UUID | None = None, because: UUID | None = None) -> Recorded[Any]:
        position = self.position + 1
        when = START + timedelta(seconds=position)
        named = id_ or uuid5(NAMESPACE, f"story {position}")
        envelope = Envelope(named, fact, "assay/test/1", when, because)
        recorded = Recorded(position, envelope, when)
        self.log.append(recorded)
        return recorded

    def state(self, draft: Draft[Any]) -> Recorded[Any]:
        return self.say(draft.fact, draft.id, draft.causation_id)

    def of_goal(self, goal_id: str) -> "Story":
        """The same log, about another goal."""
        return replace(self, goal_id=goal_id)

    def accepted(self, of: Goal | None = None) -> Recorded[Any]:
        request = RawRequest(subject="s", sha256="0", size=0, body="", encoding="utf-8")
        fact = GoalAccepted(goal_id=self.goal_id, goal=of or goal(), request=request)
        return self.state(due(self.goal_id, "accept", fact))

    def generation_due(self, number: int = 0, size: int = 8, seed: int = 7, **of_task: Any) -> Recorded[GenerationDue]:
        fact = GenerationDue(
            goal_id=self.goal_id,
            generation=number,
            attempt=0,
            position=self.position,
            seed=seed,
            size=size,
            task=task(self.goal_id, **of_task),
        )
        return self.state(due(self.goal_id, "generation", fact, number))

    def finals_due(self, finalists: int = 3, attempt: int = 0) -> Recorded[FinalsDue]:
        fact = FinalsDue(
            goal_id=self.goal_id,
            attempt=attempt,
            position=self.position,
            ended_by=EndedBy.BUDGET,
            finalists=finalists,
            task=task(self.goal_id),
        )
        return self.state(due(self.goal_id, "finals", fact, attempt))

    def proposed(
        self,
        of: Kernel | str,
        *,
        island: int = 0,
        strategy: str = "genetic/mutation",
        generation: int = 0,
        parents: Sequence[UUID] = (),
    ) -> UUID:
        fact = CandidateProposed(
            goal_id=self.goal_id,
            generation=generation,
            island=island,
            strategy=strategy,
            author="assay/proposer/test",
            parents=tuple(parents),
            kernel=kernel(of) if isinstance(of, str) else of,
            task=task(self.goal_id),
        )
        return self.say(fact).id

    def verified(self, id_: UUID, digest: str | None = None) -> UUID:
        """The candidate is compiled and verified; the verification's id."""
        proposed = self._fact(id_, CandidateProposed)
        made = build(proposed.kernel, digest)
        about: dict[str, Any] = {"goal_id": self.goal_id, "candidate_id": id_, "generation": proposed.generation}
        compiled = CandidateCompiled(**about, build=made, compile_ms=1.0, warnings="", task=proposed.task)
        recorded = self.state(answer(self._envelope(id_), "compile", compiled))
        fact = CandidateVerified(**about, build=made, judgement=judgement(), task=proposed.task)
        return self.state(answer(recorded.envelope, "verify", fact)).id

    def measured(self, id_: UUID, ratio: float | None, *, worth_more: bool = True, digest: str | None = None) -> None:
        """Verified, then measured."""
        verified = self.verified(id_, digest)
        fact = CandidateMeasured(
            goal_id=self.goal_id,
            candidate_id=id_,
            generation=0,
            comparison=comparison(ratio),
            worth_more=worth_more,
        )
        self.state(answer(self._envelope(verified), "measure", fact))

    def remeasured(self, id_: UUID, ratio: float | None, round_: int = 1, worst: float = 1.1) -> None:
        fact = CandidateRemeasured(
            goal_id=self.goal_id,
            candidate_id=id_,
            generation=0,
            round=round_,
            comparison=comparison(ratio, worst=worst),
        )
        self.say(fact, because=id_)

    def refused(self, id_: UUID, reason: Reason = Reason.OUT_OF_BOUND, round_: int = 1) -> None:
        fact = MeasurementRefused(
            goal_id=self.goal_id, candidate_id=id_, generation=0, round=round_, reason=reason, message="wrong"
        )
        self.say(fact, because=id_)

    def rejected(self, id_: UUID, reason: Reason = Reason.OUT_OF_BOUND, ladder: str | None = "ladder-1") -> None:
        fact = CandidateRejected(
            goal_id=self.goal_id,
            candidate_id=id_,
            generation=0,
            stage=Stage.VERIFY,
            reason=reason,
            message="wrong",
            judgement=judgement(JudgedAs.REJECTED, ladder) if ladder else None,
        )
        self.say(fact, because=id_)

    def abandoned(self, id_: UUID) -> None:
        fact = CandidateAbandoned(
            goal_id=self.goal_id,
            candidate_id=id_,
            generation=0,
            stage=Stage.COMPILE,
            reason=AbandonReason.WORKER_LOST,
            message="lost",
        )
        self.say(fact, because=id_)

    def generation_closed(self, number: int = 0, best: float | None = None) -> None:
        fact = GenerationClosed(
            goal_id=self.goal_id,
            generation=number,
            proposed=0,
            compiled=0,
            verified=0,
            measured=0,
            rejected={},
            abandoned=0,
            best_candidate=None,
            best_search_ratio=best,
        )
        self.say(fact)

    def proven(self, id_: UUID, ratio: float = 1.2, of_task: Task | None = None, ladder: str = "ladder-1") -> None:
        """Nominated, then proven by the deep rungs."""
        made = build(self._fact(id_, CandidateProposed).kernel)
        nominated = FinalistNominated(
            goal_id=self.goal_id,
            candidate_id=id_,
            attempt=0,
            rank=1,
            search_ratio=ratio,
            build=made,
            task=of_task or task(self.goal_id),
        )
        self.say(nominated)
        self.say(
            FinalistProven(
                goal_id=self.goal_id, candidate_id=id_, attempt=0, build=made, judgement=judgement(ladder=ladder)
            )
        )

    def refuted(self, id_: UUID) -> None:
        """A finalist is rejected by the deep rungs."""
        self.say(
            FinalistRejected(
                goal_id=self.goal_id,
                candidate_id=id_,
                attempt=0,
                reason=Reason.OUT_OF_BOUND,
                rung=Rung.FUZZ,
                message="wrong",
                judgement=judgement(),
            )
        )

    def crowned(self, id_: UUID, ratio: float = 1.2, **changes: Any) -> None:
        fact = ChampionCrowned(
            goal_id=self.goal_id,
            candidate_id=id_,
            workload=WORKLOAD,
            route=MACHINE.route,
            build=build(self._fact(id_, CandidateProposed).kernel),
            comparison=comparison(ratio, RatioKind.HOLD_OUT),
            search_ratio=ratio,
            lessons=(),
        )
        self.say(fact.model_copy(update=changes))

    def _envelope(self, id_: UUID) -> Envelope[Any]:
        return next(recorded.envelope for recorded in self.log if recorded.id == id_)

    def _fact(self, id_: UUID, type_: type[CandidateProposed]) -> CandidateProposed:
        fact = self._envelope(id_).fact
        assert isinstance(fact, type_)
        return fact
