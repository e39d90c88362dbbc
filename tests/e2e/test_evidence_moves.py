"""Evidence leaves its factory: to an auditor's, as a backup, and back. Driven as a person would."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from services.console.exits import Exit
from tests.fixtures.factory import Factory, null_goal, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long]

SMALL = {"candidates": 40, "wall": "5m", "stagnation": 50}


def played(factory: Factory, goal_id: str) -> None:
    """A small goal has ended."""
    factory.submit(null_goal(budget=SMALL, search={"generation_size": 20, "seed": 11}), goal_id)
    assert factory.wait_for_end(goal_id)["outcome"] == "champion"


def test_an_auditor_takes_a_log_to_another_factory_and_trusts_nobody(factory: Factory, tmp_path: Path) -> None:
    factory.up()
    played(factory, "g1")
    key = factory.json("status")["bootstrap_key"]
    whole, part = tmp_path / "all.jsonl", tmp_path / "g1.jsonl"
    factory.ok("events", "export", str(whole))
    factory.ok("events", "export", str(part), "--goal", "g1")
    checkpoints = tmp_path / "checkpoints"
    wait_until(lambda: any((factory.data / "checkpoints").glob("[0-9]*")), "a checkpoint")
    shutil.copytree(factory.data / "checkpoints", checkpoints)
    facts = factory.facts("g1")
    compared = factory.json("events", "import", str(whole))
    assert (compared["own"], compared["new"]) == (True, 0)
    assert factory.run("events", "export", str(tmp_path / "x"), "--after", "100000").returncode == Exit.USAGE
    factory.down()

    auditor = replace(factory, data=tmp_path / "auditor")
    judged = auditor.json(
        "events", "verify", "--file", str(whole), "--bootstrap-key", key, "--checkpoints", str(checkpoints)
    )
    assert (judged["intact"], judged["partial"], judged["unsigned"]) == (True, False, 0)
    assert judged["checkpoints"] >= 1
    strange = auditor.run("events", "verify", "--file", str(whole), "--bootstrap-key", "0" * 32)
    assert strange.returncode == Exit.EVIDENCE_BROKEN
    forged = tmp_path / "forged.jsonl"
    forged.write_bytes(part.read_bytes().replace(b'\\"goal_id\\":\\"g1\\"', b'\\"goal_id\\":\\"g2\\"', 1))
    try:
        auditor.up()
        refused = auditor.run("events", "import", str(forged), "--bootstrap-key", key)
        assert refused.returncode == Exit.EVIDENCE_BROKEN
        assert "nothing was imported" in refused.stderr
        assert "Traceback" not in refused.stderr
        taken = auditor.json("events", "import", str(part), "--bootstrap-key", key)
        again = auditor.json("events", "import", str(part), "--bootstrap-key", key)
        assert (taken["known"], again["new"]) == (0, 0)
        assert auditor.json("goal", "list") == [], "an imported goal is nobody's goal here"
        origin = taken["origin"]
        lines = auditor.ok("events", "list", "--origin", origin, "--goal", "g1", "--limit", "0", "-o", "jsonl")
        assert [json.loads(line) for line in lines.splitlines()] == facts
        both = auditor.json("events", "verify")
        assert (both["intact"], [one["intact"] for one in both["imports"]]) == (True, [True])
        assert both["imports"][0]["partial"] is True
    finally:
        auditor.down()


def test_a_copied_data_folder_goes_on_and_an_older_copy_is_found_out(factory: Factory, tmp_path: Path) -> None:
    factory.up()
    played(factory, "g1")
    factory.down()
    backup = tmp_path / "backup"
    shutil.copytree(factory.data, backup, symlinks=True)
    factory.up()
    played(factory, "g2")
    factory.down()

    restored = replace(factory, data=backup)
    try:
        restored.up()
        assert restored.json("events", "verify")["intact"] is True
        assert [goal["goal_id"] for goal in restored.json("goal", "list")] == ["g1"]
        outside = ("events", "verify", "--checkpoints", str(factory.data / "checkpoints"))
        found = restored.run(*outside, "-o", "json")
        assert found.returncode == Exit.EVIDENCE_BROKEN
        assert json.loads(found.stdout)["first_break"]["kind"] == "checkpoint"
        played(restored, "g3")
        assert restored.json("events", "verify")["intact"] is True
    finally:
        restored.down()
