"""What every workload in the table must keep."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from kernel_lab.verify.compare import against_bound
from kernel_lab.verify.draws import Draw, prepare
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.bounds import F64, half_ulp
from kernel_lab.workloads.workload import Array, Arrays, Axes, Claim, Distribution, Relation, Workload
from schemas.goal import Goal

CASES = [
    pytest.param(workload, distribution, dict(shape.axes), id=f"{workload.name}-{distribution.name}-{shape}")
    for workload in WORKLOADS.values()
    for distribution in workload.distributions
    for shape in workload.shapes["small"]
]
TABLE = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)


def honest_is_refused(workload: Workload, distribution: Distribution, axes: Axes, seed: int = 7) -> str | None:
    """What the checker says against plain float32, windows included; None when it passes."""
    prepared = prepare(workload, distribution, Draw(distribution.name, dict(axes), seed))
    said = against_bound(prepared, prepared.index_order, 1.0)
    return said.message if isinstance(said, Finding) else None


def drawn(distribution: Distribution, axes: Axes, seed: int = 7) -> dict[str, Array]:
    return distribution.draw(axes, np.random.default_rng(seed))


def judged(workload: Workload, inputs: Arrays, axes: Axes) -> tuple[dict[str, F64], dict[str, F64]]:
    exact = workload.reference(inputs, axes, workload.scalars)
    return exact, workload.bound(inputs, axes, workload.scalars, exact)


def within(got: Array, exact: F64, bound: F64) -> bool:
    return bool(np.all(np.abs(got.astype(np.float64) - exact) <= bound))


@pytest.mark.parametrize(("workload", "distribution", "axes"), CASES)
def test_honest_float32_is_within_the_bound_and_a_perturbed_output_is_not(
    workload: Workload, distribution: Distribution, axes: Axes
) -> None:
    inputs = drawn(distribution, axes)
    exact, bound = judged(workload, inputs, axes)
    honest = workload.index_order_f32(inputs, axes, workload.scalars)
    assert honest_is_refused(workload, distribution, axes) is None
    for output in workload.outputs:
        y64, limit = exact[output.name], bound[output.name]
        assert honest[output.name].shape == y64.shape == output.extent(axes)
        assert within(honest[output.name], y64, limit)
        perturbed = honest[output.name].astype(np.float64)
        perturbed.flat[-1] = y64.flat[-1] + max(1.01 * limit.flat[-1], np.spacing(abs(y64.flat[-1])))
        assert not within(perturbed, y64, limit)


RELATIONS = [
    pytest.param(workload, relation, dict(shape.axes), id=f"{workload.name}-{relation.name}-{shape}")
    for workload in WORKLOADS.values()
    for relation in workload.relations
    for shape in workload.shapes["small"]
    if relation.steps
]


def claims_of(
    workload: Workload, relation: Relation, axes: Axes, kernel: Callable[[Arrays, Axes], dict[str, Array]]
) -> tuple[tuple[Claim, ...], int]:
    """What a relation says of `kernel`, and how many calls of it were outside the bound."""
    assert relation.steps is not None
    steps = relation.steps(drawn(workload.distributions[0], axes), axes, np.random.default_rng(3))
    outside = 0
    try:
        call = next(steps)
        while True:
            got = kernel(call.inputs, call.axes)
            exact, bound = judged(workload, call.inputs, call.axes)
            if call.judged:
                outside += not all(within(got[name], y64, bound[name]) for name, y64 in exact.items())
            call = steps.send(got)
    except StopIteration as ended:
        return ended.value, outside


@pytest.mark.parametrize(("workload", "relation", "axes"), RELATIONS)
def test_honest_float32_keeps_every_relation_and_repeats_it_from_its_seed(
    workload: Workload, relation: Relation, axes: Axes
) -> None:
    def honest(inputs: Arrays, at: Axes) -> dict[str, Array]:
        return workload.index_order_f32(inputs, at, workload.scalars)

    claims, outside = claims_of(workload, relation, axes, honest)
    again, _ = claims_of(workload, relation, axes, honest)
    assert outside == 0
    for claim, same in zip(claims, again, strict=True):
        assert np.all(np.abs(claim.got.astype(np.float64) - claim.want.astype(np.float64)) <= claim.allowed), claim.what
        assert np.array_equal(claim.got, same.got)


@pytest.mark.parametrize(("workload", "relation", "axes"), RELATIONS)
def test_a_relation_is_broken_by_a_kernel_that_adds_to_what_it_should_give(
    workload: Workload, relation: Relation, axes: Axes
) -> None:
    def off(inputs: Arrays, at: Axes) -> dict[str, Array]:
        honest = workload.index_order_f32(inputs, at, workload.scalars)
        return {name: (array + np.abs(array).max(initial=1e-6)).astype(np.float32) for name, array in honest.items()}

    claims, outside = claims_of(workload, relation, axes, off)
    broken = [np.any(np.abs(c.got.astype(np.float64) - c.want.astype(np.float64)) > c.allowed) for c in claims]
    assert outside or any(broken)


@pytest.mark.parametrize(("workload", "distribution", "axes"), CASES)
def test_a_draw_is_finite_float32_and_repeats_from_its_seed(
    workload: Workload, distribution: Distribution, axes: Axes
) -> None:
    first, again = drawn(distribution, axes), drawn(distribution, axes)
    assert set(first) == {buffer.name for buffer in workload.drawn}
    for buffer in workload.drawn:
        assert first[buffer.name].dtype == np.float32
        assert first[buffer.name].shape == buffer.extent(axes)
        assert np.isfinite(first[buffer.name]).all()
        assert first[buffer.name].tobytes() == again[buffer.name].tobytes()


@TABLE
def test_the_reference_is_deterministic(workload: Workload) -> None:
    axes = dict(workload.shapes["small"][0].axes)
    inputs = drawn(workload.distributions[0], axes)
    first = workload.reference(inputs, axes, workload.scalars)
    again = workload.reference(inputs, axes, workload.scalars)
    assert all(first[o.name].tobytes() == again[o.name].tobytes() for o in workload.outputs)


@TABLE
def test_nan_and_all_zeros_fail_on_normal_draws(workload: Workload) -> None:
    axes = dict(workload.shapes["small"][0].axes)
    exact, bound = judged(workload, drawn(workload.distributions[0], axes), axes)
    for output in workload.outputs:
        y64, limit = exact[output.name], bound[output.name]
        assert not within(np.zeros_like(y64), y64, limit)
        with_nan = y64.copy()
        with_nan.flat[0] = np.nan
        assert not within(with_nan, y64, limit)


@TABLE
def test_an_output_in_half_precision_is_of_another_error_class(workload: Workload) -> None:
    axes = dict(workload.shapes["small"][-1].axes)
    honest_errors, half_errors, floors = [], [], []
    for seed in range(16):
        inputs = drawn(workload.distributions[0], axes, seed)
        name = workload.outputs[0].name
        y64 = workload.reference(inputs, axes, workload.scalars)[name]
        honest = workload.index_order_f32(inputs, axes, workload.scalars)[name]
        honest_errors.append(np.ravel(honest.astype(np.float64) - y64))
        half_errors.append(np.ravel(y64.astype(np.float16).astype(np.float64) - y64))
        floors.append(np.ravel(half_ulp(y64)))
    assert rms(half_errors) > 4 * max(rms(honest_errors), rms(floors))


def rms(errors: list[F64]) -> float:
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


@TABLE
def test_smoke_sizes_are_legal_and_run_through_reference_and_bound(workload: Workload) -> None:
    for axes in workload.smoke_axes:
        assert all(axes[axis] >= least for axis, least in workload.axis_minimum.items())
        for distribution in workload.distributions:
            assert honest_is_refused(workload, distribution, axes) is None


@TABLE
def test_smoke_sizes_reach_every_axis_minimum_and_one_two_and_a_prime(workload: Workload) -> None:
    for axis, least in workload.axis_minimum.items():
        sizes = {axes[axis] for axes in workload.smoke_axes}
        assert {least, 1, 2} <= sizes
        assert sizes & {3, 5, 7, 31, 127, 257}


@TABLE
def test_exact_draws_are_exact_in_any_order(workload: Workload) -> None:
    if workload.exact is None:
        return
    scalars = workload.scalars_of(workload.exact.name)
    vectors = ({workload.axes[0]: 2**22 + 1},) if len(workload.axes) == 1 else ()
    for axes in (*workload.smoke_axes, *(dict(shape.axes) for shape in workload.shapes["small"]), *vectors):
        inputs = drawn(workload.exact, axes)
        magnitudes = {name: np.abs(x) for name, x in inputs.items()}
        sums = workload.reference(magnitudes, axes, scalars)  # no partial sum is larger in any order
        assert all(total.max(initial=0.0) < 2**24 for total in sums.values())
        whole = {name: x.astype(np.float64) for name, x in inputs.items()}
        assert all(np.array_equal(x, np.round(x)) and np.abs(x).max(initial=0) <= 8 for x in whole.values())
        exact = workload.reference(inputs, axes, scalars)
        honest = workload.index_order_f32(inputs, axes, scalars)
        assert all(np.array_equal(honest[o.name].astype(np.float64), exact[o.name]) for o in workload.outputs)


@TABLE
@pytest.mark.parametrize("size", ["small", "serving", "large"])
def test_every_shape_set_has_an_odd_and_a_decode_size_and_counts_its_work(workload: Workload, size: str) -> None:
    sets = {"small": workload.shapes["small"], "serving": workload.shapes["serving"], "large": workload.shapes["large"]}
    shapes = [dict(shape.axes) for shape in sets[size]]
    assert any(axes[workload.axes[-1]] % 2 == 1 for axes in shapes)
    assert any(axes[workload.axes[0]] == 1 or (len(workload.axes) == 1 and axes["N"] <= 65536) for axes in shapes)
    for axes in shapes:
        assert set(axes) == set(workload.axes)
        assert workload.flops(axes) > 0
        assert workload.bytes_read(axes) > 0
        assert workload.bytes_written(axes) > 0


@TABLE
def test_serving_shapes_fit_one_gibibyte(workload: Workload) -> None:
    assert sum(workload.bytes_moved(shape.axes) for shape in workload.shapes["serving"]) <= 1 << 30


@TABLE
def test_the_c_signature_is_inputs_outputs_axes_scalars(workload: Workload) -> None:
    order = [*(b.name for b in workload.inputs + workload.outputs), *workload.axes, *workload.scalars]
    signature = workload.signature()
    assert [part.split()[-1].lstrip("*").rstrip(")") for part in signature.split("(")[1].split(",")] == order


@TABLE
def test_each_workload_stands_under_its_own_name_with_unique_distributions(workload: Workload) -> None:
    assert WORKLOADS[workload.name] is workload
    names = [distribution.name for distribution in workload.distributions]
    assert len(names) == len(set(names))
    assert workload.relations
    assert any(distribution.zero_mean for distribution in workload.distributions)


@TABLE
def test_the_documentation_says_what_the_code_says(workload: Workload) -> None:
    page = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert f"| {workload.name} | `{workload.signature()}` | `{workload.formula}` |" in page
    bound = workload.bound_source.split(": ")[0].replace("|", r"\|")
    assert f"{bound} |" in page
    for shapes in workload.shapes.values():
        assert f"| {', '.join(map(str, shapes))} |" in page
    domain = page[page.index("## The domain") :]
    assert all(f"| {distribution.name} |" in domain for distribution in workload.distributions)


@TABLE
def test_a_goal_to_copy_parses_and_names_legal_shapes(workload: Workload) -> None:
    path = Path(__file__).parents[2] / "examples" / "goals" / f"{workload.name}_cpu.yaml"
    goal = Goal.model_validate_json(json.dumps(yaml.safe_load(path.read_text(encoding="utf-8"))))
    assert goal.workload == workload.name
    named = workload.shapes[goal.shapes] if isinstance(goal.shapes, str) else goal.shapes
    assert all(set(shape.axes) == set(workload.axes) for shape in named)
