"""V8: what a timing run left behind is verified afterwards. Whoever times decides which iterations, at random.

Contents are fresh under those iterations (measurement.md, 2), so a candidate that answers only while it is being
checked, or replays an old answer, is caught by the very outputs that were timed. Each timed call finds the answer to
other inputs in its outputs (kernel_lab/measure/contents.py), so one that leaves an old answer alone is caught as well.
"""

import time
from collections.abc import Mapping

from kernel_lab.verify.compare import against_bound
from kernel_lab.verify.draws import Draw, Prepared
from kernel_lab.verify.finding import Climbed, Finding
from kernel_lab.workloads.workload import Array, Arrays, Axes, Workload
from schemas.enums import Rung, RungStatus
from schemas.verdict import RungResult

VERSION = 2


def verify_timed_outputs(
    workload: Workload,
    axes: Axes,
    inputs: Arrays,
    outputs: Mapping[str, Array],
    *,
    distribution: str,
    seed: int,
    tolerance_scale: float = 1.0,
) -> RungResult | Finding:
    """The outputs are within the bound of the float64 reference of the inputs they were timed on, or the finding.

    `distribution` and `seed` name the contents, so that a finding is a counterexample that can be drawn again. The
    whole output is compared: the float64 reference of 64 MiB takes about a second, once per judged iteration.
    """
    started = time.perf_counter()
    prepared = Prepared(workload, Draw(distribution, dict(axes), seed), inputs)
    judged = against_bound(prepared, outputs, tolerance_scale)
    if isinstance(judged, Finding):
        kept = prepared.draw.kept(workload.name)
        return Finding(judged.reason, f"timed outputs: {judged.message}", judged.worst, kept)
    passed = Climbed(len(prepared.reference), judged.worst)
    return RungResult(
        rung=Rung.TIMED_OUTPUTS,
        version=VERSION,
        status=RungStatus.PASSED,
        checks=passed.checks,
        elapsed_ms=(time.perf_counter() - started) * 1e3,
    )
