"""The front of the ladder for one file, with no bus and no database: `assay candidate verify`."""

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lab.backends.backend import Backend, NotBuilt
from kernel_lab.backends.gcc import GccBackend
from kernel_lab.machine.classify import machine_class
from kernel_lab.runner.start import Lab, open_lab
from kernel_lab.sandbox.isolation import isolation as isolation_named
from kernel_lab.spaces.launch import LaunchProblem, kernel_from_source
from kernel_lab.verify.bench import make_bench
from kernel_lab.verify.blank import blank_object
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.judge import SEED_BITS, SEED_NAMES, judge, not_built
from kernel_lab.verify.subject import Depth, Plan, Subject
from kernel_lab.workloads.workload import Workload
from schemas.enums import Language
from schemas.faults import Misconfigured
from schemas.goal import Shape
from schemas.verdict import Judgement
from schemas.work import MAX_SOURCE_BYTES, Kernel, MachineClass


@dataclass(frozen=True)
class Desk:
    """Everything that judging files on this machine needs, opened once."""

    lab: Lab
    backend: Backend
    machine: MachineClass


def open_desk(isolation: str = "auto", machine: MachineClass | None = None) -> Desk:
    """Files can be judged here. Raises Misconfigured without a compiler, or when the isolation does not work."""
    lab = open_lab(isolation_named(isolation))
    return Desk(lab, GccBackend(sandbox=lab.sandbox), machine or machine_class())


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
    depth = Depth.CHEAP if cheap else Depth.DEEP
    return verify_source(body, workload, Plan(shapes, depth=depth), open_desk(isolation, machine), seeds)


def verify_source(
    body: bytes,
    workload: Workload,
    plan: Plan,
    desk: Desk,
    seeds: Mapping[str, int] | None = None,
    checks: Checks = ALL_CHECKS,
) -> Judgement:
    """The verdict on the bytes of one source file."""
    kernel = kernel_from_source(body, Language.C, desk.machine.route)
    if isinstance(kernel, LaunchProblem):
        return not_built(NotBuilt(kernel.reason, kernel.message, ""), str(desk.lab.isolation))
    built = desk.backend.compile(kernel, workload.name, desk.machine)
    if isinstance(built, NotBuilt):
        return not_built(built, str(desk.lab.isolation))
    bench = make_bench(desk.lab, blank_object(desk.backend, workload, desk.machine))
    with tempfile.TemporaryDirectory(prefix="assay-verify-") as folder:
        object_path = Path(folder, "k.so")
        object_path.write_bytes(built.object)
        subject = Subject(object_path, threads_of(kernel, desk.machine))
        return judge(subject, workload, plan, seeds or fresh_seeds(), bench, checks)


def threads_of(kernel: Kernel, machine: MachineClass) -> int:
    """What the kernel asks for; the machine's quota when it does not say."""
    return kernel.threads or machine.threads


def fresh_seeds() -> dict[str, int]:
    """Secret seeds for one judgement. Nobody, the author of a candidate included, can know them before."""
    return {name: secrets.randbits(SEED_BITS) for name in SEED_NAMES}


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
