"""A factory floor without a bus: the curator decides, a clock ticks, and fake workers answer what is due."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from schemas.enums import (
    AbandonReason,
    JudgedAs,
    Language,
    RatioKind,
    Reason,
    Regime,
    Stage,
    SteerAction,
    Verdict,
)
from schemas.envelope import Draft, Envelope, Recorded, answer, due
from schemas.events import (
    BaselineAbandoned,
    BaselineChosen,
    BaselineDue,
    BaselineNotFound,
    CandidateAbandoned,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    CounterexampleWithdrawn,
    Fact,
    FinalistNominated,
    FinalistProven,
    FinalsDue,
    FinalsOpened,
    GenerationDue,
    GenerationOpened,
    GoalAccepted,
    GoalCompleted,
    GoalSteered,
    MeasurementNotRun,
    MeasurementRefused,
    MeasurementRequested,
    RaceDue,
    RaceFinished,
    RouteAvailable,
    SearchExhausted,
)
from schemas.goal import Goal
from schemas.measurement import BaselineRace, Comparison, Entrant, Interval, Race, ShapeResult
from schemas.requests import RawRequest
from schemas.verdict import Judgement
from schemas.work import Artifact, Baseline, Build, Counterexample, Kernel, MachineClass
from services.librarian import curator, timekeeper
from services.librarian.curator import CuratorState

F = TypeVar("F", bound=Fact)

START = datetime(2026, 1, 1, tzinfo=UTC)
MACHINE = MachineClass(
    route="cpu_0a1b2c3d",
    architecture="x86_64",
    model="test",
    march="x86-64-v3",
    features=(),
    vector_bits=256,
    threads=2,
    llc_bytes=1 << 20,
)
REQUEST = RawRequest(subject="assay.intake.x", sha256="0" * 64, size=2, body="{}", encoding="utf-8")
JUDGEMENT = Judgement(
    verdict=JudgedAs.VERIFIED,
    rung=None,
    reason=None,
    message=None,
    worst=None,
    rungs=(),
    seeds={},
    input_digests={},
    isolation="none",
    ladder="1",
)


def goal(**changes: Any) -> Goal:
    """Two generations of four candidates, at most."""
    stated = {
        "workload": "rms_norm",
        "target": "cpu",
        "shapes": [{"T": 4, "H": 64}],
        "budget": {"candidates": 8, "wall": 100, "stagnation": 10},
        "search": {"generation_size": 4},
        "finals": {"finalists": 2, "hold_out_gap": 0, "wall": 50},
    }
    return Goal.model_validate_json(json.dumps(stated | changes))


def kernel(number: int) -> Kernel:
    """One of many kernels; even ones stream."""
    source = f"/* kernel {number} */"
    return Kernel(
        language=Language.C,
        source=source,
        variant="plain",
        genome={"variant": "plain", "streaming": number % 2 == 0, "unroll": 1 + number % 3},
        fingerprint=hashlib.sha256(source.encode()).hexdigest(),
    )


def build(of: Kernel) -> Build:
    return Build(
        kernel=of, object=Artifact(sha256=of.fingerprint, uri="memory://x", size=1), command=("gcc",), toolchain="gcc"
    )


def comparison(
    ratio: float | None,
    kind: RatioKind = RatioKind.SEARCH,
    verdict: Verdict = Verdict.FASTER,
    width: float = 0.01,
    worst: float = 1.0,
) -> Comparison:
    interval = None if ratio is None else Interval(estimate=ratio, low=ratio - width, high=ratio + width, level=0.99)
    row = ShapeResult(axes={"T": 4, "H": 64}, weight=1, baseline="numpy", baseline_ns=1, candidate_ns=1, ratio=worst)
    return Comparison(
        kind=kind,
        verdict=verdict,
        ratio=interval,
        regime=Regime.COLD,
        machine=f"{MACHINE.route}/host",
        noise_floor=0.01,
        delta=0.01,
        looks=1,
        dropped_fraction=0,
        shapes=(row,),
    )


def counterexample(seed: int) -> Counterexample:
    return Counterexample(workload="rms_norm", axes={"T": 1, "H": 3}, distribution="normal", seed=seed)


def race(*entrants: Entrant, fit: bool = True) -> Race:
    return Race(
        entrants=entrants,
        a_a=comparison(1.0, RatioKind.HOLD_OUT, Verdict.EQUIVALENT),
        seeds={},
        hold_out_gap_s=0,
        machine=f"{MACHINE.route}/host",
        noise_floor=0.01,
        fit=fit,
    )


@dataclass
class Floor:
    """The log so far, the curator's state, and how fake workers answer."""

    state: CuratorState = field(default_factory=CuratorState)
    log: list[Recorded[Any]] = field(default_factory=list)
    now: datetime = START
    has_room: bool = True
    answered: set[UUID] = field(default_factory=set)
    fate: Callable[[int], float | Reason | AbandonReason] = lambda number: 1.0 + number / 100
    """A candidate's search ratio by its number, or why it ends without one."""
    second_fate: Callable[[int, int], float | Comparison | Reason | AbandonReason] | None = None
    """The same for a candidate's number and a round of halving; None repeats the search ratio."""
    halves: bool = True
    """Requests for longer looks are answered as soon as they are due."""
    proposed: int = 0
    race_verdict: Verdict = Verdict.FASTER
    race_ratio: float = 1.2

    # ---- the log -----------------------------------------------------------------------------------------------

    def record(self, draft: Draft[Any], batch: bool = False) -> Recorded[Any] | None:
        """`draft` is recorded, unless its id was; then, unless in a batch, what follows from it is decided."""
        if any(known.id == draft.id for known in self.log):
            return None
        envelope = Envelope(draft.id, draft.fact, "assay/test/1", self.now, draft.causation_id)
        recorded = Recorded(len(self.log) + 1, envelope, self.now)
        self.log.append(recorded)
        self.state = curator.evolve(self.state, recorded)
        if not batch:
            self.decide()
        return recorded

    def decide(self) -> tuple[Draft[Any], ...]:
        """Everything that is due now is recorded, and what follows from that."""
        every: tuple[Draft[Any], ...] = ()
        while drafts := curator.decide(self.state, self.state.position, self.has_room):
            self.state = curator.awaiting(self.state, drafts)
            every += drafts
            for draft in drafts:
                assert self.record(draft, batch=True) is not None, f"{draft.fact.TYPE} was stated twice"
        return every

    def facts(self, type_: type[F]) -> list[F]:
        return [recorded.fact for recorded in self.log if isinstance(recorded.fact, type_)]

    def last(self, type_: type[F]) -> Recorded[F]:
        return [recorded for recorded in self.log if isinstance(recorded.fact, type_)][-1]

    @property
    def types(self) -> list[str]:
        return [recorded.fact.TYPE.removesuffix(".v1") for recorded in self.log]

    @property
    def end(self) -> GoalCompleted:
        ends = self.facts(GoalCompleted)
        assert len(ends) == 1
        return ends[0]

    # ---- people and time ---------------------------------------------------------------------------------------

    def accept(self, goal_id: str = "g", **changes: Any) -> "Floor":
        self.record(due(goal_id, "accept", GoalAccepted(goal_id=goal_id, goal=goal(**changes), request=REQUEST)))
        return self

    def with_route(self, machine: MachineClass = MACHINE) -> "Floor":
        n = len(self.log)
        self.record(due(machine.route, "route.available", RouteAvailable(machine=machine), n))
        return self

    def steer(self, action: SteerAction, goal_id: str = "g", **detail: Any) -> "Floor":
        fact = GoalSteered(goal_id=goal_id, action=action, reason="because", request=REQUEST, **detail)
        self.record(due(goal_id, "steer", fact, len(self.log)))
        return self

    def withdraw(self, kept_id: UUID) -> "Floor":
        fact = CounterexampleWithdrawn(
            kept_id=kept_id, counterexample=self.state.kept[kept_id], reason="because", request=REQUEST
        )
        self.record(due("none", "withdraw", fact, len(self.log)))
        return self

    def wait(self, seconds: float) -> "Floor":
        """Time passes, then the timekeeper ticks once."""
        self.now += timedelta(seconds=seconds)
        present = {route for route, seen in self.state.routes.routes.items() if seen.available}
        drafts = timekeeper.tick(self.state, self.now, present, 30)
        self.state = curator.awaiting(self.state, drafts)
        for draft in drafts:
            self.record(draft)
        return self

    # ---- fake workers ------------------------------------------------------------------------------------------

    def unanswered(self, type_: type[F]) -> Recorded[F] | None:
        found = [r for r in self.log if isinstance(r.fact, type_) and r.id not in self.answered]
        return found[0] if found else None

    def take(self, type_: type[F]) -> Recorded[F]:
        """The oldest unanswered work of this kind, now answered for."""
        found = self.unanswered(type_)
        assert found is not None, f"no {type_.__name__} is due"
        self.answered.add(found.id)
        return found

    def answer(self, cause: Recorded[Any], slot: str, fact: Fact, ordinal: int = 0) -> Recorded[Any] | None:
        return self.record(answer(cause.envelope, slot, fact, ordinal))

    def choose_baseline(self) -> None:
        cause = self.take(BaselineDue)
        strongest = (Baseline(name="numpy", axes={"T": 4, "H": 64}, median_ns=1000.0),)
        found = BaselineRace(contenders=(), strongest=strongest, roofs=(), noise_floor=0.01, machine="m")
        fact = BaselineChosen(goal_id=cause.fact.goal_id, attempt=cause.fact.attempt, race=found)
        self.answer(cause, "baseline", fact)

    def lose_baseline(self) -> None:
        cause = self.take(BaselineDue)
        fact = BaselineAbandoned(
            goal_id=cause.fact.goal_id, attempt=cause.fact.attempt, reason=AbandonReason.WORKER_LOST, message="lost"
        )
        self.answer(cause, "baseline", fact)

    def find_no_baseline(self) -> None:
        cause = self.take(BaselineDue)
        fact = BaselineNotFound(goal_id=cause.fact.goal_id, attempt=cause.fact.attempt, message="none verified")
        self.answer(cause, "baseline", fact)

    def propose(self, count: int | None = None, opened: bool = True) -> list[Recorded[CandidateProposed]]:
        """The generation's candidates, and its opening."""
        cause = self.take(GenerationDue)
        due_ = cause.fact
        found = []
        for ordinal in range(due_.size if count is None else count):
            fact = CandidateProposed(
                goal_id=due_.goal_id,
                generation=due_.generation,
                island=ordinal % 2,
                strategy="test",
                author="test",
                parents=(),
                kernel=kernel(self.proposed),
                task=due_.task,
            )
            self.proposed += 1
            recorded = self.answer(cause, "propose", fact, ordinal)
            assert recorded is not None
            found.append(recorded)
        if opened:
            ids = tuple(one.id for one in found)
            opening = GenerationOpened(goal_id=due_.goal_id, generation=due_.generation, candidate_ids=ids)
            self.answer(cause, "open", opening)
        return found

    def exhaust(self) -> None:
        cause = self.take(GenerationDue)
        fact = SearchExhausted(goal_id=cause.fact.goal_id, generation=cause.fact.generation, message="no more points")
        self.answer(cause, "open", fact)

    def climb(self, proposed: Recorded[CandidateProposed]) -> None:
        """One candidate goes as far as its fate lets it; longer looks that become due are answered."""
        self._climb(proposed)
        if self.halves:
            self.halve()

    def halve(self) -> None:
        """Every longer look that is due, and that becomes due by it, is answered."""
        while self.unanswered(MeasurementRequested):
            self.remeasure()

    def _climb(self, proposed: Recorded[CandidateProposed]) -> None:
        fact = proposed.fact
        about: dict[str, Any] = {
            "goal_id": fact.goal_id, "candidate_id": proposed.id, "generation": fact.generation
        }  # fmt: skip
        number = int(fact.kernel.source.split()[2])
        fate = self.fate(number)
        if isinstance(fate, AbandonReason):
            lost = CandidateAbandoned(**about, stage=Stage.COMPILE, reason=fate, message="lost")
            self.answer(proposed, "compile", lost)
            return
        if fate is Reason.DOES_NOT_COMPILE:
            refused = CandidateRejected(**about, stage=Stage.COMPILE, reason=fate, message="syntax")
            self.answer(proposed, "compile", refused)
            return
        made = build(fact.kernel)
        compiled = self.answer(
            proposed,
            "compile",
            CandidateCompiled(**about, build=made, compile_ms=1.0, warnings="", task=fact.task),
        )
        assert compiled is not None
        if isinstance(fate, Reason):
            refused = CandidateRejected(
                **about, stage=Stage.VERIFY, reason=fate, message="wrong", counterexample=counterexample(number)
            )
            self.answer(compiled, "verify", refused)
            return
        verified = self.answer(
            compiled, "verify", CandidateVerified(**about, build=made, judgement=JUDGEMENT, task=fact.task)
        )
        assert verified is not None
        measured = CandidateMeasured(**about, comparison=comparison(fate), worth_more=True)
        self.answer(verified, "measure", measured)

    def remeasure(self) -> None:
        """The oldest request for a longer look is answered."""
        cause = self.take(MeasurementRequested)
        fact = cause.fact
        number = int(fact.build.kernel.source.split()[2])
        fate = self.second_fate(number, fact.round) if self.second_fate else self.fate(number)
        about: dict[str, Any] = {
            "goal_id": fact.goal_id,
            "candidate_id": fact.candidate_id,
            "generation": fact.generation,
            "round": fact.round,
        }
        match fate:
            case Reason():
                found = counterexample(number)
                answered: Fact = MeasurementRefused(**about, reason=fate, message="bad", counterexample=found)
            case AbandonReason():
                answered = MeasurementNotRun(**about, reason=fate, message="lost")
            case Comparison():
                answered = CandidateRemeasured(**about, comparison=fate)
            case ratio:
                answered = CandidateRemeasured(**about, comparison=comparison(ratio))
        self.answer(cause, "remeasure", answered)

    def generation(self) -> None:
        """One generation from due to settled."""
        for proposed in self.propose():
            self.climb(proposed)

    def nominate(self, count: int | None = None) -> list[Recorded[FinalistNominated]]:
        cause = self.take(FinalsDue)
        measured = [r for r in self.log if isinstance(r.fact, CandidateMeasured) and r.fact.comparison.ratio]
        measured.sort(key=lambda r: -r.fact.comparison.ratio.estimate)
        kernels = {r.id: r.fact.kernel for r in self.log if isinstance(r.fact, CandidateProposed)}
        limit = cause.fact.finalists if count is None else count
        found = []
        for rank, one in enumerate(measured[:limit]):
            fact = FinalistNominated(
                goal_id=cause.fact.goal_id,
                candidate_id=one.fact.candidate_id,
                attempt=cause.fact.attempt,
                rank=rank,
                search_ratio=one.fact.comparison.ratio.estimate,
                build=build(kernels[one.fact.candidate_id]),
                task=cause.fact.task,
            )
            recorded = self.answer(cause, "nominate", fact, rank)
            assert recorded is not None
            found.append(recorded)
        ids = tuple(one.fact.candidate_id for one in found)
        opened = FinalsOpened(goal_id=cause.fact.goal_id, attempt=cause.fact.attempt, candidate_ids=ids)
        self.answer(cause, "open_finals", opened)
        return found

    def prove(self, nominated: Recorded[FinalistNominated]) -> None:
        fact = nominated.fact
        proven = FinalistProven(
            goal_id=fact.goal_id,
            candidate_id=fact.candidate_id,
            attempt=fact.attempt,
            build=fact.build,
            judgement=JUDGEMENT,
        )
        self.answer(nominated, "prove", proven)

    def finish_race(self, *entrants: Entrant, fit: bool = True) -> None:
        cause = self.take(RaceDue)
        if not entrants:
            entrants = tuple(
                Entrant(
                    candidate_id=one.candidate_id,
                    comparison=comparison(self.race_ratio - rank / 100, RatioKind.HOLD_OUT, self.race_verdict),
                    search_ratio=one.search_ratio,
                )
                for rank, one in enumerate(cause.fact.contestants)
            )
        fact = RaceFinished(goal_id=cause.fact.goal_id, attempt=cause.fact.attempt, race=race(*entrants, fit=fit))
        self.answer(cause, "race", fact)

    def search(self) -> "Floor":
        """Baselines, then generations until finals are due."""
        self.choose_baseline()
        while self.unanswered(GenerationDue):
            self.generation()
        return self

    def play(self) -> "Floor":
        """The whole goal, to its end."""
        return self.search().play_finals()

    def play_finals(self) -> "Floor":
        """From finals due to the goal's end."""
        for nominated in self.nominate():
            self.prove(nominated)
        if self.unanswered(RaceDue):
            self.finish_race()
        return self
