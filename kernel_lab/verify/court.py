"""Where judgements are made on this machine: sandbox, compiler and blank objects, opened once and used for many."""

import re
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kernel_lab.backends.backend import Backend, Built
from kernel_lab.backends.gcc import SANITIZE, GccBackend
from kernel_lab.runner.start import Lab, open_lab
from kernel_lab.sandbox.isolation import isolation as isolation_named
from kernel_lab.verify.bench import make_bench
from kernel_lab.verify.blank import blank_object
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.draws import SEED_BITS, SEED_NAMES
from kernel_lab.verify.finding import CouldNot, Finding
from kernel_lab.verify.judge import judge
from kernel_lab.verify.subject import Bench, Plan, Subject
from kernel_lab.workloads.workload import Workload
from schemas.enums import Reason, RungStatus
from schemas.verdict import Judgement
from schemas.work import Kernel, MachineClass

EXEMPT = re.compile(r"no_sanitize\w*|no_address_safety_analysis")
"""Attributes that take a function out of what the sanitizers see, as they stand after the preprocessor."""


@dataclass(frozen=True)
class Court:
    """Judges compiled objects. One blank object is built per workload and machine class."""

    lab: Lab
    backend: Backend
    _benches: dict[tuple[str, MachineClass], Bench] = field(default_factory=dict)

    @property
    def isolation(self) -> str:
        """How candidates are confined, for verdicts."""
        return str(self.lab.isolation)

    def judge(
        self,
        content: bytes,
        kernel: Kernel,
        machine: MachineClass,
        workload: Workload,
        plan: Plan,
        *,
        seeds: Mapping[str, int] | None = None,
        checks: Checks = ALL_CHECKS,
    ) -> Judgement:
        """The verdict on the object `content` of `kernel`, under fresh secret seeds unless old ones are given."""
        with _object_file(content) as path:
            sanitized = self._sanitized_into(path.parent, kernel, machine, workload)
            subject = Subject(path, threads_of(kernel, machine), sanitized)
            return judge(subject, workload, plan, seeds or fresh_seeds(), self._bench(workload, machine), checks)

    def _sanitized_into(
        self, folder: Path, kernel: Kernel, machine: MachineClass, workload: Workload
    ) -> Callable[[], Path | Finding | CouldNot]:
        def build() -> Path | Finding | CouldNot:
            sanitizing = GccBackend(sandbox=self.lab.sandbox, extra=SANITIZE)
            expanded = sanitizing.expand(kernel, workload.name, machine)
            if isinstance(expanded, str) and (exempt := EXEMPT.search(expanded)):
                return Finding(Reason.FORBIDDEN_CONSTRUCT, f"its source says {exempt[0]}: the sanitizers see all of it")
            built = sanitizing.compile(kernel, workload.name, machine)
            if not isinstance(built, Built):
                return CouldNot(RungStatus.UNSUPPORTED, f"it does not build with {' '.join(SANITIZE)}: {built.message}")
            path = folder / "sanitized.so"
            path.write_bytes(built.object)
            return path

        return build

    def _bench(self, workload: Workload, machine: MachineClass) -> Bench:
        key = (workload.name, machine)
        if key not in self._benches:
            self._benches[key] = make_bench(self.lab, blank_object(self.backend, workload, machine))
        return self._benches[key]


def open_court(isolation: str) -> Court:
    """Objects can be judged under `isolation`. Raises Misconfigured without a compiler or when it does not work."""
    lab = open_lab(isolation_named(isolation))
    return Court(lab, GccBackend(sandbox=lab.sandbox))


def threads_of(kernel: Kernel, machine: MachineClass) -> int:
    """What the kernel asks for; the machine's quota when it does not say."""
    return kernel.threads or machine.threads


def fresh_seeds() -> dict[str, int]:
    """Secret seeds for one judgement. Nobody, the author of a candidate included, can know them before."""
    return {name: secrets.randbits(SEED_BITS) for name in SEED_NAMES}


@contextmanager
def _object_file(content: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="assay-verify-") as folder:
        path = Path(folder, "k.so")
        path.write_bytes(content)
        yield path
