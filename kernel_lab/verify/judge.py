"""The judge: a candidate climbs the ladder to its first failure; what is needed to say it again is written down."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernel_lab.backends.backend import NotBuilt
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.compare import closer
from kernel_lab.verify.draws import SEED_NAMES, derived_seed
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.ladder import LADDER, Step, ladder_version, steps
from kernel_lab.verify.subject import Bench, Climb, Plan, Subject
from kernel_lab.workloads.workload import Workload
from schemas.enums import JudgedAs, Reason, Rung, RungStatus
from schemas.faults import Misconfigured
from schemas.model import clip
from schemas.verdict import Judgement, RungResult, Worst


def judge(
    subject: Subject,
    workload: Workload,
    plan: Plan,
    seeds: Mapping[str, int],
    bench: Bench,
    checks: Checks = ALL_CHECKS,
) -> Judgement:
    """The verdict on `subject`. The same object, plan and seeds give the same verdict again.

    Raises Misconfigured when a seed is missing, Transient when no process or memory can be had.
    """
    if "deep" not in seeds and "numeric" in seeds:  # logged before there were deep rungs
        seeds = {**seeds, "deep": derived_seed(seeds["numeric"], "deep", {}, 0)}
    if set(seeds) != set(SEED_NAMES):
        raise Misconfigured(f"seeds must be {', '.join(SEED_NAMES)}, as a judgement lists them; got {sorted(seeds)}")
    arena = bench.open_arena(np.random.Generator(np.random.PCG64(seeds["placement"])))
    try:
        return _judge(Climb(subject, workload, plan, seeds, bench, arena, checks=checks))
    finally:
        arena.close()


def _judge(climb: Climb) -> Judgement:
    results: list[RungResult] = []
    worst: Worst | None = None
    for step in steps(climb.plan.depth):
        climbed = _climb(step, climb)
        results.append(climbed.result)
        if not isinstance(climbed.outcome, Climbed):
            return _stopped(climb, step, climbed.outcome, results)
        worst = closer(worst, climbed.outcome.worst)
    return _written(climb, JudgedAs.VERIFIED, results, worst=worst)


def not_built(refused: NotBuilt, isolation: str) -> Judgement:
    """The rejection of a source that never became an object: it climbed no further than signature or build."""
    rung = Rung.LOAD if refused.reason in (Reason.DOES_NOT_COMPILE, Reason.TIMED_OUT) else Rung.STATIC
    message = clip("\n".join(part for part in (refused.message, refused.diagnostics) if part), 4096)
    version = next(step.version for step in LADDER if step.rung is rung)
    failed = RungResult(
        rung=rung, version=version, status=RungStatus.FAILED, checks=0, elapsed_ms=0.0, message=clip(message, 1024)
    )
    return Judgement(
        verdict=JudgedAs.REJECTED,
        rung=rung,
        reason=refused.reason,
        message=message,
        worst=None,
        rungs=(failed,),
        seeds={},
        input_digests={},
        isolation=isolation,
        ladder=ladder_version(),
    )


@dataclass(frozen=True)
class _Step:
    outcome: RungOutcome
    result: RungResult


def _climb(step: Step, climb: Climb) -> _Step:
    started = time.perf_counter()
    outcome = step.climb(climb)
    match outcome:
        case Climbed(checks, note=message):
            status = RungStatus.PASSED
        case Finding():
            checks, status, message = 0, RungStatus.FAILED, outcome.message
        case CouldNot():
            checks, status, message = 0, outcome.status, outcome.message
    result = RungResult(
        rung=step.rung,
        version=step.version,
        status=status,
        checks=checks,
        elapsed_ms=(time.perf_counter() - started) * 1e3,
        message=clip(message, 1024),
    )
    return _Step(outcome, result)


def _stopped(climb: Climb, step: Step, outcome: Finding | CouldNot, results: list[RungResult]) -> Judgement:
    if isinstance(outcome, CouldNot):
        judgement = _written(climb, JudgedAs.NO_VERDICT, results)
    else:
        judgement = _written(climb, JudgedAs.REJECTED, results, worst=outcome.worst)
        found = {"reason": outcome.reason, "counterexample": outcome.counterexample}
        judgement = judgement.model_copy(update=found)
    return judgement.model_copy(update={"rung": step.rung, "message": clip(outcome.message, 4096)})


def _written(climb: Climb, verdict: JudgedAs, results: list[RungResult], *, worst: Worst | None = None) -> Judgement:
    return Judgement(
        verdict=verdict,
        rung=None,
        reason=None,
        message=None,
        worst=worst,
        rungs=tuple(results),
        seeds=dict(climb.seeds),
        input_digests=dict(climb.digests),
        isolation=climb.bench.isolation,
        ladder=ladder_version(),
    )
