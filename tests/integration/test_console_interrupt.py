"""Ctrl-C while the console is still importing: one line and its status, whatever the import was doing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

IMPORTED = ["asyncio", "structlog", "typer", "services.console.main", "schemas.events", "services.evidence.log"]
WAIT = """import sys, time

def wait(event, about):
    if event == "import" and about[0] == "services.evidence.audit":
        time.sleep(300)

sys.addaudithook(wait)
"""
"""A sitecustomize: the console waits for a late Ctrl-C where it imports what comes after all of IMPORTED."""


@pytest.mark.parametrize("module", IMPORTED)
def test_ctrl_c_during_an_import_is_one_line_and_its_status(module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WAIT)
    path = os.pathsep.join((str(tmp_path), str(Path(__file__).resolve().parents[2])))
    console = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "services.console", "events", "verify", "--data", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert console.stderr is not None
    assert any(line.split("|")[-1].strip() == module for line in console.stderr)
    console.send_signal(signal.SIGINT)
    rest = [line for line in console.stderr if not line.startswith("import time:")]
    assert (console.wait(timeout=30), rest) == (130, ["interrupted\n"])
