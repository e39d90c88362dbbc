"""The results page: every workload and shape as it came out, and nothing measured twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import make_results
from benchmarks.goal_results import GoalResult, is_current, keep, kept, serving_goal, with_pairs, without_places
from benchmarks.results_page import page, roof_fraction, shape_rows, shrinkage
from schemas.enums import EndedBy, Language, Outcome, RatioKind, Verdict
from schemas.faults import Transient
from schemas.measurement import BaselineRace, Comparison, Contender, Pair, Quad, RoofPoint, ShapeResult
from schemas.work import Artifact, Baseline, Build, Kernel
from services.runtime.artifacts import ArtifactStore
from tests.search_story import comparison

SIZES = ({"T": 1, "H": 64}, {"T": 9, "H": 63})
ROUTE, COMMIT = "cpu_0badcafe", "abcdef123456"


def pair(*ratios: float) -> Pair:
    """Two undisturbed quads per shape, the baseline taking `ratio` times as long."""
    quads = [
        Quad(shape=shape, first="candidate", candidate_ns=(1000.0, 1000.0), baseline_ns=(1000.0 * r, 1000.0 * r))
        for shape, r in enumerate(ratios)
        for _ in range(2)
    ]
    return Pair(quads=tuple(quads))


def hold_out(ratio: float | None = 1.2, roof_ns: float | None = 900.0, **changes: Any) -> Comparison:
    rows = tuple(
        ShapeResult(
            axes=axes,
            weight=1.0,
            baseline="numpy",
            baseline_ns=1.5e6,
            candidate_ns=1000.0 * (n + 1),
            ratio=1.5,
            roof_ns=roof_ns,
        )
        for n, axes in enumerate(SIZES)
    )
    stated: dict[str, Any] = {"shapes": rows, "pairs": (pair(1.4, 1.1), pair(1.6, 1.1), pair(1.5, 1.1))}
    return comparison(ratio, RatioKind.HOLD_OUT, **(stated | changes))


def baselines() -> BaselineRace:
    return BaselineRace(
        contenders=(
            Contender(name="numpy", description="", status="raced", median_ns=(2000.0, 3000.0)),
            Contender(name="torch", description="", status="absent", message="torch absent"),
        ),
        strongest=tuple(Baseline(name="numpy", axes=axes, median_ns=2000.0) for axes in SIZES),
        roofs=tuple(RoofPoint(axes=axes, bytes_moved=1, best_ns=900.0, how="streaming/2") for axes in SIZES),
        noise_floor=0.01,
        machine=f"{ROUTE}/host",
    )


def result(**changes: Any) -> GoalResult:
    stated: dict[str, Any] = {
        "workload": "rms_norm",
        "route": ROUTE,
        "date": "2026-11-30T12:00:00+00:00",
        "commit": COMMIT,
        "model": "a test machine",
        "kernel": "6.1",
        "load_1m": 0.1,
        "asked": serving_goal("rms_norm", 200, 600.0),
        "outcome": Outcome.CHAMPION,
        "ended_by": EndedBy.BUDGET,
        "message": "1.200× the strongest baseline",
        "candidates": 200,
        "seconds": 660.0,
        "baselines": baselines(),
        "crowned": True,
        "variant": "two_pass",
        "genome": {"variant": "two_pass", "tile": 64},
        "hold_out": hold_out(),
        "search_ratio": 1.5,
        "a_a": comparison(1.001, RatioKind.HOLD_OUT),
        "machine": None,
    }
    return GoalResult.model_validate(stated | changes)


def test_every_shape_has_the_interval_of_its_own_pairs() -> None:
    noisy, still = shape_rows(hold_out())
    assert noisy.interval is not None
    assert still.interval is not None
    assert noisy.interval.low < 1.4 < noisy.interval.estimate < 1.6 < noisy.interval.high
    assert [still.interval.low, still.interval.high] == pytest.approx([1.1, 1.1])


@pytest.mark.parametrize("changes", [{"ratio": None}, {"pairs": ()}, {"pairs": (pair(1.0, 1.0),)}])
def test_without_pairs_or_a_number_a_shape_has_no_interval(changes: dict[str, Any]) -> None:
    assert [row.interval for row in shape_rows(hold_out(**changes))] == [None, None]


def test_shrinkage_and_roof_are_absent_rather_than_invented() -> None:
    assert shrinkage(result()) == pytest.approx(1 - 1.2 / 1.5)
    assert shrinkage(result(search_ratio=None)) is None
    assert shrinkage(result(hold_out=hold_out(None))) is None
    assert roof_fraction(hold_out()) == pytest.approx((0.9 + 0.45) / 2)
    assert roof_fraction(hold_out(roof_ns=None)) is None


def test_the_page_tells_verdict_interval_roof_shrinkage_machine_date_and_commit() -> None:
    text = page([result()], ["rms_norm"])
    assert "FASTER than the strongest baseline on 1 of 1 goals." in text
    assert "| FASTER | 1.200× [1.176, 1.224] | 68 % | 20 % | 1.001× [0.981, 1.021] |" in text
    assert "| cpu_0badcafe | 2026-11-30 | abcdef123456 |" in text
    assert "| T1×H64 | numpy | 1.5 ms | 1 µs | 1.498× [" in text
    assert "| numpy (raced) | 2 µs (2.00×) | 3 µs (1.50×) |" in text
    assert "| torch (absent) | torch absent | |" in text


def test_rows_that_fall_short_stand_as_they_are() -> None:
    slower = result(
        crowned=False,
        outcome=Outcome.NO_VERIFIED_IMPROVEMENT,
        message="no entrant is faster",
        hold_out=hold_out(0.97, verdict=Verdict.EQUIVALENT),
    )
    no_race = result(
        workload="softmax", crowned=False, outcome=Outcome.NONE, hold_out=None, a_a=None, baselines=None, message=""
    )
    text = page([slower, no_race], ["rms_norm", "softmax", "gemm"])
    assert "FASTER than the strongest baseline on 0 of 2 goals." in text
    assert "| EQUIVALENT, nobody crowned | 0.970× [0.951, 0.989] |" in text
    assert "Best entrant, not crowned: two_pass" in text
    assert "| no race (none) | no number | not memory-bound | - | no number |" in text
    assert "Not measured: gemm." in text


def test_a_result_is_kept_whole_and_replaces_the_last_of_its_workload_and_machine(tmp_path: Path) -> None:
    keep(result(commit="older"), tmp_path)
    keep(result(), tmp_path)
    keep(result(route="cpu_other"), tmp_path)
    assert kept(tmp_path) == (result(), result(route="cpu_other"))


def test_pairs_in_the_store_come_back_into_the_record(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path.as_uri())
    whole = hold_out()
    moved = whole.model_copy(
        update={
            "pairs": (),
            "samples": store.put(json.dumps([p.model_dump(mode="json") for p in whole.pairs]).encode()),
        }
    )
    assert with_pairs(moved, store) == whole
    assert with_pairs(whole, store) == whole


def test_a_record_names_objects_by_their_digests_and_no_place_of_the_machine() -> None:
    stored = Artifact(sha256="ab" * 32, uri="file:///home/somebody/store/ab/ab", size=7)
    kernel = Kernel(language=Language.C, source="", fingerprint="f")
    built = Build(kernel=kernel, object=stored, command=(), toolchain="gcc")
    compiled = Baseline(name="c", axes=SIZES[0], median_ns=1.0, artifact=built)
    race = baselines().model_copy(update={"strongest": (compiled, *baselines().strongest)})
    told = without_places(race).model_dump_json()
    assert "somebody" not in told
    assert f'"sha256:{"ab" * 32}"' in told


def test_only_this_machine_and_this_very_code_count_as_recorded() -> None:
    assert is_current(result(), ROUTE, COMMIT)
    assert not is_current(result(), "cpu_other", COMMIT)
    assert not is_current(result(), ROUTE, "another")
    assert not is_current(result(commit=f"{COMMIT}+"), ROUTE, f"{COMMIT}+")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of workloads that a run would have measured; softmax cannot be."""
    names: list[str] = []

    def pretend(workload: str, asked: dict[str, Any], _say: Any) -> GoalResult:
        names.append(workload)
        if workload == "softmax":
            raise Transient("the bus is away")
        return result(workload=workload, asked=asked)

    monkeypatch.setattr(make_results, "measure", pretend)
    monkeypatch.setattr(make_results, "code_commit", lambda: COMMIT)
    monkeypatch.setattr(make_results, "machine_class", lambda: type("Machine", (), {"route": ROUTE}))
    return names


def run(tmp_path: Path, *arguments: str) -> int:
    return make_results.main([*arguments, "--records", str(tmp_path / "goals"), "--page", str(tmp_path / "results.md")])


def test_a_run_measures_what_is_missing_keeps_each_at_once_and_says_what_failed(
    tmp_path: Path, measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    keep(result(), tmp_path / "goals")
    assert run(tmp_path, "--only", "rms_norm", "--only", "softmax", "--only", "reduce_sum") == 1
    assert measured == ["softmax", "reduce_sum"]
    said = capsys.readouterr().err
    assert "recorded for cpu_0badcafe at abcdef123456 already: rms_norm" in said
    assert "not measured: softmax: the bus is away" in said
    assert [one.workload for one in kept(tmp_path / "goals")] == ["reduce_sum", "rms_norm"]
    assert "FASTER than the strongest baseline on 2 of 2 goals." in (tmp_path / "results.md").read_text()


def test_a_run_measures_again_only_when_asked_and_the_page_alone_measures_nothing(
    tmp_path: Path, measured: list[str]
) -> None:
    keep(result(), tmp_path / "goals")
    assert run(tmp_path, "--only", "rms_norm") == 0
    assert run(tmp_path, "--page-only") == 0
    assert measured == []
    assert run(tmp_path, "--only", "rms_norm", "--again", "--candidates", "20") == 0
    assert measured == ["rms_norm"]
    assert kept(tmp_path / "goals")[0].asked["budget"]["candidates"] == 20


@pytest.mark.parametrize("wrong", [("--only", "fft"), ("--candidates", "201"), ("--wall", "1"), ("--fly",)])
def test_a_wrong_argument_is_usage(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, *wrong)
    assert ended.value.code == 2
