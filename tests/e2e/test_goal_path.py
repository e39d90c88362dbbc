"""A goal published on the bus ends with a proven champion, through five real processes."""

import json
from collections import Counter
from typing import Any

import nats
import pytest

from tests.fixtures.factory import Factory, null_goal, wait_until

pytestmark = pytest.mark.slow

TERMINAL = {"candidate.measured.v1", "candidate.rejected.v1", "candidate.abandoned.v1"}


def assert_every_fact_once(facts: list[dict[str, Any]]) -> None:
    ids = Counter(fact["id"] for fact in facts)
    assert max(ids.values()) == 1
    settled = Counter(fact["data"]["candidate_id"] for fact in facts if fact["type"] in TERMINAL)
    proposed = [fact["id"] for fact in facts if fact["type"] == "candidate.proposed.v1"]
    assert settled == Counter(proposed), "every candidate has exactly one terminal fact"


def test_a_goal_from_the_command_line_ends_with_a_champion_and_a_verified_log(factory: Factory) -> None:
    factory.up()
    factory.submit(null_goal(), "g1")
    state = factory.wait_for_end("g1")
    assert (state["outcome"], state["ended_by"]) == ("champion", "budget")
    facts = factory.facts("g1")
    assert_every_fact_once(facts)
    assert sum(fact["type"] == "candidate.proposed.v1" for fact in facts) == 200
    wait_until(lambda: any((factory.data / "checkpoints").glob("[0-9]*")), "a checkpoint")
    verified = factory.json("events", "verify")
    assert (verified["intact"], verified["unsigned"]) == (True, 0)
    assert verified["bootstrap_keys"] == [factory.json("status")["bootstrap_key"]]
    assert verified["checkpoints"] >= 1, "the champion was attested"
    champion = factory.json("champion", "show", "g1")
    assert champion["comparison"]["kind"] == "hold_out"
    why = factory.run("events", "causation", facts[-1]["id"], "-o", "json")
    assert json.loads(why.stdout)[0]["type"] == "goal.accepted.v1"
    assert why.stderr == ""
    first, _second = factory.json("leaderboard")
    assert (first["candidate_id"], first["champion"]) == (champion["candidate_id"], True)


async def test_a_goal_from_bare_nats_starts_the_same_goal(running_factory: Factory) -> None:
    person = running_factory.json("status")["nats"]
    connection = await nats.connect(person["url"], user=person["user"], password=person["password"])
    await connection.publish("assay.intake.goal.submitted.bare", json.dumps(null_goal()).encode())
    await connection.flush()
    await connection.close()
    wait_until(lambda: running_factory.run("goal", "show", "bare").returncode == 0, "the goal is shown")
    assert running_factory.wait_for_end("bare")["outcome"] == "champion"


@pytest.mark.long
async def test_kernels_from_bare_nats_and_from_the_command_line_are_judged_like_any_other(factory: Factory) -> None:
    factory.up()
    factory.submit(null_goal(budget={"candidates": 50_000, "wall": "10m", "stagnation": 1000}), "g")
    file = factory.data.parent / "mine.txt"
    file.write_text("null kernel of my own", encoding="utf-8")
    submit = ("candidate", "submit", str(file), "--goal", "g")
    mine = factory.json(*submit, "--author", "ada", "--note", "by hand", "--watch")
    assert (mine["status"], mine["goal_id"]) == ("measured", "g")
    again = factory.run(*submit)
    assert again.returncode == 1
    assert mine["candidate_id"] in again.stderr
    person = factory.json("status")["nats"]
    connection = await nats.connect(person["url"], user=person["user"], password=person["password"])
    request = {"source": "null kernel of an agent", "author": "agent"}
    await connection.publish("assay.intake.candidate.submitted.g", json.dumps(request).encode())
    await connection.flush()
    await connection.close()
    factory.ok("goal", "steer", "g", "--pin", mine["candidate_id"])  # the desk answers in turn: the agent's is taken
    factory.ok("goal", "stop", "g")
    factory.wait_for_end("g")
    shown = factory.json("candidate", "show", mine["candidate_id"])
    assert (shown["author"], shown["note"]) == ("unsigned/ada", "by hand")
    assert shown["finals"] in ("proven", "champion"), "it was pinned"
    proposed = [fact["data"] for fact in factory.facts("g") if fact["type"] == "candidate.proposed.v1"]
    assert {fact["author"] for fact in proposed if fact["request"]} == {"unsigned/ada", "unsigned/agent"}
    assert factory.json("events", "verify")["intact"] is True
    assert factory.run(*submit, "--no-wait").returncode == 1, "the goal has ended"


def test_the_same_goal_id_is_idempotent_and_other_content_is_refused(running_factory: Factory) -> None:
    running_factory.submit(null_goal(), "same")
    running_factory.submit(null_goal(), "same")
    other = running_factory.data.parent / "other.json"
    other.write_text(json.dumps(null_goal(name="other")), encoding="utf-8")
    refused = running_factory.run("goal", "submit", str(other), "--id", "same")
    assert refused.returncode == 1
    assert "same" in refused.stderr
    assert running_factory.wait_for_end("same")["name"] == "null"
    assert sum(fact["type"] == "goal.accepted.v1" for fact in running_factory.facts("same")) == 1


def test_a_second_goal_starts_warm_from_the_first(running_factory: Factory) -> None:
    summing = {"workload": "reduce_sum", "shapes": [{"N": 4096}]}  # no other test leaves a champion of this workload
    running_factory.submit(null_goal(**summing), "first")
    running_factory.wait_for_end("first")
    running_factory.submit(null_goal(**summing, search={"generation_size": 50, "islands": 2, "seed": 99}), "second")
    running_factory.wait_for_end("second")
    champion = running_factory.json("champion", "show", "first")["build"]["kernel"]["fingerprint"]
    generation_one = [f for f in running_factory.facts("second") if f["type"] == "candidate.proposed.v1"][:50]
    assert champion in {fact["data"]["kernel"]["fingerprint"] for fact in generation_one}


@pytest.mark.parametrize("action", ["stop", "cancel"])
def test_a_running_goal_can_be_ended_early(running_factory: Factory, action: str) -> None:
    running_factory.submit(
        null_goal(budget={"candidates": 50_000, "wall": "10m", "stagnation": 1000}), f"long-{action}"
    )
    running_factory.wait_for_candidates(f"long-{action}", 50)
    running_factory.ok("goal", action, f"long-{action}", "--reason", "enough seen")
    state = running_factory.wait_for_end(f"long-{action}")
    assert state["ended_by"] == {"stop": "stopped", "cancel": "cancelled"}[action]
    assert state["outcome"] == {"stop": "champion", "cancel": "none"}[action]


def test_a_paused_goal_stands_still_until_it_is_resumed(running_factory: Factory) -> None:
    running_factory.submit(null_goal(budget={"candidates": 1000, "wall": "10m", "stagnation": 1000}), "nap")
    running_factory.wait_for_candidates("nap", 50)
    running_factory.ok("goal", "pause", "nap", "--reason", "lunch")
    settled = -1
    while (now := running_factory.state("nap"))["proposed"] != settled:
        settled = now["proposed"]
        running_factory.run("goal", "watch", "nap", "--timeout", "2s")
    assert now["paused"] is True
    assert settled < 1000
    running_factory.ok("goal", "resume", "nap", "--reason", "back")
    assert running_factory.wait_for_end("nap")["outcome"] == "champion"


def test_a_goal_that_no_machine_can_serve_says_what_it_waits_for_and_can_be_cancelled(running_factory: Factory) -> None:
    running_factory.submit(null_goal(target="cpu"), "alone")
    wait_until(lambda: running_factory.run("goal", "show", "alone").returncode == 0, "the goal is shown")
    assert running_factory.state("alone")["waits_for"] == "cpu; no such machine has been seen"
    running_factory.ok("goal", "cancel", "alone")
    state = running_factory.wait_for_end("alone")
    assert (state["ended_by"], state["outcome"], state["waits_for"]) == ("cancelled", "none", None)
