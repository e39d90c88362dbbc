"""Keys and signatures: what a service signs, who certified it, and what a damaged key says."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.bootstrap.keys import (
    BOOTSTRAP_KEY,
    FINGERPRINT,
    bootstrap_keys,
    issue_key,
    key_file,
    known_fingerprint,
    known_fingerprints,
)
from infra.bootstrap.workers import admitted
from schemas.certificate import fingerprint
from schemas.envelope import Message
from schemas.events import KeyCertified
from schemas.faults import Misconfigured
from schemas.framing import SIGNATURE, frame, signed_bytes, unframe
from services.console.commands.credentials import create
from services.evidence.identities import ANSWERS
from services.evidence.provenance import service_of
from services.runtime.process import signing_key_of
from services.runtime.routes import OUTPUTS
from services.runtime.settings import Settings
from services.runtime.signing import BootstrapKey, ServiceKey, certificate_holds, signature_holds
from tests.fixtures.facts import story, with_body, with_headers
from tests.fixtures.signed import BOOTSTRAP, keys

NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
MESSAGE = story("g1")[2]
KEY = keys()["proposer"]
SERVICES = ("proposer", "compiler")


def holds(message: Message) -> bool:
    return signature_holds(KEY.certificate.public_key, signed_bytes(message), message.headers[SIGNATURE])


@given(subject=st.text(max_size=30), body=st.binary(max_size=100), source=st.text(max_size=20))
def test_a_signature_holds_for_what_was_signed_also_after_it_was_recorded(
    subject: str, body: bytes, source: str
) -> None:
    signed = KEY.sign(Message(subject, {"ce-source": source, "content-type": "text/plain"}, body))
    assert holds(signed)
    assert holds(unframe(frame(signed)))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: with_body(m, m.body + b" "),
        lambda m: with_headers(m, ce_id="another"),
        lambda m: with_headers(m, ce_causationid=None),
        lambda m: with_headers(m, ce_extra="x"),
        lambda m: with_headers(m, signature_key="ab" * 16),
        lambda m: Message("assay.fact.other", m.headers, m.body),
    ],
)
def test_a_signature_is_over_subject_body_and_every_header_that_is_kept(change: object) -> None:
    assert callable(change)
    assert not holds(change(KEY.sign(MESSAGE)))


def test_a_transport_header_may_change_on_the_way() -> None:
    assert holds(with_headers(KEY.sign(MESSAGE), Nats_Msg_Id="x"))


@pytest.mark.parametrize("signature", ["", "xyz", "00", "00" * 64, "é" * 128])
def test_what_is_no_signature_does_not_hold(signature: str) -> None:
    assert not signature_holds(KEY.certificate.public_key, b"statement", signature)


def test_a_certificate_holds_for_its_service_key_and_moment_only() -> None:
    certificate = KEY.certificate
    assert certificate_holds(certificate)
    for change in ({"service": "librarian"}, {"public_key": "ab" * 32}, {"certified_at": NOW}, {"issuer": "cd" * 32}):
        assert not certificate_holds(certificate.model_copy(update=change))


def test_a_key_file_is_private_and_comes_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "compiler.key"
    issued = BOOTSTRAP.issue("compiler", NOW)
    issued.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ServiceKey.read(path).certificate == issued.certificate
    assert ServiceKey.read(path).sign(MESSAGE) == issued.sign(MESSAGE)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"secret": "zz", "certificate": {}}', "\x00"])
def test_a_damaged_key_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "compiler.key"
    path.write_text(text)
    with pytest.raises(Misconfigured, match=r"compiler\.key"):
        ServiceKey.read(path)
    with pytest.raises(Misconfigured, match="cannot be read"):
        ServiceKey.read(tmp_path / "nowhere.key")


def test_a_secret_with_another_keys_certificate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "compiler.key"
    BOOTSTRAP.issue("compiler", NOW).write(path)
    other = json.loads(path.read_text()) | {"secret": "ab" * 32}
    path.write_text(json.dumps(other))
    with pytest.raises(Misconfigured, match="do not belong together"):
        ServiceKey.read(path)


def test_bootstrapping_keys_twice_changes_nothing(tmp_path: Path) -> None:
    first = bootstrap_keys(tmp_path / "keys", SERVICES, NOW)
    before = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert bootstrap_keys(tmp_path / "keys", SERVICES, NOW) == first == known_fingerprint(tmp_path / "keys")
    assert {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()} == before
    assert {ServiceKey.read(key_file(tmp_path / "keys", one)).certificate.service for one in SERVICES} == set(SERVICES)


def test_a_replaced_bootstrap_key_stays_named_where_somebody_wrote_it(tmp_path: Path) -> None:
    former = bootstrap_keys(tmp_path / "old", SERVICES, NOW)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / FINGERPRINT).write_text(f"{former}\n")
    found = bootstrap_keys(tmp_path / "keys", SERVICES, NOW)
    assert known_fingerprint(tmp_path / "keys") == found
    assert known_fingerprints(tmp_path / "keys") == (found, former)


def test_the_bootstrap_key_may_be_kept_in_a_safe_once_every_service_has_its_key(tmp_path: Path) -> None:
    found = bootstrap_keys(tmp_path, SERVICES, NOW)
    (tmp_path / BOOTSTRAP_KEY).unlink()
    assert bootstrap_keys(tmp_path, SERVICES, NOW) == found
    with pytest.raises(Misconfigured, match="bring the bootstrap key back"):
        bootstrap_keys(tmp_path, (*SERVICES, "librarian"), NOW)
    with pytest.raises(Misconfigured, match="from its safe"):
        issue_key(tmp_path, "compiler", NOW)


def test_keys_of_two_bootstrap_keys_do_not_mix(tmp_path: Path) -> None:
    bootstrap_keys(tmp_path, SERVICES, NOW)
    BootstrapKey.generate().issue("compiler", NOW).write(key_file(tmp_path, "compiler"))
    with pytest.raises(Misconfigured, match="different bootstrap keys"):
        bootstrap_keys(tmp_path, SERVICES, NOW)


def test_a_key_for_another_machine_is_certified_by_the_same_bootstrap_key(tmp_path: Path) -> None:
    found = bootstrap_keys(tmp_path, SERVICES, NOW)
    issued = issue_key(tmp_path, "compiler", NOW)
    assert issued.fingerprint != ServiceKey.read(key_file(tmp_path, "compiler")).fingerprint
    assert certificate_holds(issued.certificate)
    assert BootstrapKey.read(tmp_path / BOOTSTRAP_KEY).fingerprint == found


@pytest.mark.parametrize(
    ("source", "service"),
    [("assay/compiler/1", "compiler"), (None, ""), ("assay/x", "assay/x"), ("evil/compiler/1", "evil/compiler/1")],
)
def test_a_source_names_its_service(source: str | None, service: str) -> None:
    assert service_of(source) == service


def test_a_joined_worker_finds_its_key_in_the_credentials_that_were_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nats").mkdir()
    found = bootstrap_keys(tmp_path / "keys", tuple(OUTPUTS), NOW)
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path))
    create("compiler", "box2", tmp_path / "box2.creds")
    settings = Settings(nats_creds=tmp_path / "box2.creds", data_dir=tmp_path / "elsewhere")
    key = signing_key_of("compiler", settings)
    assert key is not None
    assert fingerprint(key.certificate.issuer) == found
    assert key.fingerprint != ServiceKey.read(key_file(tmp_path / "keys", "compiler")).fingerprint
    with pytest.raises(Misconfigured, match="has the key of compiler"):
        signing_key_of("verifier", settings)


def test_a_worker_is_not_admitted_without_a_key_to_give_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nats").mkdir()
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path))
    with pytest.raises(Misconfigured, match="only the bootstrap key certifies"):
        create("compiler", "box2", tmp_path / "box2.creds")
    assert not (tmp_path / "box2.creds").exists()
    assert admitted(tmp_path / "nats") == ()


def test_a_service_that_was_given_no_key_signs_nothing(tmp_path: Path) -> None:
    assert signing_key_of("compiler", Settings(data_dir=tmp_path)) is None
    of_nats = tmp_path / "x.creds"
    of_nats.write_text("-----BEGIN NATS USER JWT-----\n")
    assert signing_key_of("compiler", Settings(data_dir=tmp_path, nats_creds=of_nats)) is None


def test_every_service_may_state_its_certificate() -> None:
    assert [service for service, facts in OUTPUTS.items() if KeyCertified not in facts] == []


def test_every_answer_whose_id_is_checked_is_a_fact_that_some_service_states() -> None:
    stated = {fact.TYPE.rpartition(".")[0] for facts in OUTPUTS.values() for fact in facts}
    assert set(ANSWERS) <= stated
