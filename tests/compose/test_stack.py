"""An operator's day with docker-compose.yml: scaling, a killed container, a champion, and five things that go wrong."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from services.runtime.settings import PREFIX
from tests.compose.engine import ROOT
from tests.compose.stack import Stack, wait_until
from tests.fixtures.factory import null_goal

REAL_GOAL = {
    "name": "real",
    "workload": "rms_norm",
    "target": "cpu",
    "shapes": [{"T": 64, "H": 1024}],
    "budget": {"candidates": 6, "wall": "20m", "stagnation": 50},
    "search": {"generation_size": 6, "islands": 1, "seed": 11},
    "finals": {"finalists": 1, "hold_out_gap": "0s"},
}
BUSY_GOAL = null_goal(
    budget={"candidates": 1500, "wall": "20m", "stagnation": 1000},
    search={"generation_size": 250, "islands": 2, "seed": 3},
)
IN_PYTHON = ("python", "-c")


# ---- it works ------------------------------------------------------------------------------------------------------


def test_a_container_killed_while_a_goal_runs_loses_nothing_and_the_champion_is_read(stack: Stack) -> None:
    stack.submit("busy", BUSY_GOAL)
    wait_until(lambda: stack.goal("busy")["verified"] >= 200, "200 candidates are verified")
    stack.engine.run("kill", "--signal", "KILL", stack.containers("verifier")[0])
    stack.up("--no-recreate", "--scale", "compiler=2", "--scale", "verifier=3")
    wait_until(lambda: stack.goal("busy")["phase"] == "completed", "the goal has ended")
    facts = stack.facts("--goal", "busy")
    assert (stack.goal("busy")["outcome"], stack.goal("busy")["proposed"]) == ("champion", 1500)
    assert len({fact["id"] for fact in facts}) == len(facts)
    verifiers = {fact["source"] for fact in facts if fact["type"].startswith("candidate.verified")}
    assert len(verifiers) >= 2
    assert stack.json("champion", "show", "busy")["goal_id"] == "busy"
    assert stack.json("events", "verify")["intact"] is True


def test_candidates_are_really_compiled_confined_by_landlock_and_measured(stack: Stack) -> None:
    stack.submit("real", REAL_GOAL)
    wait_until(lambda: stack.goal("real")["phase"] == "completed", "the goal has ended", 1200.0)
    facts = stack.facts("--goal", "real")
    judged = [fact["data"]["judgement"] for fact in facts if fact["type"].startswith("candidate.verified")]
    assert judged
    assert {judgement["isolation"] for judgement in judged} <= {"landlock", "bwrap"}
    assert [fact for fact in facts if fact["type"].startswith("candidate.measured")]
    assert not [fact for fact in facts if ".abandoned" in fact["type"]]


def test_the_doctor_in_a_container_says_where_it_is_and_how_candidates_are_confined(stack: Stack) -> None:
    told = stack.compose("exec", "-T", "verifier", "assay", "doctor", "-o", "json").stdout
    findings = {row["what"]: row for row in json.loads(told)}
    assert findings["surroundings"]["found"] == "a container, memory limited to 6144 MiB"
    assert findings["isolation"]["health"] == "ok"
    assert findings["isolation"]["found"].startswith(("landlock: ", "bwrap: "))


def test_a_container_has_no_privileges_and_writes_nowhere_but_where_it_may(stack: Stack) -> None:
    look = "import os; print(os.getuid(), open('/proc/self/status').read()); open('/opt/x', 'w')"
    seen = stack.compose("exec", "-T", "compiler", *IN_PYTHON, look, check=False)
    status = dict(line.split(":", 1) for line in seen.stdout.splitlines()[1:] if ":" in line)
    assert seen.stdout.startswith("10001 ")
    assert status["CapEff"].strip() == status["CapBnd"].strip() == "0" * 16
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    assert "Read-only file system" in seen.stderr


def test_a_worker_reaches_neither_postgres_nor_the_world(stack: Stack) -> None:
    for host, port in (("postgres", 5432), ("192.0.2.1", 80)):
        tried = f"import socket; socket.create_connection(({host!r}, {port}), 3)"
        assert stack.compose("exec", "-T", "compiler", *IN_PYTHON, tried, check=False).returncode != 0
    reached = "import socket; socket.create_connection(('nats', 4222), 10)"
    stack.compose("exec", "-T", "compiler", *IN_PYTHON, reached)


def test_only_workers_have_a_compiler(stack: Stack) -> None:
    look = "import shutil; print(shutil.which('gcc'))"
    librarian, verifier = (stack.compose("exec", "-T", name, *IN_PYTHON, look) for name in ("librarian", "verifier"))
    assert librarian.stdout.strip() == "None"
    assert verifier.stdout.strip().endswith("/gcc")


def test_a_worker_outside_the_containers_joins_with_credentials_made_in_them(stack: Stack, tmp_path: Path) -> None:
    issue = "assay key issue verifier --to k >&2 && cat k"
    key = stack.compose("run", "--rm", "-T", "--no-deps", "bootstrap", "sh", "-c", issue).stdout
    admit = ("assay", "credentials", "create", "verifier", "outside", "--signing-key", "-")
    stack.compose("exec", "-T", "-w", "/tmp", "nats", *admit, given=key)
    creds = tmp_path / "outside.creds"
    creds.write_text(stack.compose("exec", "-T", "-w", "/tmp", "nats", "cat", "outside.creds").stdout, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    environment |= {"ASSAY_DATA": str(tmp_path / "elsewhere"), "ASSAY_NULL_ROUTE": "true", "ASSAY_COPY_ID": "outside"}
    command = [sys.executable, "-m", "services.console", "worker", "verifier", "--creds", str(creds)]
    command += ["--join", f"nats://127.0.0.1:{stack.changes['NATS_PORT']}"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: b'"serving"' in (tmp_path / "log").read_bytes(), "the worker serves", 60.0)
        stack.submit("joined", null_goal())
        wait_until(lambda: stack.goal("joined")["phase"] == "completed", "the goal has ended")
    finally:
        worker.terminate()
        assert worker.wait(30) == 0, (tmp_path / "log").read_text(encoding="utf-8")
    facts = stack.facts("--goal", "joined", "--type", "candidate.verified")
    assert "assay/verifier/outside" in {fact["source"] for fact in facts}
    assert stack.json("events", "verify", "--bootstrap-key", stack.fingerprint())["intact"] is True


def test_the_janitor_looks_after_the_stream_and_trims_what_the_librarian_attested(stack: Stack) -> None:
    stack.submit("roomy", null_goal())
    wait_until(lambda: stack.goal("roomy")["phase"] == "completed", "the goal has ended")
    (janitor,) = stack.containers("janitor")
    assert stack.inspect(janitor, "{{.State.Running}} {{.RestartCount}}") == "true 0"
    assert "looking after the fact stream" in stack.compose("logs", "janitor").stdout
    trim = ("assay", "stream", "trim", "--bootstrap-key", "/key/janitor/bootstrap.fingerprint", "-o", "json")

    def trimmed() -> bool:
        return bool(json.loads(stack.compose("exec", "-T", "janitor", *trim).stdout)["trimmed"])

    wait_until(trimmed, "something is attested and trimmed")
    assert stack.json("events", "verify")["intact"] is True


def test_a_stopped_copy_drains_and_ends_in_good_order_and_everything_is_there_after_a_restart(stack: Stack) -> None:
    before = stack.json("events", "verify")
    stack.compose("stop")
    for service in ("librarian", "proposer", "compiler", "verifier", "benchmarker"):
        running = [one for one in stack.containers(service) if stack.inspect(one, "{{.State.ExitCode}}") != "137"]
        assert {stack.inspect(one, "{{.State.ExitCode}}") for one in running} == {"0"}, service
    stack.up("--scale", "compiler=2", "--scale", "verifier=2")
    stack.await_healthy("librarian")
    after = stack.json("events", "verify")
    assert after["intact"] is True
    assert after["head"]["position"] >= before["head"]["position"]


# ---- it does not, and says why -------------------------------------------------------------------------------------


def test_a_missing_secret_is_named_and_nothing_starts(fresh: Stack) -> None:
    fresh.rewrite({"NATS_PASSWORD_VERIFIER": None})
    refused = fresh.up(check=False)
    assert refused.returncode != 0
    assert "NATS_PASSWORD_VERIFIER" in refused.stderr
    assert fresh.containers("nats") == ()


@pytest.mark.parametrize("value", ["change-me", "short"])
def test_a_placeholder_or_a_weak_secret_ends_the_server_with_its_name(fresh: Stack, value: str) -> None:
    fresh.rewrite({"NATS_PASSWORD_ADMIN": value})
    refused = fresh.compose("run", "--rm", "-T", "--no-deps", "nats", check=False)
    assert refused.returncode == 2
    assert "NATS_PASSWORD_ADMIN" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_taken_port_is_named(fresh: Stack) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        fresh.rewrite({"NATS_PORT": str(port)})
        refused = fresh.compose("up", "--detach", "nats", check=False)
    assert refused.returncode != 0
    assert str(port) in refused.stderr
    assert "already" in refused.stderr


def test_a_volume_of_another_postgres_is_refused_and_left_untouched(fresh: Stack) -> None:
    alter = "import pathlib; p = pathlib.Path('/data/cluster'); p.mkdir(); (p / 'PG_VERSION').write_text('15')"
    fresh.compose("run", "--rm", "-T", "--no-deps", "postgres", *IN_PYTHON, alter)
    refused = fresh.compose("run", "--rm", "-T", "--no-deps", "postgres", check=False)
    assert refused.returncode == 2
    assert "written by Postgres 15 and this is Postgres 18" in refused.stderr
    look = "import os; print(os.listdir('/data/cluster'))"
    left = fresh.compose("run", "--rm", "-T", "--no-deps", "postgres", *IN_PYTHON, look)
    assert left.stdout.strip() == "['PG_VERSION']"


def test_a_volume_made_with_another_password_says_so(fresh: Stack) -> None:
    fresh.compose("up", "--detach", "postgres", "nats")
    fresh.await_healthy("postgres", "nats")
    fresh.compose("run", "--rm", "-T", "bootstrap")
    fresh.rewrite({"POSTGRES_PASSWORD": "another-password-of-enough-length"})
    refused = fresh.compose("run", "--rm", "-T", "--no-deps", "bootstrap", check=False)
    assert refused.returncode == 4
    assert "was made with another POSTGRES_PASSWORD" in refused.stderr
    assert "another-password" not in refused.stderr


def test_a_database_of_a_newer_assay_is_refused(fresh: Stack) -> None:
    fresh.compose("up", "--detach", "postgres", "nats")
    fresh.await_healthy("postgres", "nats")
    fresh.compose("run", "--rm", "-T", "bootstrap")
    newer = (
        "import asyncio, asyncpg, os\n"
        "async def main():\n"
        "    at = await asyncpg.connect(f\"postgresql://postgres:{os.environ['POSTGRES_PASSWORD']}@postgres/assay\")\n"
        "    await at.execute('INSERT INTO schema_version VALUES (999)')\n"
        "asyncio.run(main())\n"
    )
    fresh.compose("run", "--rm", "-T", "--no-deps", "bootstrap", *IN_PYTHON, newer)
    refused = fresh.compose("run", "--rm", "-T", "--no-deps", "bootstrap", check=False)
    assert refused.returncode == 2
    assert "written by a newer Assay" in refused.stderr
