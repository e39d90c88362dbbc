"""A candidate judged again from the log alone: compiled from its recorded source, judged under its recorded seeds."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from kernel_lab.backends import BACKENDS
from kernel_lab.backends.backend import NotBuilt
from kernel_lab.machine import machine_class
from kernel_lab.verify.court import open_court
from kernel_lab.verify.ladder import ladder_version
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads import WORKLOADS
from schemas.enums import JudgedAs, Language
from schemas.events import (
    CandidateCompiled,
    CandidateProposed,
    CandidateRejected,
    CandidateVerified,
    ChampionCrowned,
    Fact,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
)
from schemas.faults import Misconfigured
from schemas.verdict import Judgement
from schemas.work import Build, Kernel, Task
from services.evidence.log import Log
from services.runtime.quiet import Device
from services.runtime.service import Quiet
from services.runtime.settings import Settings

PATH: tuple[type[Fact], ...] = (
    CandidateCompiled,
    CandidateVerified,
    CandidateRejected,
    FinalistNominated,
    FinalistProven,
    FinalistRejected,
)
"""What says how a candidate was built and judged, in the order in which it happens."""


@dataclass(frozen=True)
class OnRecord:
    """A candidate as the log has it: enough to build and judge it with nothing else."""

    candidate_id: UUID
    kernel: Kernel
    task: Task
    """Of its last judgement: shapes, tolerance and counterexamples as they were then."""
    depth: Depth = Depth.CHEAP
    build: Build | None = None
    judgement: Judgement | None = None
    """The last one; None when it was never judged."""
    refused: str | None = None
    """Why it was rejected without a judgement: it did not compile, or was refused by the stopwatch."""

    @property
    def verdict(self) -> str:
        """What the log says of it."""
        if self.judgement is not None:
            return self.judgement.verdict.value
        return JudgedAs.REJECTED.value if self.refused is not None else "not judged"


@dataclass(frozen=True)
class Rejudged:
    """What the second judgement found. `same_object` is None when another toolchain or machine class built it."""

    candidate_id: str
    recorded: str
    again: str
    fresh: str
    """Under new secret seeds."""
    same_object: bool | None
    same_ladder: bool
    """False when another version of the ladder judges now: then another verdict accuses nobody."""
    message: str

    @property
    def stands(self) -> bool:
        """The candidate is right, now as then."""
        return self.again == self.fresh == JudgedAs.VERIFIED and self.same_object is not False

    @property
    def contradicts(self) -> bool:
        """The same ladder says another thing, or the same compiler makes another object: the record does not hold."""
        judged = self.recorded in (JudgedAs.VERIFIED, JudgedAs.REJECTED) and self.again != JudgedAs.NO_VERDICT
        return self.same_object is False or (judged and self.same_ladder and self.again != self.recorded)

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"stands": self.stands, "contradicts": self.contradicts}

    def text(self) -> str:
        """In one line, for people."""
        same = {True: "the same object, byte for byte", False: "ANOTHER object", None: "built by another compiler"}
        return (
            f"judged again from the log alone: {self.again} under its recorded seeds, {self.fresh} under fresh ones; "
            f"its recorded source gives {same[self.same_object]}" + (f" ({self.message})" if self.message else "")
        )


async def read_candidate(log: Log, candidate_id: UUID) -> OnRecord:
    """The candidate as recorded. Raises Misconfigured when the log has no such candidate."""
    proposed = await log.get(candidate_id)
    if proposed is None or not isinstance(proposed.fact, CandidateProposed):
        what = f"is a {proposed.fact.TYPE}" if proposed else "is not in this log"
        raise Misconfigured(f"{candidate_id} {what}, no candidate; `assay candidate list` shows candidates")
    found = OnRecord(candidate_id, proposed.fact.kernel, proposed.fact.task)
    async for recorded in log.read(proposed.position, goal_id=proposed.fact.goal_id, types=PATH):
        if recorded.fact.candidate_id == candidate_id:
            found = _told(found, recorded.fact)
    return found


def _told(found: OnRecord, fact: Any) -> OnRecord:
    """What one more fact tells of the candidate."""
    known = dict(vars(found))
    match fact:
        case CandidateCompiled(build=build, task=task):
            known |= {"build": build, "task": task}
        case CandidateVerified(judgement=judgement):
            known |= {"judgement": judgement}
        case CandidateRejected():
            known |= {"judgement": fact.judgement or found.judgement, "refused": fact.message}
        case FinalistNominated(task=task):
            known |= {"task": task}
        case FinalistProven(judgement=judgement) | FinalistRejected(judgement=judgement) if judgement is not None:
            known |= {"judgement": judgement, "depth": Depth.DEEP}
        case _:
            pass
    return OnRecord(**known)


async def rejudge_champion(log: Log, goal_id: str, settings: Settings) -> Rejudged | None:
    """The champion of `goal_id` judged again, or None when it has none. Needs nothing but the log and a compiler."""
    crowned = [recorded.fact async for recorded in log.read(goal_id=goal_id, types=(ChampionCrowned,))]
    if not crowned:
        return None
    return rejudge(await read_candidate(log, crowned[-1].candidate_id), settings)


def rejudge(found: OnRecord, settings: Settings) -> Rejudged:
    """The candidate judged again on this machine, under its recorded seeds and under fresh ones."""
    if found.kernel.language is Language.NULL:
        message = "a null candidate has nothing to judge"
        return Rejudged(
            str(found.candidate_id), *(found.verdict,) * 3, same_object=None, same_ladder=True, message=message
        )
    with Device(settings.quiet).held_blocking(Quiet.SHARED):
        return _rejudge(found, settings)


def _rejudge(found: OnRecord, settings: Settings) -> Rejudged:
    kernel, task = found.kernel, found.task
    here = machine_class()
    elsewhere = here.route != task.route
    machine = here if elsewhere else task.machine
    built = BACKENDS[kernel.language].compile(kernel, task.workload, machine)
    if isinstance(built, NotBuilt):
        return _not_built(found, built)
    court, workload, plan = open_court(settings.isolation), WORKLOADS[task.workload], _plan(found)
    seeds = found.judgement.seeds if found.judgement else None
    again = court.judge(built.object, kernel, machine, workload, plan, seeds=seeds)
    fresh = court.judge(built.object, kernel, machine, workload, plan)
    comparable = found.build is not None and not elsewhere and built.toolchain == found.build.toolchain
    notes = [f"made for {task.route}, judged on {here.route}"] if elsewhere else []
    return Rejudged(
        candidate_id=str(found.candidate_id),
        recorded=found.verdict,
        again=again.verdict.value,
        fresh=fresh.verdict.value,
        same_object=built.sha256 == found.build.object.sha256 if comparable and found.build else None,
        same_ladder=found.judgement is not None and found.judgement.ladder == again.ladder,
        message="; ".join(notes + list(dict.fromkeys(_failures(again, fresh)))),
    )


def _failures(*judgements: Judgement) -> Iterator[str]:
    return (judgement.message for judgement in judgements if judgement.message)


def _plan(found: OnRecord) -> Plan:
    task = found.task
    return Plan(
        shapes=task.shapes,
        tolerance_scale=task.tolerance_scale,
        deterministic=task.constraints.deterministic,
        counterexamples=task.counterexamples,
        depth=found.depth,
    )


def _not_built(found: OnRecord, built: NotBuilt) -> Rejudged:
    """It does not compile. That is the recorded verdict too when it never did."""
    rejected = JudgedAs.REJECTED.value
    ladder = found.judgement.ladder if found.judgement else None
    return Rejudged(
        candidate_id=str(found.candidate_id),
        recorded=found.verdict,
        again=rejected,
        fresh=rejected,
        same_object=None,
        same_ladder=ladder in (None, ladder_version()),
        message=built.message,
    )
