"""A goal's report: what it says, and that no ratio is ever said without what it means."""

import json
import re
from typing import Any
from uuid import UUID

import pytest

from schemas.enums import EndedBy, Outcome, RatioKind, Reason, Rung
from schemas.events import (
    BaselineChosen,
    FinalistRejected,
    GoalCompleted,
    LessonRecorded,
    MachineObserved,
    RaceFinished,
)
from schemas.faults import Misconfigured
from schemas.lesson import Lesson
from schemas.measurement import (
    BaselineRace,
    Comparison,
    Contender,
    Entrant,
    Interval,
    MachineProfile,
    Race,
    RoofPoint,
    ShapeResult,
)
from schemas.work import Baseline
from services.console.progress import Progress
from services.console.render import LESSONS_SHOWN, interval_text, report_text, time_text
from services.console.report import report_goal, source_change
from services.console.watch import table
from tests.search_story import MACHINE, Story, build, comparison, goal, kernel

NAIVE = "void rms_norm(void) {\n    slow();\n}\n"
FAST = "void rms_norm(void) {\n    fast();\n}\n"
AXES = {"T": 16, "H": 1024}
PLACE = f"{MACHINE.route}/host"


def hold_out(ratio: float) -> Comparison:
    row = ShapeResult(
        axes=AXES, weight=1.0, baseline="c_naive_o3", baseline_ns=2.0e6, candidate_ns=1.6e6, ratio=1.25, roof_ns=1.2e6
    )
    return comparison(ratio, RatioKind.HOLD_OUT, shapes=(row,), machine=PLACE)


def profile() -> MachineProfile:
    return MachineProfile(
        host="host",
        machine=MACHINE,
        compiler="gcc 12",
        isolation="bwrap",
        governor="unknown",
        smt="on",
        transparent_huge_pages="madvise",
        steal="0.10 %",
        timer_resolution_ns=20.0,
        caches=(),
        memory_bytes=1 << 34,
        fma_gflops={"f32": 200.0},
        copy_gbps={"read": 27.0},
        noise_floor=0.004,
        fit=True,
    )


def lesson(statement: str, gene: str, effect: Interval | None) -> LessonRecorded:
    said = Lesson(
        workload="rms_norm",
        condition={"machine": MACHINE.route, "gene": gene, "value": "true"},
        statement=statement,
        effect=effect,
        count=9,
        failures={} if effect else {"out_of_bound": 3},
    )
    return LessonRecorded(goal_id="g1", generation=0, lesson=said, evidence=())


def told(outcome: Outcome = Outcome.CHAMPION) -> Story:
    """A goal that found a champion, rejected two candidates and one finalist."""
    story = Story()
    story.say(MachineObserved(profile=profile()))
    story.accepted(goal(name="the norm"))
    naive = build(kernel("naive", source=NAIVE))
    race = BaselineRace(
        contenders=(
            Contender(name="torch", description="torch", status="absent", message="torch is not installed"),
            Contender(name="numpy", description="numpy", status="screened", median_ns=(5.0e6,)),
            Contender(name="c_naive_o3", description="plain C", status="raced", median_ns=(2.0e6,)),
        ),
        strongest=(Baseline(name="c_naive_o3", axes=AXES, median_ns=2.0e6, artifact=naive),),
        roofs=(RoofPoint(axes=AXES, bytes_moved=135168, best_ns=1.2e6, how="streaming/2"),),
        noise_floor=0.004,
        machine=PLACE,
    )
    story.say(BaselineChosen(goal_id="g1", attempt=0, race=race))
    fast = story.proposed(kernel("fast", {"variant": "two_pass", "streaming": True}, FAST), strategy="polish")
    story.measured(fast, 1.30)
    wrong = story.proposed("wrong")
    story.rejected(wrong, Reason.OUT_OF_BOUND)
    story.rejected(story.proposed("also wrong"), Reason.OUT_OF_BOUND)
    story.abandoned(story.proposed("lost"))
    story.say(
        lesson("streaming=true is 1.20× as fast", "streaming", Interval(estimate=1.2, low=1.1, high=1.3, level=0.99))
    )
    story.say(lesson("tile=true loses 3 of 3", "tile", None))
    story.generation_closed()
    story.proven(fast, 1.30)
    if outcome is Outcome.CHAMPION:
        entrant = Entrant(candidate_id=fast, comparison=hold_out(1.25), search_ratio=1.30)
        finished = Race(
            entrants=(entrant,),
            a_a=hold_out(1.001),
            seeds={},
            hold_out_gap_s=5.0,
            machine=PLACE,
            noise_floor=0.004,
            fit=True,
        )
        story.say(RaceFinished(goal_id="g1", attempt=0, race=finished))
        story.crowned(fast, comparison=hold_out(1.25), lessons=("streaming=true is 1.20× as fast",))
    story.say(
        GoalCompleted(
            goal_id="g1",
            ended_by=EndedBy.BUDGET,
            outcome=outcome,
            champion_id=fast if outcome is Outcome.CHAMPION else None,
            message="",
        )
    )
    return story


def text(story: Story) -> str:
    return report_text(report_goal("g1", story.log), width=200)


def test_a_report_says_how_the_goal_ended_and_with_what() -> None:
    report = report_goal("g1", told().log)
    assert (report.ended_by, report.outcome) == (EndedBy.BUDGET, Outcome.CHAMPION)
    assert report.champion is not None
    assert report.champion.variant == "two_pass"
    assert report.champion.strategy == "polish"
    assert report.champion.lessons == ("streaming=true is 1.20× as fast",)
    assert report.champion.shrinkage == pytest.approx(1 - 1.25 / 1.30)
    assert report.hold_out_gap_s == 5.0
    assert report.machine is not None
    assert report.machine.compiler == "gcc 12"


def test_every_candidate_is_counted_once_at_its_end() -> None:
    tally = report_goal("g1", told().log).tally
    assert (tally.proposed, tally.measured, tally.rejected, tally.abandoned) == (4, 1, 2, 1)
    assert (tally.compiled, tally.verified, tally.generations) == (1, 1, 1)


def test_a_late_measurement_does_not_change_the_report() -> None:
    story = told()
    lost = next(recorded.id for recorded in story.log if getattr(recorded.fact, "kernel", None) == kernel("lost"))
    before = report_goal("g1", story.log)
    story.measured(lost, 9.0)
    after = report_goal("g1", story.log)
    assert after.best_search == before.best_search
    assert after.tally.abandoned == before.tally.abandoned


def test_rejections_are_counted_by_stage_and_reason_with_an_example() -> None:
    (row,) = report_goal("g1", told().log).rejects
    assert (row.stage, row.reason, row.count, row.message) == ("verify", "out_of_bound", 2, "wrong")


def test_the_report_and_the_live_table_of_500_candidates_are_as_long_as_those_of_a_few() -> None:
    few, many = told(), told()
    reasons = list(Reason)
    for number in range(500):
        id_ = many.proposed(kernel(f"kernel {number}", {"variant": "two_pass", "tile": number}))
        if number % 3:
            many.measured(id_, 1.0 + number / 1000)
        else:
            many.rejected(id_, reasons[number % len(reasons)])
        many.say(lesson(f"tile={number} makes a difference", f"tile {number}", None))
    kinds = len({row.reason for row in report_goal("g1", many.log).rejects})
    shown = len(text(many).splitlines()) - len(text(few).splitlines())
    assert shown <= kinds + LESSONS_SHOWN + 1
    progress = Progress("g1")
    for recorded in many.log:
        progress.add(recorded)
    assert progress.proposed == 504
    assert table(progress).row_count <= 12


def test_a_finalist_that_the_deep_rungs_refused_is_reported_as_such() -> None:
    story = told(Outcome.NO_VERIFIED_IMPROVEMENT)
    fast = next(recorded.id for recorded in story.log if getattr(recorded.fact, "strategy", "") == "polish")
    story.log = [recorded for recorded in story.log if recorded.fact.TYPE != "finalist.proven.v1"]
    story.say(
        FinalistRejected(
            goal_id="g1",
            candidate_id=fast,
            attempt=0,
            reason=Reason.ERROR_CLASS,
            rung=Rung.NUMERIC,
            message="four times the error of plain C",
        )
    )
    report = report_goal("g1", story.log)
    assert [finalist.status for finalist in report.finalists] == ["rejected"]
    assert [(row.stage, row.reason) for row in report.rejects] == [("verify", "out_of_bound"), ("prove", "error_class")]
    assert "error_class: four times the error of plain C" in text(story)


def test_every_baseline_is_listed_winners_first() -> None:
    baselines = report_goal("g1", told().log).baselines
    assert [(row.name, row.status, row.won) for row in baselines] == [
        ("c_naive_o3", "raced", ("T16×H1024",)),
        ("numpy", "screened", ()),
        ("torch", "absent", ()),
    ]
    assert "torch is not installed" in text(told())


def test_the_source_is_compared_with_the_strongest_baseline() -> None:
    report = report_goal("g1", told().log)
    assert report.champion is not None
    change = report.champion.change
    assert change.baseline == "c_naive_o3"
    assert "-    slow();\n+    fast();" in change.diff
    assert change.summary.startswith("1 lines added, 1 removed")


def test_a_library_baseline_has_no_source_to_compare_with() -> None:
    change = source_change(Baseline(name="numpy", axes=AXES, median_ns=1.0), kernel("k", source=FAST))
    assert (change.baseline, change.diff) == ("numpy", "")
    assert change.summary == "numpy is a library call; the champion is 3 lines of c"


def test_the_fraction_of_the_roof_is_from_the_race() -> None:
    report = report_goal("g1", told().log)
    assert report.champion is not None
    (row,) = report.champion.shapes
    assert row.roof_fraction == pytest.approx(0.75)
    assert "75 %" in text(told())
    assert "1.2 ms for 135,168 bytes, streaming/2" in text(told())


def test_no_ratio_is_printed_without_what_it_means() -> None:
    """Every `1.234×` is followed by an interval and names kind, what it is against, and the machine on its line.

    Statements of lessons carry two digits and are checked where they are made.
    """
    lines = [line for line in text(told()).splitlines() if re.search(r"\d\.\d{3}×", line)]
    assert len(lines) >= 6
    for line in lines:
        assert re.search(r"\d\.\d{3}× \[\d+\.\d{3}, \d+\.\d{3}\] at \d+(\.\d+)? %", line), line
        assert "hold-out" in line or "search" in line, line
        assert "against" in line, line
        assert MACHINE.route in line, line


def test_the_result_is_a_hold_out_ratio_and_the_search_says_that_it_is_one() -> None:
    printed = text(told())
    (result,) = [line for line in printed.splitlines() if line.startswith("result")]
    assert "1.250×" in result
    assert "hold-out · against c_naive_o3 · cold" in result
    (believed,) = [line for line in printed.splitlines() if line.startswith("best in search")]
    assert "· search ·" in believed
    assert "never a result" in believed


def test_a_goal_without_a_champion_says_so_plainly() -> None:
    printed = text(told(Outcome.NO_VERIFIED_IMPROVEMENT))
    assert "by budget with no verified improvement over the strongest baseline" in printed
    assert "Champion" not in printed


def test_a_goal_that_is_still_running_has_a_report() -> None:
    story = Story()
    story.accepted()
    report = report_goal("g1", story.log)
    assert (report.outcome, report.champion, report.baselines) == (None, None, ())
    assert "not yet" in report_text(report)


def test_a_lesson_is_superseded_by_a_newer_one_on_its_topic() -> None:
    story = told()
    story.say(
        lesson("streaming=true is 1.10× as fast", "streaming", Interval(estimate=1.1, low=1.0, high=1.2, level=0.99))
    )
    statements = [row.statement for row in report_goal("g1", story.log).lessons]
    assert statements == ["streaming=true is 1.10× as fast", "tile=true loses 3 of 3"]


def test_lessons_that_the_champion_used_come_first_and_are_marked() -> None:
    rows = report_goal("g1", told().log).lessons
    assert [row.used_by_champion for row in rows] == [True, False]
    assert "* streaming=true" in text(told())


def test_a_report_is_json_and_says_the_same() -> None:
    report = report_goal("g1", told().log)
    body: dict[str, Any] = json.loads(report.model_dump_json())
    assert body["champion"]["hold_out"]["kind"] == "hold_out"
    assert body["champion"]["hold_out"]["ratio"]["low"] == pytest.approx(1.25 * 0.98)
    assert UUID(body["champion"]["candidate_id"])
    assert body["champion"]["source"] == FAST


def test_an_unknown_goal_has_no_report() -> None:
    with pytest.raises(Misconfigured, match="no goal nope in the log"):
        report_goal("nope", [])


def test_times_and_intervals_read_well() -> None:
    assert [time_text(ns) for ns in (950.0, 1500.0, 2.5e6, 3e9)] == ["950 ns", "1.5 µs", "2.5 ms", "3 s"]
    assert interval_text(Interval(estimate=1.2, low=1.1, high=1.3, level=0.99667)) == "1.200× [1.100, 1.300] at 99.67 %"
