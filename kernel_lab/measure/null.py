"""What the null target pretends to measure: instant, and decided by the fingerprint alone. For load tests only."""

import hashlib
from collections.abc import Sequence

from schemas.enums import RatioKind, Regime, Verdict
from schemas.goal import Shape
from schemas.ids import NULL_ROUTE
from schemas.measurement import (
    BaselineRace,
    Comparison,
    Contender,
    Entrant,
    Interval,
    MachineProfile,
    Race,
    ShapeResult,
)
from schemas.work import Baseline, Contestant, MachineClass, Task

BASELINE = "null"
BASELINE_NS = 1_000_000.0
NOISE_FLOOR = 0.005
DELTA = 0.01
SPREAD = 0.001
"""Half-width of every interval. Chosen, as all of this: nothing here was measured."""
LEVEL = 0.99
MACHINE = f"{NULL_ROUTE}/null"

NULL_MACHINE = MachineClass(
    route=NULL_ROUTE,
    architecture="null",
    model="null",
    march="null",
    features=(),
    vector_bits=128,
    threads=1,
    llc_bytes=0,
)


def pretended_ratio(fingerprint: str) -> float:
    """Between 0.8 and 1.3, spread evenly over fingerprints."""
    digest = hashlib.sha256(fingerprint.encode()).digest()
    return 0.8 + 0.5 * int.from_bytes(digest[:4], "big") / 2**32


def pretended_comparison(fingerprint: str, kind: RatioKind, shapes: Sequence[Shape], regime: Regime) -> Comparison:
    """The comparison of a null kernel with the null baseline."""
    ratio = pretended_ratio(fingerprint)
    interval = Interval(estimate=ratio, low=ratio - SPREAD, high=ratio + SPREAD, level=LEVEL)
    return Comparison(
        kind=kind,
        verdict=_verdict(interval),
        ratio=interval,
        regime=regime,
        machine=MACHINE,
        noise_floor=NOISE_FLOOR,
        delta=DELTA,
        looks=1,
        dropped_fraction=0.0,
        shapes=tuple(_row(shape, ratio) for shape in shapes),
        note="null: nothing was measured",
    )


def pretended_baselines(task: Task) -> BaselineRace:
    """The one null contender, the strongest at every shape."""
    median_ns = (BASELINE_NS,) * len(task.shapes)
    contender = Contender(name=BASELINE, description="nothing at all", status="raced", median_ns=median_ns)
    strongest = tuple(Baseline(name=BASELINE, axes=dict(s.axes), median_ns=BASELINE_NS) for s in task.shapes)
    return BaselineRace(
        contenders=(contender,), strongest=strongest, roofs=(), noise_floor=NOISE_FLOOR, machine=MACHINE
    )


def pretended_race(task: Task, contestants: Sequence[Contestant], incumbent: Contestant | None) -> Race:
    """Every contestant holds what the search believed."""
    return Race(
        entrants=tuple(_entrant(task, contestant, incumbent) for contestant in contestants),
        a_a=_equals(task),
        seeds={},
        hold_out_gap_s=0.0,
        machine=MACHINE,
        noise_floor=NOISE_FLOOR,
        fit=True,
    )


def pretended_profile() -> MachineProfile:
    """The profile of the machine that does not exist."""
    return MachineProfile(
        host="null",
        machine=NULL_MACHINE,
        compiler="null",
        isolation="none",
        governor="unknown",
        smt="unknown",
        transparent_huge_pages="unknown",
        steal="unknown",
        timer_resolution_ns=1.0,
        caches=(),
        memory_bytes=0,
        fma_gflops={},
        copy_gbps={},
        noise_floor=NOISE_FLOOR,
        fit=True,
    )


def _entrant(task: Task, contestant: Contestant, incumbent: Contestant | None) -> Entrant:
    fingerprint = contestant.build.kernel.fingerprint
    comparison = pretended_comparison(fingerprint, RatioKind.HOLD_OUT, task.shapes, task.regime)
    return Entrant(
        candidate_id=contestant.candidate_id,
        comparison=comparison,
        search_ratio=contestant.search_ratio,
        against_incumbent=comparison if incumbent else None,
    )


def _equals(task: Task) -> Comparison:
    equal = Interval(estimate=1.0, low=1.0 - SPREAD, high=1.0 + SPREAD, level=LEVEL)
    template = pretended_comparison("", RatioKind.HOLD_OUT, task.shapes, task.regime)
    rows = tuple(_row(shape, 1.0) for shape in task.shapes)
    return template.model_copy(update={"ratio": equal, "verdict": _verdict(equal), "shapes": rows})


def _row(shape: Shape, ratio: float) -> ShapeResult:
    return ShapeResult(
        axes=dict(shape.axes),
        weight=shape.weight,
        baseline=BASELINE,
        baseline_ns=BASELINE_NS,
        candidate_ns=BASELINE_NS / ratio,
        ratio=ratio,
    )


def _verdict(interval: Interval) -> Verdict:
    if interval.low > 1 and interval.estimate > 1 + DELTA:
        return Verdict.FASTER
    if interval.high < 1 and interval.estimate < 1 / (1 + DELTA):
        return Verdict.SLOWER
    return Verdict.EQUIVALENT if abs(interval.estimate - 1) + SPREAD <= DELTA else Verdict.INCONCLUSIVE
