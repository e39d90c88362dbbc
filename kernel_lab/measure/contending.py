"""Baselines before they are timed: compiled and verified, or refused with the reason said."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from kernel_lab.backends.backend import Built, NotBuilt
from kernel_lab.baselines import ContenderSpec
from kernel_lab.measure.bench import Racer
from kernel_lab.runner.arm import Arm, Limits, LoadFailed, StartArm
from kernel_lab.verify.bench import make_bench
from kernel_lab.verify.checks import ALL_CHECKS
from kernel_lab.verify.court import Court, fresh_seeds
from kernel_lab.verify.finding import CouldNot, Finding
from kernel_lab.verify.rungs import numeric
from kernel_lab.verify.subject import Climb, Depth, Plan, Subject
from kernel_lab.workloads.workload import Workload
from schemas.enums import JudgedAs
from schemas.measurement import Contender
from schemas.model import clip
from schemas.work import Kernel, MachineClass

AT_ONCE = 2
"""Contenders compiled and verified side by side: nothing is timed yet. Chosen for the two cores of the yardstick."""


@dataclass(frozen=True)
class Ready:
    """A contender that is right and may be timed."""

    spec: ContenderSpec
    racer: Racer
    built: Built | None
    """None for a library."""


@dataclass(frozen=True)
class Contending:
    """Makes contenders ready. Objects are kept in `folder`, which outlives the timing. Sources are ours or proven, so
    they climb the cheap rungs only."""

    court: Court
    machine: MachineClass
    workload: Workload
    plan: Plan
    folder: Path

    def ready(self, spec: ContenderSpec) -> Ready | Contender:
        """`spec` ready to be timed, or as the report shows it: absent, or refused and why."""
        if spec.absent is not None:
            return _unraced(spec, "absent", spec.absent)
        if spec.kernel is None:
            return self._library_ready(spec)
        built = self.court.backend.compile(spec.kernel, self.workload.name, self.machine)
        if isinstance(built, NotBuilt):
            return _unraced(spec, "refused", f"does not compile: {built.message}")
        return self._c_ready(spec, spec.kernel, built)

    def _c_ready(self, spec: ContenderSpec, kernel: Kernel, built: Built) -> Ready | Contender:
        path = self.folder / f"{spec.name}-{built.sha256[:16]}.so"
        path.write_bytes(built.object)
        cheap = replace(self.plan, depth=Depth.CHEAP)
        judgement = self.court.judge(built.object, kernel, self.machine, self.workload, cheap)
        if judgement.verdict is not JudgedAs.VERIFIED:
            return _unraced(spec, "refused", f"{judgement.rung}: {judgement.reason}: {judgement.message}")
        return Ready(spec, Racer(spec.name, spec.threads, path, built.sha256), built)

    def _library_ready(self, spec: ContenderSpec) -> Ready | Contender:
        assert spec.library is not None
        racer = Racer(spec.name, spec.threads, library=spec.library, environment=spec.environment)
        wrong = self._wrong_library(racer)
        return _unraced(spec, "refused", wrong) if wrong else Ready(spec, racer, None)

    def _wrong_library(self, racer: Racer) -> str | None:
        """What V3 says of a library. It is trusted code with pools of its own, so V0 to V2, which are about what a
        stranger's object may do, do not apply."""
        seeds = fresh_seeds()
        bench = make_bench(self.court.lab, blank=b"")
        arena = bench.open_arena(np.random.Generator(np.random.PCG64(seeds["placement"])))
        try:
            served = replace(bench, start_arm=_served_as(racer, bench.start_arm))
            subject = Subject(Path(racer.name), racer.threads)
            checks = replace(ALL_CHECKS, left_threads=False)
            outcome = numeric.climb(Climb(subject, self.workload, self.plan, seeds, served, arena, checks=checks))
        finally:
            arena.close()
        match outcome:
            case Finding(reason=reason, message=message):
                return f"{reason}: {message}"
            case CouldNot(message=message):
                return f"could not be verified: {message}"
            case _:
                return None


def make_ready(
    contending: Contending, specs: tuple[ContenderSpec, ...], told: Callable[[int], None]
) -> tuple[list[Ready], list[Contender]]:
    """Those that may be timed, and those that may not, each in the given order."""
    ready: list[Ready] = []
    unraced: list[Contender] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done, found in enumerate(pool.map(contending.ready, specs)):
            told(done)
            if isinstance(found, Ready):
                ready.append(found)
            else:
                unraced.append(found)
    return ready, unraced


def _served_as(racer: Racer, start_arm: StartArm) -> StartArm:
    """Starts `racer`'s library wherever an object is asked for."""

    def start(
        object_path: Path | None,  # noqa: ARG001 -- the port's name; a library has no object
        workload: Workload,
        threads: int,
        limits: Limits,
        *,
        library: str | None = None,
        environment: Mapping[str, str] | None = None,
        inputs_writable: bool = True,
    ) -> Arm | LoadFailed:
        return start_arm(
            None,
            workload,
            threads,
            limits,
            library=library or racer.library,
            environment={**racer.environment, **(environment or {})},
            inputs_writable=inputs_writable,
        )

    return start


def _unraced(spec: ContenderSpec, status: Literal["refused", "absent"], message: str) -> Contender:
    return Contender(name=spec.name, description=spec.description, status=status, message=clip(message, 2048))
