"""The front of the ladder for one file, with no bus and no database: `assay candidate verify`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_lab.backends.backend import NotBuilt
from kernel_lab.machine import machine_class
from kernel_lab.spaces.launch import LaunchProblem, kernel_from_source
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.judge import not_built
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads.workload import Workload
from schemas.enums import Language
from schemas.faults import Misconfigured
from schemas.goal import Shape
from schemas.verdict import Judgement
from schemas.work import MAX_SOURCE_BYTES, MachineClass


def verify_file(
    path: Path,
    workload: Workload,
    shapes: tuple[Shape, ...],
    cheap: bool,
    isolation: str = "auto",
    seeds: Mapping[str, int] | None = None,
    *,
    machine: MachineClass | None = None,
) -> Judgement:
    """The verdict on one source file, whatever is in it. Raises Misconfigured when the file cannot be read at all.

    Fresh secret seeds are drawn unless given; they are in the judgement, and give the same verdict again.
    """
    body = _read(path)
    plan = Plan(shapes, depth=Depth.CHEAP if cheap else Depth.DEEP)
    return verify_source(body, workload, plan, open_court(isolation), machine or machine_class(), seeds)


def verify_source(
    body: bytes,
    workload: Workload,
    plan: Plan,
    court: Court,
    machine: MachineClass,
    seeds: Mapping[str, int] | None = None,
    checks: Checks = ALL_CHECKS,
) -> Judgement:
    """The verdict on the bytes of one source file."""
    kernel = kernel_from_source(body, Language.C, machine.route)
    if isinstance(kernel, LaunchProblem):
        return not_built(NotBuilt(kernel.reason, kernel.message, ""), court.isolation)
    built = court.backend.compile(kernel, workload.name, machine)
    if isinstance(built, NotBuilt):
        return not_built(built, court.isolation)
    return court.judge(built.object, kernel, machine, workload, plan, seeds=seeds, checks=checks)


def to_json(judgement: Judgement) -> dict[str, Any]:
    """Exactly the keys that outsiders script against (workloads.md, the candidate contract)."""
    told = judgement.model_dump(mode="json")
    return {key: told[key] for key in ("verdict", "rung", "reason", "message", "worst", "rungs", "seeds")}


def _read(path: Path) -> bytes:
    """At most one byte more than a candidate may have: enough to know that it is too large."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror or error}") from error
