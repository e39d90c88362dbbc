"""A dry run: the goal with every default, its cost, and what the desk would refuse; with no factory running."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from kernel_lab.spaces.installed import load_spaces
from schemas.faults import Misconfigured
from schemas.goal import Goal
from schemas.requests import SubmitGoal
from services.console.dry_run import cost_lines, cost_of, dry_run, plain_goal, shapes_of
from services.console.goal_file import load, request_body, template, template_names
from services.console.output import Format
from services.console.units import size_text, span_text
from services.proposer.strategies import STRATEGIES
from services.proposer.work import open_effect
from services.runtime.settings import Settings


def goal(**changes: Any) -> Goal:
    stated = {"workload": "rms_norm", "target": "cpu", "shapes": [{"T": 1024, "H": 1024}]} | changes
    return Goal.model_validate_json(json.dumps(stated))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


@pytest.mark.parametrize("name", template_names())
def test_every_template_is_printed_as_a_goal_file_that_means_the_same(
    name: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    body = request_body(load(template(name)))
    dry_run(template(name), body, settings, Format.TEXT)
    printed = capsys.readouterr().out
    assert SubmitGoal.model_validate_json(json.dumps(yaml.safe_load(printed))) == SubmitGoal.model_validate_json(body)
    assert "# candidates: at most" in printed


def test_the_cost_is_what_the_budget_allows_and_what_the_shapes_hold() -> None:
    asked = goal(budget={"candidates": 100, "wall": 3600}, search={"generation_size": 30}, finals={"wall": 600})
    cost = cost_of(asked, shapes_of(asked), llc_bytes=32 << 20)
    assert (cost.candidates, cost.generations) == (100, 4)
    assert (cost.search_s, cost.search_at_most_s, cost.finals_at_most_s) == (300.0, 3600.0, 600.0)
    assert cost.call_bytes == (4 * (2 * 1024 * 1024 + 1024),)
    pair = 4 * (3 * 1024 * 1024 + 2 * 1024)
    assert cost.timed_bytes == 2 * pair * (9 + 1), "eight calls fill the cache twice over; one more, one to spare"
    assert any("5 min on two cores, at most 1 h" in line for line in cost_lines(cost))


def test_the_wall_bounds_what_a_search_is_expected_to_take() -> None:
    asked = goal(budget={"candidates": 1000, "wall": 60})
    assert cost_of(asked, shapes_of(asked), None).search_s == 60
    assert "timed" not in " ".join(cost_lines(cost_of(asked, shapes_of(asked), None)))


def test_a_hot_goal_needs_one_set_and_a_spare() -> None:
    asked = goal(objective={"regime": "hot"})
    cost = cost_of(asked, shapes_of(asked), 32 << 20)
    assert cost.timed_bytes == 2 * 2 * 4 * (3 * 1024 * 1024 + 2 * 1024)


def test_a_named_shape_set_is_spelled_out_beside_the_goal_that_names_it() -> None:
    asked = goal(shapes="serving")
    assert plain_goal(asked)["shapes"] == "serving"
    assert len(shapes_of(asked)) > 1


def test_what_the_desk_would_refuse_ends_it_with_every_problem(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps({"workload": "rms_nrm", "target": "cpu", "budget": {"wall": "soon"}}).encode()
    with pytest.raises(typer.Exit) as ended:
        dry_run(Path("mine.yaml"), body, settings, Format.JSON)
    assert ended.value.exit_code == 1
    captured = capsys.readouterr()
    assert {problem["path"] for problem in json.loads(captured.out)} == {"$.workload", "$.budget.wall"}
    assert "mine.yaml would be refused" in captured.err


def test_it_knows_the_operators_spaces_and_the_strategies_on_offer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = Settings(data_dir=tmp_path, extra_spaces=("tests.fixtures.own_spaces",), strategies=("polish",))
    ((workload, language),) = mine_variants(mine)
    asked = {"workload": workload, "target": "cpu", "languages": [language], "search": {"strategies": ["polish"]}}
    planted = mine_variants(mine)[workload, language]
    asked["search"] = {"strategies": ["polish"], "space": {"include": {"variant": [planted]}}}
    dry_run(Path("mine.yaml"), json.dumps(asked).encode(), mine, Format.JSON)
    assert json.loads(capsys.readouterr().out)["goal"]["search"]["strategies"] == ["polish"]
    with pytest.raises(typer.Exit):
        dry_run(Path("mine.yaml"), json.dumps(asked).encode(), Settings(data_dir=tmp_path), Format.JSON)


def mine_variants(settings: Settings) -> dict[tuple[str, str], str]:
    """The variants that the operator's modules add, by workload and language."""
    plain, whole = load_spaces(()), load_spaces(settings.extra_spaces)
    new = {key: sorted(set(whole[key].variants) - set(plain[key].variants)) for key in whole}
    return {key: names[0] for key, names in new.items() if names}


def test_what_the_settings_offer_is_the_table_of_strategies(settings: Settings) -> None:
    assert set(settings.strategies) == set(STRATEGIES)


def test_a_proposer_that_lacks_an_offered_strategy_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="ASSAY_STRATEGIES: no strategy psychic"):
        open_effect(Settings(data_dir=tmp_path, strategies=("polish", "psychic"), postgres_dsn="postgres://nowhere"))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (3600, "1 h"), (5400, "1 h 30 min")]
)
def test_spans_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 bytes"), (2048, "2 KiB"), (3 << 29, "1.5 GiB")])
def test_sizes_are_said_in_their_unit(size: int, text: str) -> None:
    assert size_text(size) == text
