"""The fold of one goal's search: what counts, what is late, who is best."""

from schemas.enums import Phase, Reason
from schemas.events import GoalTimedOut
from services.evidence.search_history import SearchHistory, cell_of
from tests.search_story import START, Story, kernel


def folded(story: Story) -> SearchHistory:
    history = SearchHistory()
    for recorded in story.log:
        history.absorb(recorded)
    return history


def test_a_proposed_candidate_is_known_until_it_is_abandoned() -> None:
    story = Story()
    kept, lost = story.proposed("kept"), story.proposed("lost")
    assert folded(story).known == {"kept", "lost"}
    story.abandoned(lost)
    story.rejected(kept)
    assert folded(story).known == {"kept"}


def test_a_fingerprint_stays_known_while_one_of_its_proposals_stands() -> None:
    story = Story()
    first, _second = story.proposed("same"), story.proposed("same")
    story.abandoned(first)
    assert folded(story).known == {"same"}


def test_only_the_first_terminal_fact_of_a_candidate_counts() -> None:
    story = Story()
    lost = story.proposed("lost")
    story.abandoned(lost)
    story.measured(lost, 9.0)
    history = folded(story)
    assert history.best is None
    assert history.tried[0].abandoned
    assert history.nominees() == ()


def test_a_measurement_after_the_search_timed_out_is_late() -> None:
    story = Story()
    slow = story.proposed("slow")
    story.say(GoalTimedOut(goal_id="g1", phase=Phase.SEARCH, deadline=START))
    story.measured(slow, 2.0)
    assert folded(story).best is None


def test_elites_are_the_best_measured_of_their_own_island_best_first() -> None:
    story = Story()
    ids = [story.proposed(f"k{number}", island=number % 2) for number in range(6)]
    for id_, ratio in zip(ids, (1.0, 1.1, 1.3, 1.2, 0.9, 1.4), strict=True):
        story.measured(id_, ratio)
    history = folded(story)
    assert [tried.search_ratio for tried in history.elites(0)] == [1.3, 1.0, 0.9]
    assert [tried.search_ratio for tried in history.elites(1)] == [1.4, 1.2, 1.1]
    assert history.best is not None
    assert history.best.fingerprint == "k5"


def test_a_failed_measurement_is_no_number() -> None:
    story = Story()
    story.measured(story.proposed("noisy"), None)
    history = folded(story)
    assert history.best is None
    assert history.archive == {}
    assert history.nominees() == ()


def test_the_archive_keeps_the_best_of_each_way_to_use_the_hardware() -> None:
    story = Story()
    for fingerprint, width, ratio in (("a", 256, 1.1), ("b", 256, 1.2), ("c", 512, 1.0)):
        story.measured(story.proposed(kernel(fingerprint, {"variant": "v", "vector_bits": width, "unroll": 4})), ratio)
    held = folded(story).archive
    assert {cell.vector_bits: tried.fingerprint for cell, tried in held.items()} == {256: "b", 512: "c"}


def test_a_cell_is_read_from_width_footprint_and_threads() -> None:
    cell = cell_of(kernel("k", {"variant": "v", "vector_bits": 512, "unroll": 4, "tile": 64, "streaming": True}))
    assert (cell.vector_bits, cell.footprint_log2, cell.threads) == (512, 8, 1)


def test_credit_tells_which_proposals_improved_their_island() -> None:
    story = Story()
    first = story.proposed("a", strategy="genetic/mutation")
    second = story.proposed("b", strategy="genetic/crossover")
    third = story.proposed("c", strategy="genetic/leap")
    story.measured(first, 1.0)
    story.measured(second, 1.2)
    story.rejected(third, Reason.CRASHED)
    credit = folded(story).credit
    assert [(one.strategy, one.improved) for one in credit] == [
        ("genetic/mutation", True),
        ("genetic/crossover", True),
        ("genetic/leap", False),
    ]


def test_abandoned_work_is_nobodys_fault() -> None:
    story = Story()
    story.abandoned(story.proposed("a"))
    assert folded(story).credit == ()


def test_patience_counts_closed_generations_without_a_better_ratio() -> None:
    story = Story()
    story.measured(story.proposed("a"), 1.1)
    story.generation_closed(0)
    assert folded(story).stale_generations == 0
    story.measured(story.proposed("b"), 1.05)
    story.generation_closed(1)
    story.generation_closed(2)
    assert folded(story).stale_generations == 2
    story.measured(story.proposed("c"), 1.2)
    story.generation_closed(3)
    assert folded(story).stale_generations == 0


def test_nominees_leave_out_what_the_screen_called_clearly_slower() -> None:
    story = Story()
    story.measured(story.proposed("slow"), 0.5, worth_more=False)
    story.measured(story.proposed("fast"), 1.5)
    assert [tried.fingerprint for tried in folded(story).nominees()] == ["fast"]


def test_a_longer_look_replaces_the_screen_everywhere() -> None:
    story = Story()
    lucky, steady = story.proposed("lucky"), story.proposed("steady")
    story.measured(lucky, 1.5)
    story.measured(steady, 1.3)
    story.remeasured(lucky, 1.1)
    story.remeasured(steady, 1.29)
    history = folded(story)
    assert [tried.search_ratio for tried in history.elites(0)] == [1.29, 1.1]
    assert history.best is not None
    assert history.best.fingerprint == "steady"
    assert {tried.fingerprint for tried in history.archive.values()} == {"steady"}
    assert [tried.fingerprint for tried in history.nominees()] == ["steady", "lucky"]


def test_what_was_measured_longer_is_nominated_before_a_lucky_screen() -> None:
    story = Story()
    sure, lucky = story.proposed("sure"), story.proposed("lucky")
    story.measured(sure, 1.2)
    story.remeasured(sure, 1.2)
    story.measured(lucky, 1.4)
    assert [tried.fingerprint for tried in folded(story).nominees()] == ["sure", "lucky"]


def test_who_loses_a_shape_stands_behind_who_loses_none_everywhere_and_keeps_its_ratio() -> None:
    story = Story()
    lopsided, even = story.proposed("lopsided"), story.proposed("even")
    for id_ in (lopsided, even):
        story.measured(id_, 1.3)
    story.remeasured(lopsided, 1.4, worst=0.7)
    story.remeasured(even, 1.2, worst=1.0)
    history = folded(story)
    assert [tried.fingerprint for tried in history.nominees()] == ["even", "lopsided"]
    assert [tried.fingerprint for tried in history.elites(0)] == ["even", "lopsided"]
    assert {tried.fingerprint for tried in history.archive.values()} == {"even"}
    assert history.best is not None
    assert (history.best.fingerprint, history.best.search_ratio) == ("even", 1.2)
    assert [tried.search_ratio for tried in history.tried] == [1.4, 1.2]


def test_a_longer_look_without_a_number_changes_nothing() -> None:
    story = Story()
    noisy = story.proposed("noisy")
    story.measured(noisy, 1.2)
    story.remeasured(noisy, None)
    (tried,) = folded(story).tried
    assert (tried.search_ratio, tried.looks) == (1.2, 1)


def test_a_candidate_refused_on_its_longer_look_is_nobody_s_parent_and_no_nominee() -> None:
    story = Story()
    bad, good = story.proposed("bad"), story.proposed("good")
    story.measured(bad, 1.9)
    story.measured(good, 1.1)
    story.refused(bad)
    history = folded(story)
    assert [tried.fingerprint for tried in history.elites(0)] == ["good"]
    assert {tried.fingerprint for tried in history.archive.values()} == {"good"}
    assert history.best is not None
    assert history.best.fingerprint == "good"
    assert [tried.fingerprint for tried in history.nominees()] == ["good"]
    assert history.known == {"bad", "good"}, "never proposed again"
