"""How a space is walked, limited and rendered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.spaces import SPACES
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from schemas.goal import SpaceLimits
from schemas.work import Genome

AROUND = Surroundings(256, 4, deterministic=False, forbid=())
ANYTHING = SpaceLimits()
A = Tunable("a", (1, 2, 3, 4), "a number")
B = Tunable("b", (False, True), "a switch")
C = Tunable("c", ("x", "y", "z"), "a word")


def _render(genome: Genome, _around: Surroundings) -> Rendered:
    return Rendered(str(sorted(genome.items(), key=str)), (), 1)


def made(*constraints: Constraint, name: str = "one", tunables: tuple[Tunable, ...] = (A, B, C)) -> Variant:
    return Variant(name, name, tunables, all_hold(constraints), _render, none_broken(constraints))


def space_of(*variants: Variant) -> Space:
    return Space("rms_norm", "c", {variant.name: variant for variant in variants})


def test_without_constraints_every_combination_is_a_point_in_a_fixed_order() -> None:
    points = space_of(made()).points(AROUND, ANYTHING)
    assert len(points) == 4 * 2 * 3
    assert points[0] == {"variant": "one", "a": 1, "b": False, "c": "x"}
    assert points[1] == {"variant": "one", "a": 1, "b": False, "c": "y"}
    assert points == space_of(made()).points(AROUND, ANYTHING)


def test_a_constraint_is_asked_before_later_tunables_are_set() -> None:
    seen: list[Genome] = []

    def small(genome: Genome, _around: Surroundings) -> bool:
        seen.append(dict(genome))
        return int(genome["a"]) < 2

    points = space_of(made(Constraint(("a",), small, "small"))).points(AROUND, ANYTHING)
    assert {point["a"] for point in points} == {1}
    assert all(genome["a"] == 1 for genome in seen if "b" in genome)


def test_propagation_gives_the_same_points_as_enumerate_and_filter() -> None:
    even_when_on = Constraint(("a", "b"), lambda g, _: g["b"] is False or int(g["a"]) % 2 == 0, "even when on")
    space = space_of(made(even_when_on))
    filtered = [p for p in space_of(made()).points(AROUND, ANYTHING) if even_when_on.holds(p, AROUND)]
    assert list(space.points(AROUND, ANYTHING)) == filtered


def test_limits_include_and_exclude_values_and_tell_true_from_one() -> None:
    space = space_of(made())
    included = space.points(AROUND, SpaceLimits(include={"b": (True,)}, exclude={"c": ("x", "y")}))
    assert {(p["b"], p["c"]) for p in included} == {(True, "z")}
    assert not space.points(AROUND, SpaceLimits(include={"b": (1,)}))


def test_limits_may_name_variants() -> None:
    space = space_of(made(), made(name="two"))
    assert {p["variant"] for p in space.points(AROUND, SpaceLimits(exclude={"variant": ("one",)}))} == {"two"}


def test_a_neighbour_moves_one_step_or_changes_the_variant() -> None:
    space = space_of(made(), made(name="two", tunables=(A, C)))
    genome: Genome = {"variant": "one", "a": 2, "b": False, "c": "x"}
    assert space.neighbours(genome, AROUND, ANYTHING) == (
        {"variant": "one", "a": 1, "b": False, "c": "x"},
        {"variant": "one", "a": 3, "b": False, "c": "x"},
        {"variant": "one", "a": 2, "b": True, "c": "x"},
        {"variant": "one", "a": 2, "b": False, "c": "y"},
        {"variant": "two", "a": 2, "c": "x"},
    )


def test_a_step_that_breaks_a_constraint_moves_the_others_as_little_as_it_must() -> None:
    high_when_on = Constraint(("a", "b"), lambda g, _: g["b"] is False or int(g["a"]) >= 3, "high when on")
    near = space_of(made(high_when_on)).neighbours({"variant": "one", "a": 1, "b": False, "c": "x"}, AROUND, ANYTHING)
    assert {"variant": "one", "a": 3, "b": True, "c": "x"} in near


def test_neighbours_stay_within_the_limits() -> None:
    limits = SpaceLimits(include={"a": (2, 3)})
    near = space_of(made()).neighbours({"variant": "one", "a": 2, "b": False, "c": "x"}, AROUND, limits)
    assert all(other["a"] in (2, 3) for other in near)


@pytest.mark.parametrize(
    "genome",
    [
        {},
        {"variant": "none", "a": 1, "b": False, "c": "x"},
        {"variant": "one", "a": 9, "b": False, "c": "x"},
        {"variant": "one", "a": True, "b": False, "c": "x"},
        {"variant": "one", "a": 1, "b": False},
        {"variant": "one", "a": 1, "b": False, "c": "x", "d": 0},
    ],
)
def test_an_invalid_genome_is_not_rendered(genome: Genome) -> None:
    with pytest.raises(ValueError, match="not a valid genome"):
        space_of(made()).render(genome, AROUND)


def test_a_genome_of_a_larger_machine_is_not_rendered_on_a_smaller_one() -> None:
    space = SPACES["rms_norm", "c"]
    large = Surroundings(512, 2, deterministic=False, forbid=())
    genome = next(p for p in space.walk(large, ANYTHING) if p["vector_bits"] == 512)
    with pytest.raises(ValueError, match="not a valid genome"):
        space.render(genome, Surroundings(256, 2, deterministic=False, forbid=()))


@given(st.sampled_from(["rms_norm", "softmax", "reduce_sum"]), st.integers(0, 2**32))
def test_a_genome_is_a_neighbour_of_its_unforced_neighbours(workload: str, seed: int) -> None:
    import numpy as np

    space = SPACES[workload, "c"]
    genome = space.sample(np.random.default_rng(seed), AROUND, ANYTHING)
    assert genome is not None
    for other in space.neighbours(genome, AROUND, ANYTHING):
        moved = [name for name in genome if name in other and genome[name] != other[name]]
        if len(moved) == 1 and moved != ["variant"] and set(genome) == set(other):
            assert genome in space.neighbours(other, AROUND, ANYTHING)
