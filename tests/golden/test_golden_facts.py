"""Every version of every fact ever written stays readable."""

import json
from pathlib import Path

import pytest

from schemas import json_schema
from schemas.envelope import Message, decode
from schemas.events import FACTS
from tests.golden.sample import FOLDER

GOLDEN = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_fact_is_still_readable_and_says_the_same(path: Path) -> None:
    body = path.read_bytes()
    headers = {"ce-id": "00000000-0000-4000-8000-00000000000a", "ce-source": "assay/golden/0"}
    type_ = path.stem.partition("+")[0]
    headers |= {"ce-type": type_, "ce-time": "2026-11-30T12:00:00.000000+00:00"}
    fact = decode(Message("assay.fact.golden", headers, body)).fact
    if type_ == fact.TYPE:  # fields that the fact has gained since are at their defaults
        assert json.loads(fact.model_dump_json(exclude_unset=True)) == json.loads(body)


def test_every_fact_has_a_golden_body() -> None:
    assert {path.stem for path in GOLDEN} >= set(FACTS)


@pytest.mark.parametrize(("name", "content"), list(json_schema.schema_files()), ids=lambda value: str(value)[:40])
def test_the_checked_in_json_schema_is_current(name: str, content: str) -> None:
    path = json_schema.FOLDER / name
    assert path.exists(), f"run `make schemas`: {name} is missing"
    assert path.read_text(encoding="utf-8") == content, f"run `make schemas`: {name} is stale"


def test_no_json_schema_is_left_over() -> None:
    names = {name for name, _ in json_schema.schema_files()}
    on_disk = {str(path.relative_to(json_schema.FOLDER)) for path in json_schema.FOLDER.rglob("*.json")}
    assert on_disk == names
