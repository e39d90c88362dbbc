"""Lessons: effects with intervals, failures by reason, and news only when there is news."""

import math
from uuid import UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from schemas.enums import Reason
from schemas.ids import NAMESPACE
from schemas.lesson import Lesson
from services.evidence.lessons import Condition, News, Tally, Topic, Trial, effect_of, news, statements_met, topic_of
from tests.pure.floor import MACHINE, Floor

TASK = Floor().with_route().accept().state.goals["g"].task
assert TASK is not None


def trial(number: int, streaming: bool, ratio: float | None = None, reason: Reason | None = None) -> Trial:
    return Trial(uuid5(NAMESPACE, str(number)), {"streaming": streaming, "variant": "plain"}, ratio, reason)


def tell(tally: Tally, known: dict[Topic, Lesson] | None = None) -> dict[Topic, News]:
    assert TASK is not None
    return {new.topic: new for new in news(tally, known or {}, TASK)}


STREAMING = Condition("streaming", "true")
FASTER = Topic(STREAMING, about_failures=False)


def test_an_effect_is_the_geometric_mean_ratio_with_welchs_interval() -> None:
    with_, without = [1.3, 1.35, 1.28, 1.4], [1.0, 1.02, 0.97]
    tally = Tally().including([trial(n, True, ratio) for n, ratio in enumerate(with_)])
    tally = tally.including([trial(10 + n, False, ratio) for n, ratio in enumerate(without)])
    effect = effect_of(tally.records[STREAMING], tally)
    assert effect is not None
    expected = stats.ttest_ind([math.log(r) for r in with_], [math.log(r) for r in without], equal_var=False)
    interval = expected.confidence_interval(0.99)
    assert math.isclose(effect.low, math.exp(interval.low), rel_tol=1e-9)
    assert math.isclose(effect.high, math.exp(interval.high), rel_tol=1e-9)
    told = tell(tally)[FASTER].lesson
    assert told.condition == {"machine": MACHINE.route, "gene": "streaming", "value": "true"}
    assert "1.3" in told.statement


def test_two_on_a_side_are_too_few() -> None:
    tally = Tally().including([trial(n, n < 2, 2.0 if n < 2 else 1.0) for n in range(8)])
    assert effect_of(tally.records[STREAMING], tally) is None


def test_a_gene_that_every_candidate_has_teaches_nothing() -> None:
    tally = Tally().including([trial(n, True, 1.0 + n / 10) for n in range(9)])
    assert tell(tally) == {}


def test_noise_alone_teaches_nothing() -> None:
    tally = Tally().including([trial(n, n % 2 == 0, 1.0 + (n * 7 % 5) / 100) for n in range(40)])
    assert tell(tally) == {}


def test_a_value_that_loses_most_of_its_candidates_is_a_failure_lesson() -> None:
    lost = [trial(n, True, reason=Reason.OUT_OF_BOUND) for n in range(3)]
    fine = [trial(10 + n, False, 1.0) for n in range(5)]
    told = tell(Tally().including([*lost, *fine]))[Topic(STREAMING, about_failures=True)].lesson
    assert told.effect is None
    assert told.failures == {"out_of_bound": 3}
    assert "3 of 3" in told.statement


def test_abandoned_candidates_are_nobodys_fault() -> None:
    assert Tally().including([trial(n, True) for n in range(9)]) == Tally()


def test_an_effect_that_fades_is_superseded() -> None:
    strong = Tally().including([trial(n, n % 2 == 0, 1.5 if n % 2 == 0 else 1.0) for n in range(8)])
    known = {topic: new.lesson for topic, new in tell(strong).items()}
    faded = strong.including([trial(100 + n, n % 2 == 0, 1.0 if n % 2 == 0 else 1.5) for n in range(8)])
    assert "no longer" in tell(faded, known)[FASTER].lesson.statement


def test_a_known_lesson_is_news_again_only_when_it_moves_or_its_evidence_doubles() -> None:
    base = Tally().including([trial(n, n % 2 == 0, (1.5 if n % 2 == 0 else 1.0) + n / 1e4) for n in range(8)])
    known = {topic: new.lesson for topic, new in tell(base).items()}
    assert tell(base, known) == {}
    more = base.including([trial(50 + n, n % 2 == 0, (1.5 if n % 2 == 0 else 1.0) + n / 1e4) for n in range(8)])
    assert FASTER in tell(more, known)


def test_evidence_names_at_most_64_candidates() -> None:
    tally = Tally().including([trial(n, n % 2 == 0, (1.5 if n % 2 == 0 else 1.0) + n / 1e5) for n in range(400)])
    assert len(tell(tally)[FASTER].evidence) == 64
    assert isinstance(tell(tally)[FASTER].evidence[0], UUID)


def test_a_champion_cites_the_effects_its_genome_meets_and_no_failures() -> None:
    tally = Tally().including([trial(n, n % 2 == 0, (1.5 if n % 2 == 0 else 1.0) + n / 1e5) for n in range(8)])
    tally = tally.including([trial(100 + n, True, reason=Reason.CRASHED) for n in range(9)])
    lessons = [new.lesson for new in tell(tally).values()]
    assert any(topic_of(lesson).about_failures for lesson in lessons)
    met = statements_met(lessons, {"streaming": True, "variant": "plain"})
    assert len(met) == 1
    assert met[0].startswith("streaming=true")


def test_absurd_ratios_still_give_a_finite_interval() -> None:
    tally = Tally().including([trial(n, n < 3, 1e300 if n % 2 else 1e-300) for n in range(6)])
    effect = effect_of(tally.records[STREAMING], tally)
    assert effect is not None
    assert math.isfinite(effect.high)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 10.0)), max_size=40), st.integers(0, 40))
def test_counting_in_two_parts_equals_counting_at_once(drawn: list[tuple[bool, float]], cut: int) -> None:
    trials = [trial(n, streaming, ratio) for n, (streaming, ratio) in enumerate(drawn)]
    assert Tally().including(trials[:cut]).including(trials[cut:]) == Tally().including(trials)
