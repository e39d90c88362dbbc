"""What a watcher sees of the search's time."""

from datetime import timedelta

from schemas.enums import AbandonReason, SteerAction
from schemas.events import GenerationDue
from schemas.measurement import Comparison
from services.console.progress import Progress
from services.console.report import report_goal
from services.console.watch import table
from tests.pure.floor import Floor, comparison


def progress_of(floor: Floor) -> Progress:
    progress = Progress("g")
    for recorded in floor.log:
        if recorded.fact.about_goal == "g":
            progress.add(recorded)
    return progress


def test_the_search_clock_stands_still_while_the_goal_is_paused_and_after_the_search() -> None:
    floor = Floor().accept()
    assert progress_of(floor).search_time_s(floor.now + timedelta(hours=1)) == 0.0, "no machine yet"
    floor.with_route()
    floor.choose_baseline()
    floor.wait(10)
    floor.steer(SteerAction.PAUSE)
    floor.wait(30)
    assert progress_of(floor).search_time_s(floor.now) == 10.0
    floor.steer(SteerAction.RESUME)
    floor.wait(5)
    assert progress_of(floor).search_time_s(floor.now) == 15.0
    while floor.unanswered(GenerationDue):
        floor.generation()
    assert progress_of(floor).search_time_s(floor.now + timedelta(hours=1)) == 15.0


def test_the_live_table_shows_the_time_and_budget_left() -> None:
    floor = Floor().with_route().accept()
    floor.choose_baseline()
    floor.propose()
    progress = progress_of(floor)
    assert progress.goal is not None
    rows = table(progress)
    cells = dict(zip(*(list(column.cells) for column in rows.columns), strict=True))
    assert cells["proposed"] == f"4, {progress.goal.budget.candidates - 4} left"
    assert str(cells["search time"]).endswith(" left")


def test_the_watch_and_the_report_tell_of_the_candidate_that_leads_the_search() -> None:
    """It is not the one with the largest ratio, where that one loses a shape."""

    def looked_at(number: int, round_: int) -> Comparison | AbandonReason:
        if round_ > 1:
            return AbandonReason.WORKER_LOST
        return comparison(1.4, worst=0.7) if number == 3 else comparison(1.2)

    floor = Floor(second_fate=looked_at).with_route().accept()
    floor.choose_baseline()
    floor.generation()
    leader = floor.state.goals["g"].leader
    report = report_goal("g", floor.log)
    assert leader is not None
    assert report.best_search is not None
    assert report.best_search.ratio is not None
    assert leader.search_ratio == 1.2
    assert progress_of(floor).best_search_ratio == 1.2
    assert report.best_search.ratio.estimate == 1.2
