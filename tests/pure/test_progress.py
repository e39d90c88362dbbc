"""What a watcher sees of the search's time."""

from datetime import timedelta

from schemas.enums import SteerAction
from schemas.events import GenerationDue
from services.console.progress import Progress
from services.console.watch import table
from tests.pure.floor import Floor


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
