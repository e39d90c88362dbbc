"""Which strategies fill a generation, and when there is nothing left to propose."""

from collections import Counter
from uuid import UUID

from schemas.enums import Language
from schemas.work import Genome
from services.evidence.brief import Brief
from services.evidence.earlier_goals import Warm
from services.proposer.portfolio import Exhausted, Proposed, propose, shares
from tests.search_spaces import LARGE, SMALL, brief, spaces, terrain, tried
from tests.search_story import goal, kernel, task


def proposed(asked: Brief, large: bool = True) -> Proposed:
    outcome = propose(asked, spaces(LARGE if large else SMALL))
    assert isinstance(outcome, Proposed)
    return outcome


def strategies(outcome: Proposed) -> Counter[str]:
    return Counter(proposal.strategy.partition("/")[0] for proposal in outcome.proposals)


def warm(genome: Genome) -> Warm:
    proven = kernel("elsewhere", genome)
    return Warm(UUID(int=1), "g0", proven, "cpu_ffffffff", ({"T": 16, "H": 1024},), True, 1.3, 5)


def test_a_generation_is_split_over_islands() -> None:
    assert shares(7, 3) == (3, 2, 2)
    assert Counter(proposal.island for proposal in proposed(brief(size=15)).proposals) == {0: 8, 1: 7}


def test_the_same_brief_gives_the_same_generation() -> None:
    place = terrain(LARGE)
    asked = brief([tried(place, genome, 1.1) for genome in place.points[:300:20]])
    assert propose(asked, spaces(LARGE)) == propose(asked, spaces(LARGE))


def test_another_seed_gives_another_generation() -> None:
    assert proposed(brief(seed=1)) != proposed(brief(seed=2))


def test_a_small_space_is_enumerated_to_its_end() -> None:
    place = terrain(SMALL)
    done: list[Genome] = []
    for number in range(10):
        history = [tried(place, genome, None) for genome in done]
        outcome = propose(brief(history, generation=number), spaces(SMALL))
        if isinstance(outcome, Exhausted):
            assert "40 tried" in outcome.message
            break
        assert set(strategies(outcome)) == {"enumerate"}
        done += [proposal.kernel.genome for proposal in outcome.proposals]
    assert len(done) == len(place.points) == 40


def test_a_large_space_is_sampled_evenly_first() -> None:
    assert strategies(proposed(brief())) == {"latin_hypercube": 16}


def test_after_a_third_of_the_budget_genetic_search_takes_over() -> None:
    place = terrain(LARGE)
    history = [tried(place, genome, 1 + n / 100, n % 2) for n, genome in enumerate(place.points[:70])]
    assert strategies(proposed(brief(history))) == {"genetic": 12, "polish": 4}


def test_the_last_generation_is_polish() -> None:
    place = terrain(LARGE)
    history = [tried(place, genome, 1 + n / 100, n % 2) for n, genome in enumerate(place.points[:70])]
    assert strategies(proposed(brief(history, stale_generations=3))) == {"polish": 16}


def test_proven_kernels_of_earlier_goals_are_proposed_again_first() -> None:
    genome = terrain(LARGE).points[123]
    outcome = proposed(brief(warm=(warm(genome),)))
    first = outcome.proposals[0]
    assert (first.strategy, first.kernel.genome, first.parents) == ("warm_start", genome, (UUID(int=1),))
    assert strategies(outcome)["warm_start"] == 1


def test_a_proven_kernel_that_is_invalid_here_is_left_out() -> None:
    genome = terrain(LARGE).points[0] | {"threads": 4}
    assert strategies(proposed(brief(warm=(warm(genome),))))["warm_start"] == 0


def test_only_the_strategies_that_a_goal_selects_are_used() -> None:
    place = terrain(LARGE)
    history = [tried(place, place.points[5], 1.1)]
    asked = brief(history, goal(search={"strategies": ("genetic",)}))
    assert strategies(proposed(asked)) == {"genetic": 16}


def test_what_is_known_is_never_proposed_again() -> None:
    place = terrain(SMALL)
    known = frozenset(place.kernel(genome).fingerprint for genome in place.points[:30])
    outcome = proposed(brief(known=known), large=False)
    assert len(outcome.proposals) == 10
    assert not known & {proposal.kernel.fingerprint for proposal in outcome.proposals}


def test_limits_narrow_every_proposal() -> None:
    asked = brief(of=goal(search={"space": {"include": {"variant": ("two_pass",)}, "exclude": {"unroll": (1, 2)}}}))
    genomes = [proposal.kernel.genome for proposal in proposed(asked).proposals]
    assert all(genome["variant"] == "two_pass" and genome["unroll"] not in (1, 2) for genome in genomes)


def test_a_goal_with_a_misspelt_tunable_is_told_so() -> None:
    asked = brief(of=goal(search={"space": {"include": {"unrol": (1,)}}}))
    assert propose(asked, spaces(LARGE)) == Exhausted("search.space: no tunable unrol in any space of rms_norm")


def test_a_goal_with_an_unknown_strategy_is_told_which_there_are() -> None:
    outcome = propose(brief(of=goal(search={"strategies": ("astrology",)})), spaces(LARGE))
    assert isinstance(outcome, Exhausted)
    assert "no strategy astrology; there are enumerate, latin_hypercube, genetic, polish" in outcome.message


def test_a_language_without_a_space_is_said_so() -> None:
    outcome = propose(brief(task=task(languages=(Language.NULL,))), spaces(LARGE))
    assert outcome == Exhausted("no design space for rms_norm in null")


def test_limits_that_leave_nothing_exhaust_the_search() -> None:
    asked = brief(of=goal(search={"space": {"include": {"variant": ()}}}))
    assert isinstance(propose(asked, spaces(LARGE)), Exhausted)
