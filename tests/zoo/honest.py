"""`make zoo-honest`: random kernels of every design space, judged as finalists. Ends with 1 when one was refused.

The spaces hold honest kernels only, so whatever is refused here is a fault of a space or of the verifier. The zoo's
good inmates and their seeds never change; here both are new each time.
"""

import argparse
import secrets
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernel_lab.machine import machine_class
from kernel_lab.spaces import SPACES
from kernel_lab.spaces.launch import Launch, launch_line
from kernel_lab.spaces.space import Space, Surroundings
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.file import verify_source
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads import WORKLOADS
from schemas.enums import JudgedAs, Language
from schemas.faults import Bug
from schemas.goal import SpaceLimits
from schemas.verdict import Judgement
from schemas.work import Genome, MachineClass

ISOLATIONS = ("auto", "bwrap", "landlock", "none")


@dataclass(frozen=True)
class Tried:
    """One kernel of a space, and what became of it."""

    genome: Genome
    source: bytes
    judgement: Judgement

    @property
    def refused(self) -> bool:
        return self.judgement.verdict is not JudgedAs.VERIFIED


def main(arguments: list[str] | None = None) -> int:
    """0 when every kernel was verified, 1 when one was not."""
    given = _arguments(arguments)
    court, machine, refused = open_court(given.isolation), machine_class(), 0
    print(f"isolation {court.isolation}, seed {given.seed}: {given.each} kernels of each space")
    for name in given.workloads or [workload for workload, language in SPACES if language == Language.C]:
        tried = _told(name, try_space(SPACES[name, Language.C], given.each, given.seed, court, machine), given.each)
        for one in tried:
            if one.refused:
                _report(one, name)
                refused += 1
    return 1 if refused else 0


def try_space(space: Space, each: int, seed: int, court: Court, machine: MachineClass) -> Iterator[Tried]:
    """`each` random kernels of `space` as finalists of a serving goal, under fresh seeds each."""
    workload, rng = WORKLOADS[space.workload], np.random.default_rng(seed)
    plan = Plan(workload.shapes["serving"], depth=Depth.DEEP)
    around = Surroundings(machine.vector_bits, machine.threads, deterministic=False, forbid=())
    for _ in range(each):
        genome = space.sample(rng, around, SpaceLimits())
        if genome is None:
            raise Bug(f"the space of {space.workload} holds no kernel for this machine")
        source = _file_of(space, genome, around)
        yield Tried(genome, source, verify_source(source, workload, plan, court, machine))


def _file_of(space: Space, genome: Genome, around: Surroundings) -> bytes:
    """What a person would submit."""
    rendered = space.render(genome, around)
    return f"{launch_line(Launch(rendered.flags, rendered.threads))}\n{rendered.source}".encode()


def _told(name: str, tries: Iterator[Tried], each: int) -> list[Tried]:
    tried: list[Tried] = []
    for one in tries:
        tried.append(one)
        print(f"{name:<20} {len(tried)}/{each}", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
    print(f"{name:<20} {sum(one.refused for one in tried)} of {len(tried)} refused", flush=True)
    return tried


def _report(one: Tried, workload: str) -> None:
    """Where to find a kernel that was refused, and how to judge it again."""
    with tempfile.NamedTemporaryFile(prefix=f"honest-{workload}-", suffix=".c", delete=False) as kept:
        kept.write(one.source)
    judgement = one.judgement
    print(f"  {judgement.verdict} {judgement.rung} {judgement.reason}: {judgement.message}")
    print(f"  genome {one.genome}")
    print(f"  seeds  {judgement.seeds}")
    print(f"  source {kept.name}", flush=True)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.honest", description=__doc__)
    parser.add_argument("--each", type=int, default=40, metavar="N", help="kernels of each space (default: 40)")
    parser.add_argument("--seed", type=int, help="of the choice of kernels (default: a new one, printed)")
    parser.add_argument("--isolation", default="auto", choices=ISOLATIONS)
    parser.add_argument("workloads", nargs="*", help="default: all that have a space")
    given = parser.parse_args(arguments)
    given.seed = secrets.randbits(32) if given.seed is None else given.seed
    if given.each < 1:
        parser.error(f"--each {given.each}: at least 1, or nothing is shown")
    unknown = [name for name in given.workloads if (name, Language.C) not in SPACES]
    if unknown:
        parser.error(f"no design space for {', '.join(unknown)}")
    return given


if __name__ == "__main__":
    sys.exit(main())
