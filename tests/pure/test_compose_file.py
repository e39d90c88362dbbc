"""docker-compose.yml keeps what operations.md promises, judged without an engine."""

import re
import stat
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.bootstrap.keys import FINGERPRINT, fingerprints_in
from infra.bootstrap.nats_users import USERS
from infra.compose.bootstrap import hand_out_keys
from infra.compose.fresh_env import filled
from infra.compose.passwords import PLACEHOLDER, SECRET, SECRETS, secret
from infra.docker.narrow_lock import BUILDS, narrowed
from schemas.faults import Misconfigured
from services.console.supervisor import SERVICES
from services.runtime.settings import Settings, known_variables
from services.runtime.signing import ServiceKey

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "infra/docker/Dockerfile").read_text(encoding="utf-8")
COMPOSED: dict[str, Any] = yaml.safe_load(TEXT)
STANZAS: dict[str, dict[str, Any]] = COMPOSED["services"]
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<rest>[^}]*)\}")

KNOWN_TO_1_29 = {
    "build",
    "cap_drop",
    "command",
    "depends_on",
    "entrypoint",
    "environment",
    "healthcheck",
    "image",
    "init",
    "logging",
    "mem_limit",
    "networks",
    "pids_limit",
    "ports",
    "profiles",
    "read_only",
    "restart",
    "security_opt",
    "stop_grace_period",
    "stop_signal",
    "tmpfs",
    "user",
    "volumes",
}
"""What we use of docker-compose 1.29's schema (compose/config/compose_spec.json); it refuses newer keys."""

every_stanza = pytest.mark.parametrize("name", STANZAS)
every_service = pytest.mark.parametrize("name", SERVICES)


def seconds(text: str) -> float:
    """`30s` as a number."""
    assert text.endswith("s"), text
    return float(text.removesuffix("s"))


def values(example: str) -> dict[str, str]:
    lines = [line for line in example.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_there_is_a_stanza_for_each_service_and_for_what_they_need() -> None:
    assert set(STANZAS) == {"postgres", "nats", "bootstrap", "janitor", "console", *SERVICES}


@every_stanza
def test_a_container_is_hardened(name: str) -> None:
    stanza = STANZAS[name]
    assert stanza["read_only"] is True
    assert stanza["cap_drop"] == ["ALL"]
    assert stanza["security_opt"] == ["no-new-privileges:true"]
    assert stanza["user"] == "10001:10001"
    assert stanza["init"] is True
    assert 0 < stanza["pids_limit"] <= 1024
    assert stanza["mem_limit"]


@every_stanza
def test_a_stanza_uses_nothing_that_an_older_compose_refuses(name: str) -> None:
    assert set(STANZAS[name]) <= KNOWN_TO_1_29


@every_service
def test_a_service_can_have_many_copies(name: str) -> None:
    assert "container_name" not in STANZAS[name]
    assert "ports" not in STANZAS[name]
    assert "hostname" not in STANZAS[name]


@every_service
def test_a_service_is_stopped_no_sooner_than_it_has_drained(name: str) -> None:
    margin_s = 5.0  # the embedded supervisor's
    assert seconds(STANZAS[name]["stop_grace_period"]) > Settings().drain_s + margin_s


@every_service
def test_a_service_is_told_its_own_user_and_settings_that_exist(name: str) -> None:
    environment = STANZAS[name]["environment"]
    assert environment["ASSAY_NATS_USER"] == name
    assert f"NATS_PASSWORD_{name.upper()}:?" in environment["ASSAY_NATS_PASSWORD"]
    assert set(environment) <= set(known_variables())
    assert ("ASSAY_POSTGRES_DSN" in environment) == (name in ("librarian", "proposer"))
    assert not [key for key in environment if key in SECRETS]


@every_service
def test_a_service_starts_after_the_bootstrap_and_says_whether_it_is_ready(name: str) -> None:
    assert STANZAS[name]["depends_on"] == {"bootstrap": {"condition": "service_completed_successfully"}}
    assert STANZAS[name]["healthcheck"]["test"][-1] == "/readyz"


def test_only_nats_can_be_reached_from_outside_and_by_default_from_this_host_only() -> None:
    reachable = [name for name, stanza in STANZAS.items() if "ports" in stanza or "door" in stanza["networks"]]
    assert reachable == ["nats"]
    assert STANZAS["nats"]["ports"] == ["${NATS_BIND:-127.0.0.1}:${NATS_PORT:-4222}:4222"]
    assert COMPOSED["networks"] == {"bus": {"internal": True}, "log": {"internal": True}, "door": {}}


def test_only_those_that_read_or_record_the_log_reach_postgres() -> None:
    on_the_log = {name for name, stanza in STANZAS.items() if "log" in stanza["networks"]}
    assert on_the_log == {"postgres", "bootstrap", "librarian", "proposer", "janitor", "console"}


def test_the_compiler_is_only_where_objects_are_built_or_judged() -> None:
    workers = {name for name, stanza in STANZAS.items() if stanza["image"] == "assay-worker:local"}
    assert workers == {"compiler", "verifier", "benchmarker", "console"}
    service = DOCKERFILE.split(" AS service")[1].split("\nFROM ")[0]
    assert "gcc" not in service


def test_workers_on_one_host_share_artifacts_and_quiet_files() -> None:
    for name in ("compiler", "verifier", "benchmarker", "console"):
        assert {"artifacts:/artifacts", "quiet:/quiet"} <= set(STANZAS[name]["volumes"])
        assert STANZAS[name]["environment"]["ASSAY_QUIET_DIR"] == "/quiet"


@every_service
def test_a_service_has_its_own_signing_key_to_read_and_no_other(name: str) -> None:
    assert STANZAS[name]["environment"]["ASSAY_SIGNING_KEY"] == f"/key/{name}/{name}.key"
    keys = [volume for volume in STANZAS[name].get("volumes", ()) if volume.startswith("key")]
    assert keys == [f"key-{name}:/key/{name}:ro"]
    assert f"key-{name}:/key/{name}" in STANZAS["bootstrap"]["volumes"]


def test_only_the_bootstrap_has_the_key_that_certifies_and_checkpoints_outlive_the_librarian() -> None:
    assert [name for name, stanza in STANZAS.items() if "keys:/keys" in stanza.get("volumes", ())] == ["bootstrap"]
    assert "checkpoints:/checkpoints" in STANZAS["librarian"]["volumes"]
    assert STANZAS["librarian"]["environment"]["ASSAY_CHECKPOINTS_DIR"] == "/checkpoints"
    assert {"keys", "checkpoints", *(f"key-{name}" for name in SERVICES)} <= set(COMPOSED["volumes"])


def test_keys_are_handed_out_each_to_its_service_and_stay_the_same(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    first = hand_out_keys(tmp_path / "keys", tmp_path / "key", now)
    given = {name: ServiceKey.read(tmp_path / "key" / name / f"{name}.key") for name in SERVICES}
    assert {name: key.certificate.service for name, key in given.items()} == {name: name for name in SERVICES}
    assert hand_out_keys(tmp_path / "keys", tmp_path / "key", now) == first
    assert ServiceKey.read(tmp_path / "key" / "compiler" / "compiler.key") == given["compiler"]
    assert len(list((tmp_path / "key").rglob("*.key"))) == len(SERVICES)
    assert fingerprints_in(tmp_path / "key" / "janitor" / FINGERPRINT) == (first,)


def test_the_janitor_judges_by_the_fingerprint_and_reads_checkpoints_only() -> None:
    stanza = STANZAS["janitor"]
    assert stanza["volumes"] == ["key-janitor:/key/janitor:ro", "checkpoints:/checkpoints:ro"]
    assert stanza["command"][-1] == f"/key/janitor/{FINGERPRINT}"
    assert stanza["environment"]["ASSAY_NATS_USER"] == "admin"
    assert "assay_reader" in stanza["environment"]["ASSAY_POSTGRES_DSN"]
    assert set(stanza["environment"]) <= set(known_variables())


def test_no_image_runs_as_root() -> None:
    for target in ("service", "worker"):
        stage = DOCKERFILE.split(f" AS {target}")[1].split("\nFROM ")[0]
        assert "\nUSER 10001:10001" in stage


def test_every_variable_has_a_line_in_the_example_and_every_line_a_use() -> None:
    assert {found["name"] for found in VARIABLE.finditer(TEXT)} == set(values(EXAMPLE))


def test_a_secret_has_no_default_and_everything_else_has_the_examples() -> None:
    example = values(EXAMPLE)
    for found in VARIABLE.finditer(TEXT):
        if found["name"] in SECRETS:
            assert found["rest"].startswith(":?"), found["name"]
        else:
            assert found["rest"] == f":-{example[found['name']]}", found["name"]


def test_the_example_holds_no_secret_and_names_each() -> None:
    example = values(EXAMPLE)
    assert {name for name, value in example.items() if value == PLACEHOLDER} == set(SECRETS)
    assert {f"NATS_PASSWORD_{user.upper()}" for user in USERS} < set(SECRETS)


def test_a_filled_example_has_another_good_secret_in_each_place() -> None:
    made = values(filled(EXAMPLE))
    secrets = [made[name] for name in SECRETS]
    assert len(set(secrets)) == len(SECRETS)
    assert all(SECRET.fullmatch(value) for value in secrets)
    assert {name: value for name, value in made.items() if name not in SECRETS} == {
        name: value for name, value in values(EXAMPLE).items() if name not in SECRETS
    }


def test_an_env_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "infra/compose").mkdir(parents=True)
    (tmp_path / ".env.example").write_text(EXAMPLE, encoding="utf-8")
    program = tmp_path / "infra/compose/fresh_env.py"
    program.write_text((ROOT / "infra/compose/fresh_env.py").read_text(encoding="utf-8"), encoding="utf-8")
    first = subprocess.run([sys.executable, program], capture_output=True, text=True)
    made = tmp_path / ".env"
    before = made.read_text(encoding="utf-8")
    again = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert (first.returncode, again.returncode) == (0, 2)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert made.read_text(encoding="utf-8") == before
    assert "exists" in again.stderr


@pytest.mark.parametrize("value", ["", PLACEHOLDER, "short", "x" * 30 + "@", "x" * 30 + "\n"])
def test_a_secret_that_is_missing_weak_or_unfit_for_a_url_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("POSTGRES_PASSWORD", value)
    with pytest.raises(Misconfigured, match=r"POSTGRES_PASSWORD.*compose-env") as refused:
        secret("POSTGRES_PASSWORD")
    assert len(value) < 20 or value not in str(refused.value)


def test_the_images_lock_is_the_whole_one_without_what_only_developers_need() -> None:
    whole = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = (*(re.split(r"[\[><=~!; ]", line)[0] for line in project["dependencies"]), *BUILDS)
    images = (ROOT / "infra/docker/requirements.lock").read_text(encoding="utf-8")
    assert images == narrowed(whole, wanted), "run: python3 infra/docker/narrow_lock.py"
    names = {line.split("==")[0] for line in images.splitlines() if line[0].isalnum()}
    assert {"nats-py", "nkeys", "numpy", "setuptools"} <= names
    assert not names & {"pytest", "mypy", "ruff", "import-linter"}
