"""The exported folder: written whole beside its place, then put there, so that a failure leaves nothing half-made."""

import json
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.faults import Misconfigured
from services.console.export.c_tables import champion_header, claim_header, data_path
from services.console.export.calling import numpy_program, torch_program
from services.console.export.claim import Claim
from services.console.export.makefile import makefile, source_name
from services.console.export.readme import readme
from services.console.export.recorded_data import Case, small_cases, timed_case
from services.console.render import ratio_text
from services.console.report import stated

BENCH = tuple(Path(__file__).with_name("bench") / name for name in ("bench.c", "arm.h", "data.h"))
SEED_BITS = 62
Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Checks:
    """Every recorded case, and which of them are the claim's shapes."""

    cases: tuple[Case, ...]
    timed: tuple[int, ...]


def require_free(folder: Path) -> None:
    """`folder` does not exist yet, or is an empty folder. Raises Misconfigured: nothing is ever written over."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Misconfigured(f"{folder} is a file; name a folder that does not exist yet")
    if any(folder.iterdir()):
        raise Misconfigured(f"{folder} is not empty, and nothing in it will be written over; name another folder")


def draw_checks(claim: Claim, told: Told) -> Checks:
    """Inputs from fresh seeds and their float64 results, for small cases and for every shape of the claim."""
    rng = np.random.Generator(np.random.PCG64(secrets.randbits(SEED_BITS)))
    told("computing results in float64", 0, len(claim.shapes) + 1)
    cases = list(small_cases(claim.workload, claim.task.tolerance_scale, rng))
    timed = []
    for number, shape in enumerate(claim.shapes):
        told("computing results in float64", number + 1, len(claim.shapes) + 1)
        timed.append(len(cases))
        cases.append(timed_case(claim.workload, shape.row.axes, claim.task.tolerance_scale, rng))
    return Checks(tuple(cases), tuple(timed))


def write_folder(folder: Path, claim: Claim, checks: Checks, evidence: dict[str, Any]) -> None:
    """`folder` holds everything. Raises Misconfigured when it cannot be written."""
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        (beside / "data").mkdir(parents=True)
        _write(beside, claim, checks, evidence)
        beside.replace(folder)
    except OSError as error:
        raise Misconfigured(f"cannot write {folder}: {error.strerror}; name another folder with -o") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(folder: Path, claim: Claim, checks: Checks, evidence: dict[str, Any]) -> None:
    texts = {
        "README.md": readme(claim),
        "Makefile": makefile(claim),
        f"{claim.workload.name}.h": champion_header(claim),
        "claim.h": claim_header(claim, checks.cases, checks.timed, ratio_text(stated(claim.crowned.fact.comparison))),
        "call_numpy.py": numpy_program(claim.workload, checks.cases[0]),
        "call_torch.py": torch_program(claim.workload),
        "evidence.json": json.dumps(evidence, indent=1, ensure_ascii=False) + "\n",
        **{source_name(arm): arm.kernel.source for arm in claim.arms},
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for source in BENCH:
        shutil.copy(source, folder)
    for number, case in enumerate(checks.cases):
        (folder / data_path(number)).write_bytes(case.content)
