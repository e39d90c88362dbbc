"""A champion judged again from the log alone: compiled from its recorded source, judged under its recorded seeds."""

from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from kernel_lab.backends import BACKENDS
from kernel_lab.backends.backend import NotBuilt
from kernel_lab.verify.court import open_court
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads import WORKLOADS
from schemas.enums import JudgedAs, Language
from schemas.events import ChampionCrowned, FinalistProven, RaceDue
from schemas.verdict import Judgement
from schemas.work import Build, Task
from services.evidence.log import Log
from services.runtime.quiet import Device
from services.runtime.service import Quiet
from services.runtime.settings import Settings


@dataclass(frozen=True)
class Rejudged:
    """What the second judgement found. `same_object` is None when the toolchain is another one."""

    candidate_id: str
    recorded: str
    again: str
    fresh: str
    """Under new secret seeds."""
    same_object: bool | None
    message: str

    @property
    def stands(self) -> bool:
        return self.again == self.fresh == JudgedAs.VERIFIED and self.same_object is not False

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"stands": self.stands}

    def text(self) -> str:
        """In one line, for people."""
        same = {True: "the same object, byte for byte", False: "ANOTHER object", None: "built by another compiler"}
        return (
            f"judged again from the log alone: {self.again} under its recorded seeds, {self.fresh} under fresh ones; "
            f"its recorded source gives {same[self.same_object]}" + (f" ({self.message})" if self.message else "")
        )


async def rejudge_champion(log: Log, goal_id: str, settings: Settings) -> Rejudged | None:
    """The champion of `goal_id` judged again, or None when it has none. Needs nothing but the log and a compiler."""
    crowned: ChampionCrowned | None = None
    proven: dict[UUID, Judgement] = {}
    task: Task | None = None
    async for recorded in log.read(goal_id=goal_id, types=(FinalistProven, RaceDue, ChampionCrowned)):
        match recorded.fact:
            case FinalistProven(candidate_id=candidate_id, judgement=judgement):
                proven.setdefault(candidate_id, judgement)
            case RaceDue() as due:
                task = due.task
            case ChampionCrowned() as crown:
                crowned = crown
    if crowned is None or task is None:
        return None
    with Device(settings.quiet).held_blocking(Quiet.SHARED):
        return _rejudge(crowned.candidate_id, crowned.build, task, proven[crowned.candidate_id], settings)


def _rejudge(candidate_id: UUID, build: Build, task: Task, recorded: Judgement, settings: Settings) -> Rejudged:
    kernel = build.kernel
    if kernel.language is Language.NULL:
        verdict = recorded.verdict.value
        return Rejudged(str(candidate_id), verdict, verdict, verdict, None, "a null candidate has nothing to judge")
    built = BACKENDS[kernel.language].compile(kernel, task.workload, task.machine)
    if isinstance(built, NotBuilt):
        none = JudgedAs.REJECTED.value
        return Rejudged(str(candidate_id), recorded.verdict.value, none, none, None, built.message)
    court, workload = open_court(settings.isolation), WORKLOADS[task.workload]
    plan = Plan(
        shapes=task.shapes,
        tolerance_scale=task.tolerance_scale,
        deterministic=task.constraints.deterministic,
        counterexamples=task.counterexamples,
        depth=Depth.DEEP,
    )
    again = court.judge(built.object, kernel, task.machine, workload, plan, seeds=recorded.seeds)
    fresh = court.judge(built.object, kernel, task.machine, workload, plan)
    same = built.sha256 == build.object.sha256 if built.toolchain == build.toolchain else None
    failures = "; ".join(judgement.message for judgement in (again, fresh) if judgement.message)
    return Rejudged(str(candidate_id), recorded.verdict.value, again.verdict.value, fresh.verdict.value, same, failures)
