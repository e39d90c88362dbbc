"""The verifier's one effect: fetch the object, climb the ladder under fresh secret seeds, return what it says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernel_lab.backends.backend import Built
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.ladder import ladder_version
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.enums import JudgedAs, Language, Rung, RungStatus
from schemas.faults import Misconfigured
from schemas.verdict import Judgement, RungResult
from schemas.work import Build, Task
from services.runtime.artifacts import ArtifactStore, Missing
from services.runtime.settings import Settings
from services.verifier.core import Prove, Verify

Judges = Mapping[Language, Callable[[Verify | Prove], Judgement]]


def open_effect(settings: Settings) -> Callable[[Verify | Prove], Judgement]:
    """Candidates and finalists can be judged: the sandbox and the artifact store are open."""
    climbing = LadderJudge(ArtifactStore(settings.artifacts), open_court(settings.isolation))
    judges: Judges = {Language.C: climbing, Language.NULL: judge_null}
    return lambda work: judges[work.build.kernel.language](work)


def judge_null(_work: Verify | Prove) -> Judgement:
    """Verified at once, climbing nothing and claiming nothing: for load tests of everything around the physics."""
    return Judgement(
        verdict=JudgedAs.VERIFIED,
        rung=None,
        reason=None,
        message=None,
        worst=None,
        rungs=(),
        seeds={},
        input_digests={},
        isolation="none",
        ladder="null",
    )


@dataclass(frozen=True)
class LadderJudge:
    """Judges C candidates on this machine."""

    store: ArtifactStore
    court: Court

    def __call__(self, work: Verify | Prove) -> Judgement:
        """The judgement of `work`. Raises Transient when the store is away or a tool was killed."""
        build, machine = work.build, work.task.machine
        content = self._object(build, work.task)
        if content is None:
            return _no_object(self.court.isolation, build)
        return self.court.judge(content, build.kernel, machine, _workload(work.task.workload), _plan(work))

    def _object(self, build: Build, task: Task) -> bytes | None:
        """The object by its digest; on a miss, built again from source; None when that gives other bytes."""
        try:
            return self.store.get(build.object)
        except Missing:
            built = self.court.backend.compile(build.kernel, task.workload, task.machine)
            return built.object if isinstance(built, Built) and built.sha256 == build.object.sha256 else None


def _workload(name: str) -> Workload:
    if name not in WORKLOADS:
        raise Misconfigured(f"this copy knows no workload {name!r}; it is older than the goal: update it")
    return WORKLOADS[name]


def _plan(work: Verify | Prove) -> Plan:
    """A finalist climbs with fresh seeds, more draws and the goal's own shapes."""
    return Plan(
        shapes=work.task.shapes,
        tolerance_scale=work.task.tolerance_scale,
        deterministic=work.task.constraints.deterministic,
        counterexamples=work.task.counterexamples,
        depth=Depth.DEEP if isinstance(work, Prove) else Depth.CHEAP,
    )


def _no_object(isolation: str, build: Build) -> Judgement:
    """No verdict: the object is lost, and this toolchain makes another one of the same source."""
    message = f"object {build.object.sha256} is lost and this toolchain does not rebuild it (made by {build.toolchain})"
    return Judgement(
        verdict=JudgedAs.NO_VERDICT,
        rung=Rung.STATIC,
        reason=None,
        message=message,
        worst=None,
        rungs=(
            RungResult(
                rung=Rung.STATIC,
                version=0,
                status=RungStatus.TOOL_FAILURE,
                checks=0,
                elapsed_ms=0.0,
                message=message,
            ),
        ),
        seeds={},
        input_digests={},
        isolation=isolation,
        ladder=ladder_version(),
    )
