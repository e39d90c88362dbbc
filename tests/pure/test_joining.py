"""Who may join a factory from another machine, with what file, and in which language."""

import json
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.bootstrap import workers
from infra.bootstrap.nats_server import Server, rewrite_workers, write_server_config
from infra.bootstrap.nats_users import USERS
from schemas.events import FACTS
from schemas.faults import Fault, Misconfigured
from services.console.commands import credentials
from services.console.commands import worker as joining
from services.runtime.address import parse_address
from services.runtime.credentials import (
    fresh_credentials,
    is_worker_credentials,
    read_credentials,
    write_credentials,
)
from services.runtime.language import strange
from services.runtime.routes import INPUTS, OUTPUTS
from services.runtime.signing import BootstrapKey

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


# ---- the address ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown", "url", "loopback"),
    [
        ("127.0.0.1", "127.0.0.1:0", "nats://127.0.0.1:9", True),
        ("localhost:4222", "localhost:4222", "nats://localhost:9", True),
        ("0.0.0.0:4222", "0.0.0.0:4222", "nats://127.0.0.1:9", False),
        ("::", "[::]:0", "nats://[::1]:9", False),
        ("[fd00::5]:4222", "[fd00::5]:4222", "nats://[fd00::5]:9", False),
        ("box.example", "box.example:0", "nats://box.example:9", False),
    ],
)
def test_an_address_says_where_this_machine_reaches_it(text: str, shown: str, url: str, loopback: bool) -> None:
    address = parse_address(text)
    assert (str(address), address.url(9), address.is_loopback) == (shown, url, loopback)


@pytest.mark.parametrize("text", ["", ":4222", "a b", "host:port", "host:99999", "nats://host", "[::1", "host/path"])
def test_what_is_no_address_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"0\.0\.0\.0:4222|at most 65535"):
        parse_address(text)


# ---- the file ------------------------------------------------------------------------------------------------------


def test_credentials_survive_their_file_which_only_its_owner_reads(tmp_path: Path) -> None:
    made, path = fresh_credentials("verifier", "box2"), tmp_path / "box2.creds"
    write_credentials(made, path)
    assert read_credentials(path) == made
    assert is_worker_credentials(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.seed.get_secret_value() not in repr(made)


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "box2.creds"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(Misconfigured, match="exists"):
        write_credentials(fresh_credentials("verifier", "box2"), path)
    assert path.read_text(encoding="utf-8") == "mine"


def spoiled(change: dict[str, object]) -> str:
    made = json.loads(fresh_credentials("verifier", "box2").model_dump_json())
    return json.dumps(made | change)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no file of worker credentials"),
        ("[]", "no file of worker credentials"),
        (spoiled({"format": 2}), "format"),
        (spoiled({"kind": "other"}), "kind"),
        (spoiled({"seed": "SUNOSEED"}), "its seed is no nkey"),
        (spoiled({"key": "UADYCQZZUAVN4RUNATUUIRFGVGOJ43TDX6TE6TWI72V6I4EUXZG43Y4R"}), "damaged"),
    ],
    ids=["empty", "a-list", "a-newer-format", "of-something-else", "no-seed", "two-halves-of-two"],
)
def test_a_file_that_is_no_credentials_is_refused_with_how_to_get_one(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "bad.creds"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(Misconfigured, match=words) as refused:
        read_credentials(path)
    assert "assay credentials create" in str(refused.value)


@pytest.mark.parametrize(
    ("service", "join", "file", "status", "words"),
    [
        ("librarian", "nats://127.0.0.1:1", "box.creds", 2, "compiler, verifier, benchmarker"),
        ("verifier", "127.0.0.1:4222", "box.creds", 2, "nats://HOST:PORT"),
        ("verifier", "nats://", "box.creds", 2, "nats://HOST:PORT"),
        ("verifier", "nats://127.0.0.1:1", "absent.creds", 2, "assay credentials create"),
        ("verifier", "nats://127.0.0.1:1", "broken.creds", 2, "no file of worker credentials"),
        ("compiler", "nats://127.0.0.1:1", "box.creds", 2, "is for a verifier"),
        ("verifier", "nats://127.0.0.1:1", "box.creds", 7, "--listen"),
    ],
    ids=["not-joinable", "no-url", "no-host", "no-file", "no-credentials", "another-service", "nobody-there"],
)
def test_a_worker_that_cannot_join_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    join: str,
    file: str,
    status: int,
    words: str,
) -> None:
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path / "away"))
    monkeypatch.setattr(joining, "REACHED_WITHIN_S", 0.2)
    write_credentials(fresh_credentials("verifier", "box"), tmp_path / "box.creds")
    (tmp_path / "broken.creds").write_text("{}", encoding="utf-8")
    with pytest.raises(Fault, match=re.escape(words)) as refused:
        joining.worker(service, join, tmp_path / file)
    assert refused.value.exit_status == status


# ---- the register --------------------------------------------------------------------------------------------------


def test_the_factory_keeps_a_workers_public_key_and_never_its_seed(tmp_path: Path) -> None:
    made = workers.admit(tmp_path, "benchmarker", "box2", NOW)
    (kept,) = workers.admitted(tmp_path)
    assert (kept.name, kept.service, kept.key) == ("box2", "benchmarker", made.key)
    assert kept.since == "2026-01-02T03:04:05+00:00"
    everything = "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    assert made.seed.get_secret_value() not in everything


def test_a_name_is_admitted_once_and_free_again_when_revoked(tmp_path: Path) -> None:
    first = workers.admit(tmp_path, "verifier", "box2", NOW)
    with pytest.raises(Misconfigured, match="revoke box2"):
        workers.admit(tmp_path, "compiler", "box2", NOW)
    assert workers.revoke(tmp_path, "box2").key == first.key
    assert workers.admitted(tmp_path) == ()
    assert workers.admit(tmp_path, "compiler", "box2", NOW).key != first.key


def test_admissions_made_at_the_same_moment_are_all_kept(tmp_path: Path) -> None:
    names = [f"box{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: workers.admit(tmp_path, "verifier", name, NOW), names))
    assert sorted(worker.name for worker in workers.admitted(tmp_path)) == sorted(names)


@pytest.mark.parametrize("service", ["librarian", "proposer", "poet"])
def test_only_services_that_need_no_database_can_be_joined(tmp_path: Path, service: str) -> None:
    with pytest.raises(Misconfigured, match="compiler, verifier, benchmarker"):
        workers.admit(tmp_path, service, "box2", NOW)


def test_a_name_that_cannot_be_written_on_the_bus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="letters"):
        workers.admit(tmp_path, "verifier", "box 2", NOW)


def test_where_no_bootstrap_key_is_a_worker_gets_the_signing_key_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in containers, where the key that certifies and the admissions are kept apart."""
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path))
    home, creds = tmp_path / "nats", tmp_path / "box2.creds"
    home.mkdir()
    bootstrap = BootstrapKey.generate()
    mine, another = bootstrap.issue("verifier", NOW), bootstrap.issue("compiler", NOW)
    mine.write(tmp_path / "mine.key")
    another.write(tmp_path / "another.key")
    with pytest.raises(Misconfigured, match="only the bootstrap key certifies"):
        credentials.create("verifier", "box2", creds)
    with pytest.raises(Misconfigured, match="has a key of compiler"):
        credentials.create("verifier", "box2", creds, str(tmp_path / "another.key"))
    assert (workers.admitted(home), creds.exists()) == ((), False)
    credentials.create("verifier", "box2", creds, str(tmp_path / "mine.key"))
    assert read_credentials(creds).signing == mine.record


def test_revoking_a_stranger_names_who_is_admitted(tmp_path: Path) -> None:
    workers.admit(tmp_path, "verifier", "box2", NOW)
    with pytest.raises(Misconfigured, match="box2"):
        workers.revoke(tmp_path, "box3")


def test_a_worker_may_do_on_the_bus_what_its_service_may(tmp_path: Path) -> None:
    made = workers.admit(tmp_path, "verifier", "box2", NOW)
    config = write_server_config(Server(tmp_path, parse_address("127.0.0.1:4222"), 1), dict.fromkeys(USERS, "x"))
    users = json.loads(config.read_text(encoding="utf-8"))["accounts"]["ASSAY"]["users"]
    verifier = next(user for user in users if user.get("user") == "verifier")
    assert [user["permissions"] for user in users if user.get("nkey") == made.key] == [verifier["permissions"]]
    workers.revoke(tmp_path, "box2")
    assert rewrite_workers(tmp_path) is False  # no server runs
    users = json.loads(config.read_text(encoding="utf-8"))["accounts"]["ASSAY"]["users"]
    assert [user["user"] for user in users] == list(USERS)


# ---- the language --------------------------------------------------------------------------------------------------


def spoken(service: str) -> frozenset[str]:
    return frozenset(fact.TYPE for fact in (*INPUTS[service], *OUTPUTS[service]))


@pytest.mark.parametrize("service", workers.JOINABLE)
def test_a_copy_of_this_version_speaks_the_language_of_its_factory(service: str) -> None:
    assert strange(frozenset(FACTS), spoken(service)) is None


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            frozenset(FACTS) - {"candidate.verified.v1"},
            "newer than its factory.*candidate.verified.v1.*factory first",
        ),
        (frozenset(FACTS) - {"candidate.verified.v1"} | {"candidate.verified.v2"}, "older than its factory.*update it"),
        (
            frozenset(FACTS) - {"candidate.verified.v1"} | {"candidate.verified.v9", "candidate.verified.v10"},
            "older than its factory.*update it",
        ),
        (frozenset[str](), "does not say which facts it speaks"),
    ],
    ids=["a-newer-copy", "an-older-copy", "a-much-older-copy", "an-ancient-factory"],
)
def test_a_copy_of_another_version_is_told_which_side_to_update(known: frozenset[str], words: str) -> None:
    problem = strange(known, spoken("verifier"))
    assert problem is not None
    assert re.search(words, problem), problem
