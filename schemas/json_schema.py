"""The JSON Schema of the goal file, the requests and every fact, generated and checked in under `schemas/json/`.

`make schemas` writes them; a test fails when they are stale.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from schemas.events import FACTS
from schemas.goal import Goal
from schemas.requests import SteerGoal, SubmitCandidate, WithdrawCounterexample

FOLDER = Path(__file__).parent / "json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_files() -> Iterator[tuple[str, str]]:
    """File name and content of each published schema."""
    yield "goal.json", _render(Goal, "Assay goal file")
    yield "candidate.submitted.json", _render(SubmitCandidate, "Body of assay.intake.candidate.submitted.<goal_id>")
    yield "goal.steered.json", _render(SteerGoal, "Body of assay.intake.goal.steered.<goal_id>")
    withdrawal = "Body of assay.intake.counterexample.withdrawn.<id of its counterexample.kept>"
    yield "counterexample.withdrawn.json", _render(WithdrawCounterexample, withdrawal)
    for type_, fact in FACTS.items():
        yield f"facts/{type_}.json", _render(fact, type_)


def _render(model: type[BaseModel], title: str) -> str:
    schema: dict[str, Any] = {"$schema": DIALECT} | model.model_json_schema() | {"title": title}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path = FOLDER) -> int:
    """Every schema file is current. Returns how many there are."""
    files = dict(schema_files())
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for stale in set(folder.rglob("*.json")) - {folder / name for name in files}:
        stale.unlink()
    return len(files)


if __name__ == "__main__":
    print(f"{write()} schema files in {FOLDER}")
