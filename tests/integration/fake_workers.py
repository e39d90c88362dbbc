"""Workers on a bus that answer everything at once: a whole factory around the librarian, with no physics."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from schemas.enums import AbandonReason, RatioKind, Reason, Stage
from schemas.envelope import Draft, Envelope, answer, decode
from schemas.events import (
    BaselineChosen,
    BaselineDue,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    CandidateVerified,
    FinalistNominated,
    FinalistProven,
    FinalsDue,
    FinalsOpened,
    GenerationAbandoned,
    GenerationDue,
    GenerationOpened,
    MeasurementRequested,
    RaceDue,
    RaceFinished,
)
from schemas.measurement import BaselineRace, Entrant
from schemas.work import Baseline, Build
from services.runtime.bus import FACTS_STREAM, Bus
from services.runtime.metrics import Metrics
from services.runtime.stating import Stamp, publish
from tests.pure.floor import JUDGEMENT, build, comparison, counterexample, kernel, race


@dataclass
class FakeWorkers:
    """Answers each work message of the fact stream, in order, for as long as `serve` runs."""

    bus: Bus
    generations_lost: int = 0
    """How many generations are abandoned before one is proposed."""
    stamp: Stamp = field(default_factory=lambda: Stamp("assay/fake/1", lambda: datetime.now(UTC), secrets.token_hex))
    metrics: Metrics = field(default_factory=lambda: Metrics("fake"))
    measured: dict[str, list[tuple[float, UUID, Build]]] = field(default_factory=dict)

    async def serve(self) -> None:
        async for batch in self.bus.read(FACTS_STREAM, 1):
            for one in batch:
                cause = decode(one.message)
                await self.prepared(cause)
                for draft in self.answers(cause):
                    await publish(self.bus, self.stamp, self.stamp.answering(draft, cause), self.metrics)

    async def prepared(self, cause: Envelope[Any]) -> None:
        """Whoever must think before it answers does so here."""

    def answers(self, cause: Envelope[Any]) -> Iterator[Draft[Any]]:
        match cause.fact:
            case BaselineDue() as due:
                strongest = tuple(Baseline(name="numpy", axes=s.axes, median_ns=1.0) for s in due.task.shapes)
                found = BaselineRace(contenders=(), strongest=strongest, roofs=(), noise_floor=0.01, machine="m")
                yield answer(cause, "baseline", BaselineChosen(goal_id=due.goal_id, attempt=due.attempt, race=found))
            case GenerationDue() as due:
                yield from self._propose(cause, due)
            case CandidateProposed() | CandidateCompiled() | CandidateVerified():
                yield self._climb(cause)
            case MeasurementRequested() as requested:
                yield answer(cause, "remeasure", self._remeasured(requested))
            case FinalsDue() as due:
                yield from self._nominate(cause, due)
            case FinalistNominated() as nominated:
                proven = FinalistProven(
                    goal_id=nominated.goal_id,
                    candidate_id=nominated.candidate_id,
                    attempt=nominated.attempt,
                    build=nominated.build,
                    judgement=JUDGEMENT,
                )
                yield answer(cause, "prove", proven)
            case RaceDue() as due:
                entrants = tuple(
                    Entrant(
                        candidate_id=one.candidate_id,
                        comparison=comparison(1.2, RatioKind.HOLD_OUT),
                        search_ratio=one.search_ratio,
                    )
                    for one in due.contestants
                )
                yield answer(
                    cause, "race", RaceFinished(goal_id=due.goal_id, attempt=due.attempt, race=race(*entrants))
                )

    def _propose(self, cause: Envelope[Any], due: GenerationDue) -> Iterator[Draft[Any]]:
        if self.generations_lost > 0:
            self.generations_lost -= 1
            lost = GenerationAbandoned(
                goal_id=due.goal_id,
                generation=due.generation,
                attempt=due.attempt,
                reason=AbandonReason.WORKER_LOST,
                message="lost",
            )
            yield answer(cause, "open", lost)
            return
        ids = []
        for ordinal in range(due.size):
            fact = CandidateProposed(
                goal_id=due.goal_id,
                generation=due.generation,
                island=ordinal % 2,
                strategy="fake",
                author="fake",
                parents=(),
                kernel=kernel(due.generation * 100 + ordinal),
                task=due.task,
            )
            draft = answer(cause, "propose", fact, ordinal)
            ids.append(draft.id)
            yield draft
        opened = GenerationOpened(goal_id=due.goal_id, generation=due.generation, candidate_ids=tuple(ids))
        yield answer(cause, "open", opened)

    def _climb(self, cause: Envelope[Any]) -> Draft[Any]:
        fact = cause.fact
        about: dict[str, Any] = {"goal_id": fact.goal_id, "generation": fact.generation}
        match fact:
            case CandidateProposed():
                made = build(fact.kernel)
                return answer(
                    cause,
                    "compile",
                    CandidateCompiled(
                        **about, candidate_id=cause.id, build=made, compile_ms=1.0, warnings="", task=fact.task
                    ),
                )
            case CandidateCompiled():
                return self._judge(cause, fact, about | {"candidate_id": fact.candidate_id})
            case _:
                ratio = 1 + self._number(fact.build) / 1000
                self.measured.setdefault(fact.goal_id, []).append((ratio, fact.candidate_id, fact.build))
                measured = CandidateMeasured(
                    **about, candidate_id=fact.candidate_id, comparison=comparison(ratio), worth_more=True
                )
                return answer(cause, "measure", measured)

    def _remeasured(self, requested: MeasurementRequested) -> CandidateRemeasured:
        return CandidateRemeasured(
            goal_id=requested.goal_id,
            candidate_id=requested.candidate_id,
            generation=requested.generation,
            round=requested.round,
            comparison=comparison(1 + self._number(requested.build) / 1000),
        )

    def _judge(self, cause: Envelope[Any], fact: CandidateCompiled, about: dict[str, Any]) -> Draft[Any]:
        number = self._number(fact.build)
        if number % 4 == 3:
            wrong = CandidateRejected(
                **about,
                stage=Stage.VERIFY,
                reason=Reason.OUT_OF_BOUND,
                message="wrong",
                counterexample=counterexample(number),
            )
            return answer(cause, "verify", wrong)
        return answer(
            cause, "verify", CandidateVerified(**about, build=fact.build, judgement=JUDGEMENT, task=fact.task)
        )

    def _nominate(self, cause: Envelope[Any], due: FinalsDue) -> Iterator[Draft[Any]]:
        best = sorted(self.measured.get(due.goal_id, []), key=lambda one: -one[0])[: due.finalists]
        for rank, (ratio, candidate_id, made) in enumerate(best):
            nominated = FinalistNominated(
                goal_id=due.goal_id,
                candidate_id=candidate_id,
                attempt=due.attempt,
                rank=rank,
                search_ratio=ratio,
                build=made,
                task=due.task,
            )
            yield answer(cause, "nominate", nominated, rank)
        ids = tuple(candidate_id for _, candidate_id, _ in best)
        yield answer(cause, "open_finals", FinalsOpened(goal_id=due.goal_id, attempt=due.attempt, candidate_ids=ids))

    @staticmethod
    def _number(made: Build) -> int:
        return int(made.kernel.source.split()[2])
