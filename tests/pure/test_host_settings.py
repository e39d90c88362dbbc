"""Settings, artifacts, subjects, and what each service may take and state."""

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from infra.bootstrap.nats_users import ADMIN, PERSON, SERVICES, permissions
from schemas.events import FACTS
from schemas.faults import Misconfigured
from schemas.work import Artifact
from services.runtime.artifacts import ArtifactStore, Missing
from services.runtime.routes import INPUTS, OUTPUTS
from services.runtime.settings import PREFIX, Settings, environment_of, host_id, known_variables, read_settings
from services.runtime.subjects import matches


@pytest.fixture(autouse=True)
def no_assay_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in [key for key in os.environ if key.startswith(PREFIX)]:
        monkeypatch.delenv(key)


def test_an_unknown_variable_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_ACK_WAITS", "3")
    with pytest.raises(Misconfigured, match=r"ASSAY_ACK_WAITS.*ASSAY_ACK_WAIT_S"):
        read_settings()


def test_a_wrong_value_is_refused_by_the_variables_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_ACK_WAIT_S", "soon")
    with pytest.raises(Misconfigured, match="ASSAY_ACK_WAIT_S"):
        read_settings()


def test_the_data_folder_is_named_by_assay_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path))
    settings = read_settings()
    assert settings.data_dir == tmp_path
    assert settings.artifacts == (tmp_path / "artifacts").as_uri()
    assert settings.quiet == tmp_path / "quiet"
    assert "ASSAY_DATA" in known_variables()


def test_another_process_gets_the_same_settings_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given_settings = Settings(
        data_dir=tmp_path, nats_user="compiler", nats_password=SecretStr("secret"), null_route=True, isolation="none"
    )
    for name, value in environment_of(given_settings).items():
        monkeypatch.setenv(name, value)
    assert read_settings(copy_id=given_settings.copy_id) == given_settings


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(Settings(nats_password=SecretStr("secret")))


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().null_route = True  # type: ignore[misc]


def test_a_host_keeps_its_id(tmp_path: Path) -> None:
    assert host_id(tmp_path) == host_id(tmp_path)
    assert host_id(tmp_path) != host_id(tmp_path / "elsewhere")


def test_an_artifact_is_given_back_by_its_digest(tmp_path: Path) -> None:
    store = ArtifactStore((tmp_path / "store").as_uri())
    artifact = store.put(b"object")
    assert store.put(b"object") == artifact
    assert store.get(artifact) == b"object"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [artifact.sha256]


def test_a_lost_or_damaged_artifact_is_missing_until_it_is_put_again(tmp_path: Path) -> None:
    store = ArtifactStore((tmp_path / "store").as_uri())
    artifact = store.put(b"object")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(b"forged")
    with pytest.raises(Missing, match="other bytes"):
        store.get(artifact)
    path.unlink()
    with pytest.raises(Missing, match="is not in"):
        store.get(artifact)
    store.put(b"object")
    assert store.get(artifact) == b"object"


def test_an_artifact_is_found_by_digest_even_when_its_uri_is_another_hosts(tmp_path: Path) -> None:
    store = ArtifactStore((tmp_path / "store").as_uri())
    mine = store.put(b"object")
    theirs = Artifact(sha256=mine.sha256, uri="file:///elsewhere", size=mine.size)
    assert store.get(theirs) == b"object"


def test_an_artifact_store_that_cannot_be_made_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Misconfigured, match="ASSAY_ARTIFACTS_URI"):
        ArtifactStore((tmp_path / "file" / "store").as_uri())


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("assay.fact.>", "assay.fact.goal.accepted.any.g1", True),
        ("assay.fact.>", "assay.fact", False),
        ("assay.*.goal", "assay.fact.goal", True),
        ("assay.*.goal", "assay.fact.sub.goal", False),
        ("assay.fact", "assay.fact.goal", False),
    ],
)
def test_subjects_match_as_in_nats(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=5))
def test_a_subject_matches_itself_and_everything(tokens: list[str]) -> None:
    subject = ".".join(tokens)
    assert matches(subject, subject)
    assert matches(">", subject)
    assert not matches(f"{subject}.>", subject)


def test_every_fact_is_stated_by_some_service() -> None:
    assert {fact for facts in OUTPUTS.values() for fact in facts} == set(FACTS.values())


def test_every_input_is_another_services_output() -> None:
    for service, facts in INPUTS.items():
        others = {fact for other, stated in OUTPUTS.items() if other != service for fact in stated}
        assert set(facts) <= others


def test_only_the_admin_may_administer_streams_and_only_people_and_the_admin_may_ask() -> None:
    for user, allowed in permissions().items():
        if user == ADMIN:
            continue
        assert not any("STREAM.CREATE" in subject or "STREAM.DELETE" in subject for subject in allowed.publish)
        assert not any("STREAM.PURGE" in subject or "STREAM.UPDATE" in subject for subject in allowed.publish)
        assert any(matches(subject, "assay.intake.goal.submitted.g1") for subject in allowed.publish) == (
            user == PERSON
        )


def test_a_person_may_state_no_fact_and_no_worker_another_workers_fact() -> None:
    allowed = permissions()
    assert not any(matches(subject, "assay.fact.champion.crowned.any.g1") for subject in allowed[PERSON].publish)
    for service in SERVICES:
        may = any(matches(subject, "assay.fact.champion.crowned.any.g1") for subject in allowed[service].publish)
        assert may == (service == "librarian")


def test_a_log_level_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_LOG_LEVEL", "loud")
    with pytest.raises(Misconfigured, match="ASSAY_LOG_LEVEL"):
        read_settings()
    assert "LOUD" not in logging.getLevelNamesMapping()
