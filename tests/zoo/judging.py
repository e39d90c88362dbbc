"""The whole zoo judged at once: what `make zoo` and `make zoo-mutants` print, and whether it is as it must be."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from statistics import median

from kernel_lab.sandbox import Program, Sandbox, spawn_sandboxed
from kernel_lab.sandbox.filters import compiler_filter
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.court import Court
from kernel_lab.verify.file import verify_source
from kernel_lab.verify.ladder import LADDER
from kernel_lab.verify.subject import Depth
from schemas.enums import RungStatus
from schemas.verdict import Judgement
from schemas.work import MachineClass
from tests.zoo.inmates import Inmate, told

LAUNCHES = 31
MARKS = {RungStatus.PASSED: ".", RungStatus.FAILED: "X"}


@dataclass(frozen=True)
class Judged:
    """One inmate, judged under one isolation."""

    inmate: Inmate
    judgement: Judgement

    @property
    def as_expected(self) -> bool:
        return told(self.judgement) == self.inmate.expect

    @property
    def elapsed_ms(self) -> float:
        return sum(result.elapsed_ms for result in self.judgement.rungs)

    def line(self) -> str:
        """`ok  ..X.....  rms_norm__zeros: v2_smoke out_of_bound`: one mark per rung, a dot for passed."""
        climbed = {result.rung: MARKS.get(result.status, "?") for result in self.judgement.rungs}
        marks = "".join(climbed.get(step.rung, " ") for step in LADDER)
        got = told(self.judgement)
        wrong = "" if self.as_expected else f", not {self.inmate.expect}: {self.judgement.message}"
        verdict = "ok" if self.as_expected else "NO"
        return f"{verdict:<3}{marks}  {self.elapsed_ms:6.0f} ms  {self.inmate.name}: {got}{wrong}"


def judge_all(
    inmates: Iterable[Inmate], court: Court, machine: MachineClass, depth: Depth | None = None
) -> Iterator[Judged]:
    """Every inmate under seeds of its own, at its own depth unless one is given."""
    for inmate in inmates:
        plan = replace(inmate.plan, depth=depth) if depth else inmate.plan
        yield Judged(
            inmate, verify_source(inmate.source, inmate.workload, plan, court, machine, inmate.seeds, ALL_CHECKS)
        )


def without(check: str, inmate: Inmate, court: Court, machine: MachineClass) -> Judgement:
    """What `inmate` gets when one check is switched off."""
    checks = replace(ALL_CHECKS, **{check: False})
    return verify_source(inmate.source, inmate.workload, inmate.plan, court, machine, inmate.seeds, checks)


def every_check() -> tuple[str, ...]:
    return tuple(check.name for check in fields(Checks))


def launch_ms(sandbox: Sandbox) -> float:
    """The median time from asking for a program in the sandbox to its end."""
    taken = []
    for _ in range(LAUNCHES):
        started = time.perf_counter()
        with spawn_sandboxed(Program(("/bin/true",), filter=compiler_filter()), sandbox) as running:
            running.wait(10.0)
            taken.append((time.perf_counter() - started) * 1e3)
    return median(taken)
