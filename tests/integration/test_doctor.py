"""`assay doctor` says which isolation is in force, and why."""

from pathlib import Path

import pytest

from schemas.faults import Misconfigured
from services.console.commands import doctor
from services.console.commands.doctor import Finding, Health, examine
from services.runtime.settings import read_settings


def isolation_under(asked: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setenv("ASSAY_ISOLATION", asked)
    (found,) = [one for one in examine(read_settings(data_dir=folder)) if one.what == "isolation"]
    return found


def test_doctor_names_the_isolation_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = isolation_under("none", tmp_path, monkeypatch)
    assert (none.health, none.found) == (Health.WARNING, "none: asked for by name")
    landlock = isolation_under("landlock", tmp_path, monkeypatch)
    assert landlock.found.startswith("landlock: ")
    assert landlock.found.endswith("(ASSAY_ISOLATION=landlock)")
    assert isolation_under("auto", tmp_path, monkeypatch).found.partition(": ")[0] in ("bwrap", "landlock")


def test_doctor_calls_an_isolation_missing_that_does_not_work_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: str) -> None:
        raise Misconfigured("isolation 'bwrap' was asked for, but bwrap is not installed")

    monkeypatch.setattr(doctor, "isolation", refused)
    assert isolation_under("bwrap", tmp_path, monkeypatch).health is Health.MISSING
