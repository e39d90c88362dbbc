"""What every strategy in the table promises, and what the portfolio makes of them."""

from itertools import islice

import numpy as np
import pytest

from kernel_lab.spaces.space import Space
from schemas.goal import SpaceLimits
from services.evidence.brief import Brief
from services.proposer.portfolio import Proposed, propose
from services.proposer.strategies import STRATEGIES
from services.proposer.terrain import Terrain
from tests.search_spaces import LARGE, SMALL, brief, spaces, terrain, tried
from tests.search_story import goal

EVERY_STRATEGY = pytest.mark.parametrize("name", STRATEGIES)
EVERY_SPACE = pytest.mark.parametrize("space", [SMALL, LARGE], ids=["small", "large"])


def measured(place: Terrain, of: int = 12) -> Brief:
    """A brief with measured candidates on both islands."""
    points = place.points[:: max(1, len(place.points) // of)][:of]
    return brief([tried(place, genome, 1 + number / 20, number % 2) for number, genome in enumerate(points)])


@EVERY_STRATEGY
@EVERY_SPACE
def test_the_same_brief_and_seed_give_the_same_ideas(name: str, space: Space) -> None:
    def ideas() -> list[object]:
        place = terrain(space)
        rng = np.random.default_rng((7, 0))
        return list(islice(STRATEGIES[name](measured(place), place, 0, rng, 8), 40))

    assert ideas() == ideas()
    assert ideas()


@EVERY_STRATEGY
@EVERY_SPACE
def test_every_idea_is_a_valid_genome_within_the_limits(name: str, space: Space) -> None:
    place = terrain(space, SpaceLimits(include={"streaming": (True,)}, exclude={"variant": ("two_pass",)}))
    points = place.space.points(place.around, SpaceLimits())
    open_ground = terrain(space)
    history = brief([tried(open_ground, genome, 1.1) for genome in points[:6]])
    ideas = list(islice(STRATEGIES[name](history, place, 0, np.random.default_rng(3), 8), 200))
    for idea in ideas:
        assert place.space.is_valid(idea.genome, place.around)
        assert idea.genome["streaming"] is True
        assert idea.genome["variant"] == "one_pass"


@EVERY_STRATEGY
@EVERY_SPACE
def test_ideas_come_to_an_end(name: str, space: Space) -> None:
    place = terrain(space)
    ideas = STRATEGIES[name](measured(place), place, 0, np.random.default_rng(3), 4)
    assert sum(1 for _ in islice(ideas, 100_000)) < 100_000


@EVERY_STRATEGY
@EVERY_SPACE
def test_a_portfolio_of_one_strategy_fills_the_generation_with_fresh_kernels(name: str, space: Space) -> None:
    place = terrain(space)
    asked = measured(place)
    alone = goal(search={"strategies": (name,)})
    outcome = propose(brief(asked.tried, alone), spaces(space))
    assert isinstance(outcome, Proposed)
    fingerprints = [proposal.kernel.fingerprint for proposal in outcome.proposals]
    assert len(set(fingerprints)) == len(fingerprints) == 16
    assert not set(fingerprints) & asked.known


@EVERY_STRATEGY
def test_a_portfolio_of_one_strategy_starts_a_search(name: str) -> None:
    outcome = propose(brief(of=goal(search={"strategies": (name,)})), spaces(SMALL))
    assert isinstance(outcome, Proposed)
    assert len(outcome.proposals) == 16
