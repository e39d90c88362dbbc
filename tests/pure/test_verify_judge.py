"""The judge: stops at the first failure, never passes a rung that could not run, writes down what repeats it.

The candidate here is a Python function behind the runner's port; real objects are judged in the zoo.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_lab.runner.arm import BufferSet, CallOutcome, Died, LoadFailed, OverTime, Returned, StartArm
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.draws import SEED_NAMES
from kernel_lab.verify.elf import Import
from kernel_lab.verify.exercise import exercising, why_died
from kernel_lab.verify.finding import Climbed, CouldNot, Finding, RungOutcome
from kernel_lab.verify.judge import judge
from kernel_lab.verify.ladder import LADDER, ladder_version, steps
from kernel_lab.verify.rungs import load, numeric, smoke, static
from kernel_lab.verify.rungs.static import allowed_import
from kernel_lab.verify.subject import Bench, Climb, Depth, Plan, Subject
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Array, Arrays, Axes, Scalars, Workload
from schemas.enums import JudgedAs, Reason, Rung, RungStatus
from schemas.faults import Misconfigured
from schemas.goal import Shape

SEEDS = {name: n + 1 for n, name in enumerate(SEED_NAMES)}
NO_OBJDUMP = CouldNot(RungStatus.UNSUPPORTED, "no disassembler")
RETURNED = Returned(100, 200, 0x1F80, 0x1F80, 1)
RMS_NORM = WORKLOADS["rms_norm"]
Kernel = Callable[[Arrays, Axes], dict[str, Array]]


def plain(inputs: Arrays, axes: Axes) -> dict[str, Array]:
    return RMS_NORM.index_order_f32(inputs, axes, RMS_NORM.scalars)


@dataclass
class HeldBuffers:
    """Buffers in this process."""

    axes: Axes
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)

    def fill_inputs(self, inputs: Arrays) -> None:
        self.inputs = dict(inputs)

    def poison_outputs(self, pattern: int) -> None:
        shape = tuple(self.axes[axis] for axis in RMS_NORM.axes)
        self.outputs = {"y": np.full(shape, pattern, np.uint32).view(np.float32)}

    def fill_outputs(self, outputs: Arrays) -> None:
        self.outputs = dict(outputs)

    def output(self, name: str) -> Array:
        return self.outputs[name]

    def input_digest(self) -> str:
        return str(hash(b"".join(array.tobytes() for array in self.inputs.values())))

    def close(self) -> None:
        self.inputs = {}


class HeldArena:
    def __init__(self, _rng: np.random.Generator) -> None:
        self.closed = False

    def buffers(
        self,
        workload: Workload,
        axes: Axes,
        alignment: str,
        *,
        offset_elements: int = 0,
        outputs_of: BufferSet | None = None,
    ) -> Any:
        return HeldBuffers(axes)

    def recycle(self) -> None: ...

    def close(self) -> None:
        self.closed = True


@dataclass
class ScriptedArm:
    """Calls `kernel`; says what `says` says, when it says something."""

    kernel: Kernel
    says: Callable[[int], CallOutcome]
    calls: int = 0
    closed: bool = False

    def call(self, buffers: Any, scalars: Scalars) -> CallOutcome:
        outcome = self.says(self.calls)
        self.calls += 1
        if isinstance(outcome, Returned):
            buffers.outputs = self.kernel(buffers.inputs, buffers.axes)
        return outcome

    def close(self) -> None:
        self.closed = True


@dataclass
class ScriptedBench:
    kernel: Kernel = plain
    says: Callable[[int], CallOutcome] = lambda _call: RETURNED
    refuses: LoadFailed | None = None
    started: list[ScriptedArm] = field(default_factory=list)

    def start_arm(self, *_: Any, **__: Any) -> Any:
        if self.refuses:
            return self.refuses
        self.started.append(ScriptedArm(self.kernel, self.says))
        return self.started[-1]

    @property
    def bench(self) -> Bench:
        start: StartArm = self.start_arm
        return Bench(start, HeldArena, "none", lambda _path: NO_OBJDUMP, b"")

    def climb(self, threads: int = 1, plan: Plan | None = None, checks: Checks = ALL_CHECKS) -> Climb:
        plan = plan or Plan((Shape(axes={"T": 2, "H": 16}),))
        arena = HeldArena(np.random.default_rng(0))
        return Climb(Subject(Path("k.so"), threads), RMS_NORM, plan, SEEDS, self.bench, arena, checks=checks)


def reason(outcome: RungOutcome) -> Reason | None:
    return outcome.reason if isinstance(outcome, Finding) else None


def test_the_rungs_are_climbed_cheapest_first_and_the_ladder_names_them_all() -> None:
    assert [step.rung for step in steps(Depth.CHEAP)] == [Rung.STATIC, Rung.LOAD, Rung.SMOKE, Rung.NUMERIC]
    assert steps(Depth.DEEP) == LADDER
    assert all(step.rung in ladder_version() for step in LADDER)


def test_a_right_kernel_climbs_every_rung_that_runs_it_and_leaves_no_process() -> None:
    scripted = ScriptedBench()
    for rung in (load, smoke, numeric):
        assert isinstance(rung.climb(scripted.climb(threads=2)), Climbed)
    assert all(arm.closed for arm in scripted.started)


def test_an_object_that_cannot_be_read_is_no_verdict_and_never_a_pass(tmp_path: Path) -> None:
    object_path = tmp_path / "k.so"
    object_path.write_bytes(b"no object")
    judgement = judge(Subject(object_path), RMS_NORM, Plan(()), SEEDS, ScriptedBench().bench)
    assert judgement.verdict is JudgedAs.NO_VERDICT
    assert judgement.rung is Rung.STATIC
    assert judgement.reason is None
    assert [result.status for result in judgement.rungs] == [RungStatus.TOOL_FAILURE]
    assert judgement.seeds == SEEDS
    assert judgement.ladder == ladder_version()


def test_seeds_that_are_not_a_judgements_are_refused(tmp_path: Path) -> None:
    for seeds in ({}, {"smoke": 1}, {**SEEDS, "luck": 7}):
        with pytest.raises(Misconfigured, match="placement"):
            judge(Subject(tmp_path / "k.so"), RMS_NORM, Plan(()), seeds, ScriptedBench().bench)


def test_a_runner_that_is_killed_from_outside_is_no_verdict() -> None:
    killed = ScriptedBench(says=lambda _: Died("SIGKILL", None, None, ""))
    for rung in (load, smoke, numeric):
        outcome = rung.climb(killed.climb())
        assert isinstance(outcome, CouldNot)
        assert outcome.status is RungStatus.TOOL_FAILURE


@pytest.mark.parametrize(
    ("died", "expected"),
    [
        (Died("SIGSEGV", None, "y:after", ""), Reason.OUT_OF_BOUNDS),
        (Died("SIGSEGV", None, "x:before", ""), Reason.OUT_OF_BOUNDS),
        (Died("SIGSEGV", None, "x:readonly", ""), Reason.WROTE_INPUT),
        (Died("SIGSEGV", None, "y:inside", ""), Reason.CRASHED),
        (Died("SIGSEGV", None, None, "", 900), Reason.OUT_OF_MEMORY),
        (Died("SIGSEGV", None, None, "", 500), Reason.CRASHED),
        (Died("SIGFPE", None, None, ""), Reason.CRASHED),
        (Died("SIGSYS", None, None, ""), Reason.FORBIDDEN_CONSTRUCT),
        (Died("SIGXCPU", None, None, ""), Reason.TIMED_OUT),
        (Died(None, 0, None, '{"verdict": "verified"}'), Reason.CRASHED),
    ],
)
def test_every_death_has_its_reason(died: Died, expected: Reason) -> None:
    outcome = why_died(died, 1000)
    assert isinstance(outcome, Finding)
    assert outcome.reason is expected
    assert died.stderr in outcome.message


def test_one_that_does_not_come_back_is_rejected_over_its_own_limit() -> None:
    outcome = numeric.climb(ScriptedBench(says=lambda _: OverTime(5.0)).climb())
    assert reason(outcome) is Reason.TIMED_OUT


def test_one_that_does_not_load_is_rejected() -> None:
    refused = ScriptedBench(refuses=LoadFailed("undefined symbol: blas_sgemm"))
    for rung in (load, smoke, numeric):
        assert reason(rung.climb(refused.climb())) is Reason.DOES_NOT_LOAD


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (replace(RETURNED, fp_control_after=0x9FC0), Reason.FP_STATE_CHANGED),
        (replace(RETURNED, threads_after=3), Reason.LEFT_THREADS),
        (replace(RETURNED, threads_after=1), None),
    ],
)
def test_what_a_call_leaves_behind_is_seen_at_every_rung(returned: Returned, expected: Reason | None) -> None:
    for rung in (load, smoke, numeric):
        assert reason(rung.climb(ScriptedBench(says=lambda _: returned).climb())) is expected


def test_threads_of_the_openmp_pool_may_stay() -> None:
    scripted = ScriptedBench(says=lambda _: replace(RETURNED, threads_after=2))
    with exercising(scripted.climb(), 2, inputs_writable=True) as exerciser:
        assert not isinstance(exerciser, Finding | CouldNot)
        draw = next(smoke._placed_draws(exerciser.climb, RMS_NORM.distributions[0]))
        assert isinstance(exerciser.returned(draw), Returned)


def test_a_finding_carries_the_input_that_showed_it_and_that_input_shows_it_again() -> None:
    def wrong_when_large(inputs: Arrays, axes: Axes) -> dict[str, Array]:
        answer = plain(inputs, axes)
        wrong = np.abs(inputs["x"].astype(np.float32)).max(initial=0) > 1e6
        return {"y": np.zeros_like(answer["y"])} if wrong else answer

    scripted = ScriptedBench(wrong_when_large)
    first = numeric.climb(scripted.climb())
    assert isinstance(first, Finding)
    assert first.reason is Reason.OUT_OF_BOUND
    assert first.counterexample is not None
    assert first.counterexample.distribution == "large"
    known = Plan((), counterexamples=(first.counterexample,))
    second = numeric.climb(scripted.climb(plan=known))
    assert reason(second) is Reason.COUNTEREXAMPLE
    assert isinstance(numeric.climb(ScriptedBench().climb(plan=known)), Climbed)


def test_a_counterexample_too_large_for_the_cheap_rungs_is_left_to_the_deep_ones_and_said() -> None:
    draws = numeric.draws(ScriptedBench().climb())
    small = next(draws)[1].kept("rms_norm")
    large = small.model_copy(update={"axes": {"T": 4096, "H": 4096}})
    other = small.model_copy(update={"workload": "softmax"})
    climb = ScriptedBench().climb(plan=Plan((), counterexamples=(small, large, other)))
    assert numeric.known_here(climb) == (small,)
    outcome = numeric.climb(climb)
    assert isinstance(outcome, Climbed)
    assert outcome.note.startswith("1 known counterexample")
    deep = replace(climb, plan=replace(climb.plan, depth=Depth.DEEP))
    assert numeric.known_here(deep) == (small, large)


def test_a_finalist_meets_more_draws_and_the_large_shapes_of_its_goal() -> None:
    shapes = (Shape(axes={"T": 511, "H": 2305}), Shape(axes={"T": 1, "H": 8}))
    cheap = [draw for _, draw in numeric.draws(ScriptedBench().climb(plan=Plan(shapes)))]
    deep = [draw for _, draw in numeric.draws(ScriptedBench().climb(plan=Plan(shapes, depth=Depth.DEEP)))]
    assert {draw.seed for draw in cheap} < {draw.seed for draw in deep}
    assert {"T": 1, "H": 8} in [draw.axes for draw in cheap]
    assert {"T": 511, "H": 2305} in [draw.axes for draw in deep]
    assert {"T": 511, "H": 2305} not in [draw.axes for draw in cheap]
    assert len({draw.seed for draw in deep}) == len(deep)


def test_where_nothing_can_be_compared_there_is_no_verdict() -> None:
    none = replace(RMS_NORM, shapes={**RMS_NORM.shapes, "small": (Shape(axes={"T": 0, "H": 8}),)})
    climb = replace(ScriptedBench().climb(plan=Plan(())), workload=none)
    outcome = numeric.climb(climb)
    assert isinstance(outcome, CouldNot)
    assert outcome.status is RungStatus.UNSUPPORTED


@pytest.mark.parametrize(
    ("name", "library", "allowed"),
    [
        ("expf", "libm.so.6", True),
        ("fesetround", "libm.so.6", False),
        ("signgam", "libm.so.6", False),
        ("_ZGVdN8v_expf", "libmvec.so.1", True),
        ("expf", "libmvec.so.1", False),
        ("GOMP_parallel", "libgomp.so.1", True),
        ("GOMP_target_ext", "libgomp.so.1", False),
        ("GOMP_offload_register", "libgomp.so.1", False),
        ("omp_get_thread_num", "libgomp.so.1", True),
        ("omp_get_wtime", "libgomp.so.1", False),
        ("omp_set_num_threads", "libgomp.so.1", False),
        ("memcpy", "libc.so.6", True),
        ("__memset_chk", "libc.so.6", True),
        ("posix_memalign", "libc.so.6", True),
        ("system", "libc.so.6", False),
        ("__errno_location", "libc.so.6", False),
        ("malloc", None, False),
        ("_GLOBAL_OFFSET_TABLE_", None, True),
        (".gomp_critical_user_add", None, True),
    ],
)
def test_the_table_of_allowed_imports(name: str, library: str | None, allowed: bool) -> None:
    assert (allowed_import(Import(name, library)) or name in static.UNVERSIONED) is allowed


def test_the_same_seeds_give_the_same_draws() -> None:
    first, second = ([draw for _, draw in numeric.draws(ScriptedBench().climb())] for _ in range(2))
    assert first == second
    other: Mapping[str, int] = {**SEEDS, "numeric": 99}
    third = [draw for _, draw in numeric.draws(replace(ScriptedBench().climb(), seeds=other))]
    assert {draw.seed for draw in first}.isdisjoint(draw.seed for draw in third)
