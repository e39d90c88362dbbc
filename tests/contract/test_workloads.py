"""Every workload in the table keeps the contract, stands in the documentation, and has a goal to copy."""

import json
from pathlib import Path

import pytest
import yaml

from kernel_lab.verify.workload_contract import CONTRACT, Clause, problems_of
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.goal import Goal

TABLE = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)


@TABLE
@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.statement.replace(" ", "_")[:40])
def test_a_workload_keeps_every_clause_of_the_contract(workload: Workload, clause: Clause) -> None:
    """What a clause asks, and that each can be broken, is in `test_workload_contract.py`."""
    assert problems_of(clause, workload) == ()


@TABLE
def test_each_workload_stands_under_its_own_name(workload: Workload) -> None:
    assert WORKLOADS[workload.name] is workload


@TABLE
def test_the_documentation_says_what_the_code_says(workload: Workload) -> None:
    page = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert f"| {workload.name} | `{workload.signature()}` | `{workload.formula}` |" in page
    bound = workload.bound_source.split(": ")[0].replace("|", r"\|")
    assert f"{bound} |" in page
    for shapes in workload.shapes.values():
        assert f"| {', '.join(map(str, shapes))} |" in page
    domain = page[page.index("## The domain") :]
    assert all(f"| {distribution.name} |" in domain for distribution in workload.distributions)


@TABLE
def test_a_goal_to_copy_parses_and_names_legal_shapes(workload: Workload) -> None:
    path = Path(__file__).parents[2] / "examples" / "goals" / f"{workload.name}_cpu.yaml"
    goal = Goal.model_validate_json(json.dumps(yaml.safe_load(path.read_text(encoding="utf-8"))))
    assert goal.workload == workload.name
    named = workload.shapes[goal.shapes] if isinstance(goal.shapes, str) else goal.shapes
    assert all(set(shape.axes) == set(workload.axes) for shape in named)
