"""Whatever is published on the intake stream, the answer is a clear refusal and the running goal goes on."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import MaxPayloadError

from tests.fixtures.factory import ASSAY, Factory, null_goal, wait_until
from tests.fixtures.waiting import until

pytestmark = pytest.mark.slow


def body(**changes: Any) -> bytes:
    return json.dumps(null_goal(**changes)).encode()


BAD_GOALS: dict[str, tuple[bytes, str]] = {
    "malformed": (b'{"workload": "rms_norm",', "$"),
    "not-an-object": (b"[1, 2]", "$"),
    "not-utf8": (b"\xff\xfe{}", "$"),
    "raw-nul": (b'{"workload": "rms_norm\x00"}', "$"),
    "escaped-nul": (json.dumps(null_goal(name="a\u0000b")).encode(), "$.name"),
    "lone-surrogate": (b'{"workload": "rms_norm", "target": "null", "name": "\\ud800"}', "$.name"),
    "nan": (b'{"workload": "rms_norm", "target": "null", "objective": {"min_gain": NaN}}', "$"),
    "infinite": (
        b'{"workload": "rms_norm", "target": "null", "objective": {"min_gain": 1e400}}',
        "$.objective.min_gain",
    ),
    "brackets": (b"[" * 20_000, "$"),
    "wrong-type": (body(budget={"candidates": "many"}), "$.budget.candidates"),
    "unknown-field": (body(budgets={}), "$.budgets"),
    "unknown-workload": (body(workload="fft"), "$.workload"),
    "unknown-target": (body(target="abacus"), "$.target"),
    "absurd-budget": (body(budget={"candidates": 10**12}), "$.budget.candidates"),
    "wrong-axes": (body(shapes=[{"T": 1, "Q": 2}]), "$.shapes[0]"),
    "too-large": (body(shapes=[{"T": 2**30, "H": 2**20}]), "$.shapes"),
}


async def as_person(factory: Factory) -> Client:
    person = factory.json("status")["nats"]
    return await nats.connect(person["url"], user=person["user"], password=person["password"])


async def test_every_bad_goal_is_refused_with_its_path_and_nothing_else_is_disturbed(running_factory: Factory) -> None:
    running = null_goal(budget={"candidates": 300, "wall": "5m", "stagnation": 1000})
    running_factory.submit(running, "good")
    person = await as_person(running_factory)
    for name, (bad, _) in BAD_GOALS.items():
        await person.publish(f"assay.intake.goal.submitted.{name}", bad)
    with pytest.raises(MaxPayloadError):
        await person.publish("assay.intake.goal.submitted.huge", b" " * 2_000_000)
    await person.publish("assay.intake.goal.submitted.good", body(name="another goal under a running goal's id"))
    await person.publish("assay.intake.goal.steered.good", b'{"action": "explode", "reason": "x"}')
    await person.publish("assay.intake.nonsense", b"{}")
    await person.flush()
    await person.close()

    def refusals() -> dict[str, list[str]]:
        lines = running_factory.ok(
            "events", "list", "--type", "goal.refused", "--limit", "0", "-o", "jsonl"
        ).splitlines()
        refused = [json.loads(line)["data"] for line in lines]
        return {row["request"]["subject"].split(".")[-1]: [p["path"] for p in row["problems"]] for row in refused}

    wait_until(lambda: refusals().keys() >= {*BAD_GOALS, "good"}, "a refusal of every bad goal")
    for name, (_, path) in BAD_GOALS.items():
        assert any(found.startswith(path) for found in refusals()[name]), (name, refusals()[name])
    state = running_factory.wait_for_end("good")
    assert (state["outcome"], state["proposed"], state["name"]) == ("champion", 300, "null")
    assert running_factory.json("events", "verify")["intact"] is True


async def test_a_person_can_neither_state_facts_nor_touch_a_stream(factory: Factory) -> None:
    factory.up()
    denied: list[str] = []

    async def on_error(error: Exception) -> None:
        denied.append(str(error))

    person = factory.json("status")["nats"]
    client = await nats.connect(person["url"], user=person["user"], password=person["password"], error_cb=on_error)
    for subject in (
        "assay.fact.champion.crowned.null.g",
        "$JS.API.STREAM.DELETE.ASSAY_FACTS",
        "$JS.API.STREAM.PURGE.ASSAY_FACTS",
        "$KV.assay_goals.g",
    ):
        await client.publish(subject, b"{}")
    await client.flush()

    async def told() -> bool:
        return len(denied) >= 4

    await until(told)
    await client.close()
    assert len(denied) == 4
    assert all("permissions violation" in word.lower() for word in denied)
    stated = {fact["type"] for fact in factory.json("events", "list", "--limit", "0")}
    assert stated <= {"key.certified.v1", "machine.observed.v1", "route.available.v1"}


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("goal", "submit", "absent.yaml"), 2, "no such file"),
        (("goal", "submit"), 2, "--template"),
        (("goal", "submit", "--template", "nothing"), 2, "there are:"),
        (("goal", "submit", "broken.yaml"), 2, "broken.yaml:"),
        (("goal", "submit", "list.yaml"), 2, "mapping"),
        (("goal", "submit", "good.json", "--id", "a b"), 2, "letters"),
        (("goal", "show", "nobody"), 7, "assay up"),
        (("status",), 7, "assay up"),
        (("workload", "show", "fft"), 2, "there are:"),
        (("candidate", "verify", "absent.c", "--workload", "rms_norm"), 2, "absent.c"),
        (("candidate", "verify", "good.json", "--workload", "fft"), 2, "there are:"),
        (("candidate", "verify", "good.json", "--workload", "rms_norm", "--shapes", "huge"), 2, "small"),
        (("up", "--copies", "poet=2"), 2, "SERVICE"),
        (("up", "--copies", "verifier=0"), 2, "SERVICE"),
        (("down",), 0, "no factory"),
        (("goal", "frobnicate"), 2, "frobnicate"),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_a_wrong_command_says_what_where_and_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    (tmp_path / "broken.yaml").write_text("workload: [rms_norm\ntarget: cpu\n", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- rms_norm\n", encoding="utf-8")
    (tmp_path / "good.json").write_text(json.dumps(null_goal()), encoding="utf-8")
    environment = os.environ | {"ASSAY_DATA": str(tmp_path / "data")}
    done = subprocess.run(
        [*ASSAY, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_gets_the_text_all_the_same() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    shown = subprocess.run([*ASSAY, "workload", "show", "rms_norm"], env=environment, capture_output=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"\\u221a" in shown.stdout


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data.write_text("a file"), "cannot write"),
        (lambda data: (data.mkdir(), (data / "format.json").write_text('{"format": 99}')), "format 99"),
        (lambda data: (data.mkdir(), (data / "format.json").write_text("{")), "damaged"),
        (lambda data: (data / "postgres").mkdir(parents=True), "not a data folder"),
    ],
    ids=["a-file", "another-version", "damaged", "of-something-else"],
)
def test_a_data_folder_that_cannot_be_used_is_refused_with_what_to_do(factory: Factory, spoil: Any, words: str) -> None:
    spoil(factory.data)
    done = factory.run("up")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_factory_in_the_same_folder_is_told_of_the_first(running_factory: Factory) -> None:
    again = running_factory.run("up")
    assert again.returncode == 0
    assert "is running" in again.stderr


def test_a_fixed_metrics_port_is_refused_and_status_says_why_the_factory_ended(factory: Factory) -> None:
    factory.environment["ASSAY_METRICS_PORT"] = "19999"
    done = factory.run("up")
    assert done.returncode == 2
    assert "ASSAY_METRICS_PORT" in done.stderr
    assert "ASSAY_METRICS_PORT" in factory.run("status").stderr


def test_without_a_compiler_nothing_starts_and_the_mend_is_named(factory: Factory, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for tool in Path(folder).iterdir():
            if not any(name in tool.name for name in ("gcc", "clang", "cc")) and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    factory.environment["PATH"] = str(tools)
    done = factory.run("up")
    assert done.returncode == 2
    assert "apt-get install gcc" in done.stderr


def test_a_full_disk_is_refused_before_anything_starts(tmp_path: Path) -> None:
    script = f"mount -t tmpfs -o size=64m tmpfs {tmp_path} && ASSAY_DATA={tmp_path}/data {' '.join(ASSAY)} up"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"this host lets nobody mount a small disk: {done.stderr.strip()}")
    assert done.returncode == 2
    assert "is full" in done.stderr
