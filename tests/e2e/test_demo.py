"""`make demo` as a newcomer meets it: a proven champion, an audited log, and nothing left running."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from infra.embedded.postgres import SOCKET_FOLDER_PREFIX
from tests.fixtures.factory import ASSAY, Factory, processes_naming, wait_until
from tests.fixtures.own_spaces import PLANTED

pytestmark = [pytest.mark.slow, pytest.mark.alone]

REPOSITORY = Path(__file__).resolve().parents[2]
NO_IMPROVEMENT = 5


def demo(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*ASSAY, "demo", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # who runs the tests with nohup ignores it
    )


def nothing_is_left(folder: Path) -> None:
    wait_until(lambda: not processes_naming(str(folder)), "no process of the demo is left", 90.0)


def test_the_demo_reports_an_audited_outcome_and_rejects_a_planted_wrong_kernel(tmp_path: Path) -> None:
    """The planted variant writes an eighth of each row: wrong, and by far the fastest of its space."""
    running = demo(tmp_path, "-o", "json", ASSAY_EXTRA_SPACES="tests.fixtures.own_spaces")
    out, err = running.communicate(timeout=900)
    assert running.returncode == 0, err
    told: dict[str, Any] = json.loads(out)
    assert told["verification"]["intact"] is True
    report = told["report"]
    assert report["outcome"] in ("champion", "no_verified_improvement", "inconclusive")
    assert report["hold_out_gap_s"] == 5.0
    assert report["tally"]["proposed"] == 16
    planted = [row for row in report["rejects"] if row["reason"] == "incomplete_output"]
    assert planted, f"the planted variant was not rejected: {report['rejects']}"
    names = {row["name"] for row in report["baselines"]}
    assert {"numpy", "torch"} <= names
    assert sum(name.startswith("c_") for name in names) == 16
    if report["outcome"] == "champion":
        assert report["champion"]["variant"] != PLANTED
        assert report["champion"]["hold_out"]["kind"] == "hold_out"
        assert told["rejudged"]["stands"] is True
    nothing_is_left(tmp_path)
    take_home(Path(told["data"]), tmp_path / "taken home", report["outcome"])
    nothing_is_left(tmp_path)


def understands_ctrl_c(running: subprocess.Popen[str]) -> None:
    """Its imports have begun; what Ctrl-C means it has learnt before them (services/console/__main__.py)."""
    maps = Path(f"/proc/{running.pid}/maps")
    wait_until(lambda: "pydantic_core" in maps.read_text(), "the demo imports", every_s=0.01)


def take_home(data: Path, folder: Path, outcome: str) -> None:
    """A champion is exported from the demo's folder and checks out with gcc alone; without one the export says so."""
    factory = Factory(data, {"ASSAY_NULL_ROUTE": "true", "ASSAY_CPU_ROUTE": "false"})
    factory.up()
    exported = factory.run("champion", "export", "demo", "-o", str(folder))
    factory.down()
    if outcome != "champion":
        assert (exported.returncode, folder.exists()) == (NO_IMPROVEMENT, False), exported.stderr
        return
    assert exported.returncode == 0, exported.stderr
    checked = subprocess.run(
        ["make", "-C", folder, "check", "digest"], capture_output=True, text=True, timeout=300, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "champion: the same object as was raced" in checked.stdout


@pytest.mark.parametrize("after_s", [0.25, 4.0])
def test_ctrl_c_ends_the_demo_with_nothing_left_and_it_runs_again(tmp_path: Path, after_s: float) -> None:
    for _ in range(2):
        running = demo(tmp_path)
        understands_ctrl_c(running)
        time.sleep(after_s)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)
        assert running.returncode == 130, err
        assert "Traceback" not in err
        nothing_is_left(tmp_path)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_demo_leaves_no_process_and_no_socket(tmp_path: Path, how: signal.Signals) -> None:
    running = demo(tmp_path)
    noted = tmp_path / ".assay" / "demo-1" / "postgres" / "socket_folder"
    wait_until(lambda: noted.exists() and noted.read_text() != "", "Postgres has its socket's folder")
    folder = Path(noted.read_text())
    assert folder.name.startswith(SOCKET_FOLDER_PREFIX)
    running.send_signal(how)
    running.communicate(timeout=120)
    nothing_is_left(tmp_path)
    assert not folder.exists()


def test_only_the_last_two_demos_are_kept(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        (tmp_path / ".assay" / f"demo-{n}").mkdir(parents=True)
    running = demo(tmp_path)
    wait_until((tmp_path / ".assay" / "demo-4").exists, "it has its folder")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert sorted(path.name for path in (tmp_path / ".assay").iterdir()) == ["demo-3", "demo-4"]
