"""What is checked in: nothing that a machine keeps for itself, above all no secrets."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT_BY_HAND = "benchmarks/results/"
"""Raw results of published figures: added one by one, so that trials are not."""


def ignored_but_tracked(root: Path) -> list[str]:
    """Tracked files that .gitignore names."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--ignored", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in listed if not path.startswith(KEPT_BY_HAND)]


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="not a git checkout")
def test_no_ignored_file_is_tracked() -> None:
    assert ignored_but_tracked(ROOT) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_tracked_env_file_is_found(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(".env\n")
    (tmp_path / ".env").write_text("PASSWORD=x\n")
    assert ignored_but_tracked(tmp_path) == []
    subprocess.run(["git", "-C", str(tmp_path), "add", "-f", ".env"], check=True)
    assert ignored_but_tracked(tmp_path) == [".env"]
