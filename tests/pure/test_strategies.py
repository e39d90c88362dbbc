"""What each strategy is for."""

from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.spaces.installed import merged
from kernel_lab.spaces.null import null_space
from kernel_lab.spaces.space import Space
from schemas.enums import Language
from services.evidence.search_history import Credit
from services.proposer.strategies import STRATEGIES
from services.proposer.strategies.bandit import Bandit
from services.proposer.strategies.enumeration import spread
from services.proposer.strategies.latin_hypercube import hypercube
from services.proposer.terrain import Terrain
from tests.search_spaces import LARGE, SMALL, brief, terrain, tried


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_enumeration_reaches_every_point_once() -> None:
    place = terrain(SMALL)
    ideas = [idea.genome for idea in STRATEGIES["enumerate"](brief(), place, 1, rng(), 8)]
    assert len(ideas) == len(place.points)
    assert all(genome in ideas for genome in place.points)


def test_islands_begin_to_enumerate_at_different_points() -> None:
    place = terrain(SMALL)
    half = len(place.points) // 2
    first, second = (
        [idea.genome for idea in islice(STRATEGIES["enumerate"](brief(), place, island, rng(), 8), half)]
        for island in (0, 1)
    )
    assert not any(genome in second for genome in first)


@given(st.integers(1, 400), st.integers(0, 8))
def test_every_beginning_of_the_spread_order_leaves_no_large_gap(size: int, power: int) -> None:
    assert sorted(spread(size)) == list(range(size))
    prefix = sorted(spread(size)[: 2**power])
    covered = 1 << max(1, (size - 1).bit_length())
    gaps = [after - before for before, after in zip([0, *prefix], [*prefix, size], strict=True)]
    assert max(gaps) <= max(1, 2 * covered // 2**power)


def test_a_space_too_large_to_list_is_not_enumerated() -> None:
    place = Terrain(null_space("rms_norm"), terrain(SMALL).around, terrain(SMALL).limits, Language.NULL, "null")
    assert list(STRATEGIES["enumerate"](brief(), place, 0, rng(), 8)) == []


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_a_hypercube_takes_every_level_of_a_tunable_evenly(count: int, seed: int) -> None:
    place = terrain(LARGE)
    variant = place.variants[0]
    genomes = hypercube(place, variant, rng(seed), count)
    for tunable in variant.tunables:
        levels = Counter(genome[tunable.name] for genome in genomes)
        assert max(levels.values()) <= count // len(tunable.values) + 2


def test_a_hypercube_spreads_over_the_variants() -> None:
    place = terrain(LARGE)
    ideas = islice(STRATEGIES["latin_hypercube"](brief(), place, 0, rng(), 12), 12)
    assert Counter(idea.genome["variant"] for idea in ideas) == {"one_pass": 6, "two_pass": 6}


def test_polish_looks_at_every_neighbour_of_the_best_before_anything_else() -> None:
    place = terrain(LARGE)
    best, other = place.points[700], place.points[3]
    history = brief([tried(place, best, 1.5), tried(place, other, 1.2)])
    around_best = place.neighbours(best)
    ideas = list(islice(STRATEGIES["polish"](history, place, 0, rng(), 8), len(around_best)))
    assert all(idea.genome in around_best for idea in ideas)
    assert {idea.parents for idea in ideas} == {(history.tried[0].id,)}


def test_an_island_polishes_its_own_best_first_and_the_best_of_all_next() -> None:
    place = terrain(LARGE)
    mine, theirs = tried(place, place.points[5], 1.1, island=0), tried(place, place.points[900], 1.5, island=1)
    ideas = STRATEGIES["polish"](brief([mine, theirs]), place, 0, rng(), 8)
    assert list(dict.fromkeys(idea.parents for idea in ideas)) == [(mine.id,), (theirs.id,)]


def test_children_name_their_parents() -> None:
    place = terrain(LARGE)
    parents = [tried(place, place.points[number * 90], 1 + number / 10) for number in range(6)]
    children = list(islice(STRATEGIES["genetic"](brief(parents), place, 0, rng(), 32), 64))
    known = {parent.id for parent in parents}
    assert {child.operator for child in children} == {"mutation", "crossover", "leap"}
    assert all(bool(child.parents) == (child.operator != "leap") for child in children)
    assert all(set(child.parents) <= known for child in children)


def test_a_crossover_takes_every_gene_from_one_of_its_parents() -> None:
    place = terrain(LARGE)
    parents = [tried(place, place.points[number * 90], 1 + number / 10) for number in range(6)]
    by_id = {parent.id: parent.genome for parent in parents}
    children = islice(STRATEGIES["genetic"](brief(parents), place, 0, rng(), 32), 200)
    crossed = [child for child in children if child.operator == "crossover"]
    assert crossed
    for child in crossed:
        for name, gene in child.genome.items():
            assert gene in [by_id[parent][name] for parent in child.parents]


def test_an_island_without_measurements_borrows_parents_from_the_archive() -> None:
    place = terrain(LARGE)
    migrant = tried(place, place.points[50], 1.3, island=1)
    children = list(islice(STRATEGIES["genetic"](brief([migrant]), place, 0, rng(), 8), 16))
    assert any(child.parents == (migrant.id,) for child in children)


def test_the_bandit_prefers_the_operator_that_improved_lately() -> None:
    lately = [Credit("old", True)] * 3 + [Credit("old", False)] * 20 + [Credit("new", True)] * 3
    assert Bandit(["old", "new"], lately).choose() == "new"


def test_the_bandit_tries_every_operator_before_it_trusts_one() -> None:
    bandit = Bandit(["a", "b", "c"], [Credit("a", True)] * 5)
    assert {bandit.choose() for _ in range(2)} == {"b", "c"}


def test_an_operator_without_reward_is_still_tried_now_and_then() -> None:
    bandit = Bandit(["good", "idle"], [Credit("good", True)] * 50 + [Credit("idle", False)] * 2)
    picks = Counter(bandit.choose() for _ in range(200))
    assert picks["good"] > picks["idle"] > 0


def test_a_space_of_your_own_adds_its_variants_to_the_known_ones() -> None:
    mine = Space(SMALL.workload, SMALL.language, {"mine": replace(SMALL.variants["one_pass"], name="mine")})
    key = (SMALL.workload, SMALL.language)
    assert set(merged([{key: SMALL}, {key: mine}])[key].variants) == {"one_pass", "two_pass", "mine"}
