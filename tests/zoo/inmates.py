"""The zoo: small candidates, each with the verdict, rung and reason that it must get. Grown for ever.

An inmate is a C file in `good/` or `bad/`. Its header says what it is for:

    // assay: {…}                      launch data, when it has any (workloads.md)
    // workload: rms_norm
    // expect: v2_smoke out_of_bounds  or `verified`
    // guard: guard_after              the check without which this inmate would get another verdict (may be repeated)
    // depth: deep                     climbs all rungs
    // deterministic: true             the goal asks for determinism
    // counterexample: {…}             known to the goal
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from kernel_lab.verify.draws import SEED_NAMES
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.enums import JudgedAs
from schemas.verdict import Judgement
from schemas.work import Counterexample

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Inmate:
    path: Path
    workload: Workload
    expect: str
    guards: tuple[str, ...]
    plan: Plan

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def source(self) -> bytes:
        return self.path.read_bytes()

    @property
    def seeds(self) -> dict[str, int]:
        """Its own, always the same: the zoo tests the checker, not chance."""
        digest = hashlib.sha256(self.name.encode()).digest()
        return {name: int.from_bytes(digest[8 * n : 8 * n + 7], "big") for n, name in enumerate(SEED_NAMES)}


def inmates(kind: str) -> tuple[Inmate, ...]:
    """All of `good` or `bad`, by name."""
    return tuple(_read(path) for path in sorted((FOLDER / kind).glob("*.c")))


def told(judgement: Judgement) -> str:
    """A judgement as headers write it."""
    if judgement.verdict is JudgedAs.REJECTED:
        return f"{judgement.rung} {judgement.reason}"
    return judgement.verdict.value


def _read(path: Path) -> Inmate:
    said: dict[str, list[str]] = {}
    for key, value in re.findall(r"^// (\w+): (.*)$", path.read_text(), re.MULTILINE):
        said.setdefault(key, []).append(value)
    workload = WORKLOADS[said["workload"][0]]
    known = [Counterexample(workload=workload.name, **json.loads(text)) for text in said.get("counterexample", [])]
    plan = Plan(
        workload.shapes["small"],
        deterministic="deterministic" in said,
        counterexamples=tuple(known),
        depth=Depth(said.get("depth", ["cheap"])[0]),
    )
    return Inmate(path, workload, said["expect"][0], tuple(said.get("guard", [])), plan)
