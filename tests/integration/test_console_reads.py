"""What people read, from the command line on a real database: lineage, differences, lessons, pages, and a champion."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kernel_lab.backends import GccBackend
from kernel_lab.backends.backend import Built
from kernel_lab.baselines import contenders
from kernel_lab.machine import machine_class
from kernel_lab.workloads import WORKLOADS
from schemas.envelope import Envelope, encode
from schemas.events import LessonRecorded
from schemas.faults import Fault
from schemas.lesson import Lesson
from schemas.measurement import Interval
from schemas.work import Artifact, Baseline, Build
from services.console.main import application
from services.evidence.log import Incoming
from services.evidence.postgres_log import PostgresLog
from services.evidence.views import PostgresViews
from tests.fixtures.champions import crowned
from tests.fixtures.postgres import Database
from tests.pure.floor import Floor

app = application()

MACHINE = machine_class()
GOAL = "g1"


def built(form: str) -> tuple[str, Build]:
    spec = next(one for one in contenders("rms_norm", MACHINE, MACHINE.threads) if f"c_{form}_one_o3" in one.name)
    assert spec.kernel is not None
    made = GccBackend().compile(spec.kernel, "rms_norm", MACHINE)
    assert isinstance(made, Built)
    stored = Artifact(sha256=made.sha256, uri="memory://k.so", size=len(made.object))
    return spec.name, Build(kernel=spec.kernel, object=stored, command=made.command, toolchain=made.toolchain)


def told() -> list[Envelope[Any]]:
    """The goal `g`, played to its end by the curator, and the goal `g1`, which crowned a kernel that gcc can build."""
    name, baseline = built("naive")
    _, champion = built("blocked")
    raced = Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline)
    home = crowned("rms_norm", MACHINE, WORKLOADS["rms_norm"].shapes["small"][:1], champion, raced)
    said = Lesson(
        workload="rms_norm",
        condition={"machine": MACHINE.route, "gene": "tile", "value": "64"},
        statement="tile=64 is 1.20× as fast",
        effect=Interval(estimate=1.2, low=1.1, high=1.3, level=0.99),
        count=9,
        failures={},
    )
    home.say(LessonRecorded(goal_id=GOAL, generation=1, lesson=said, evidence=()))
    played = Floor().with_route().accept().play()
    return [recorded.envelope for recorded in (*played.log, *home.log)]


@pytest.fixture
async def assay(database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`assay …` on a log that holds the story, with its views."""
    log, views = PostgresLog(database.recorder_dsn), PostgresViews(database.recorder_dsn)
    await log.append([Incoming(encode(one), "epoch", seq) for seq, one in enumerate(told(), 1)])
    await views.start(log)
    await log.close()
    await views.close()
    monkeypatch.setenv("ASSAY_POSTGRES_DSN", database.reader_dsn)
    runner = CliRunner()

    def run(*arguments: str) -> Result:
        return runner.invoke(app, list(arguments))

    return run


async def in_thread(run: Callable[..., Result], *arguments: str) -> Result:
    """Commands run an event loop of their own."""
    return await asyncio.to_thread(run, *arguments)


async def test_lineage_diff_lessons_and_pages_are_read_from_the_log(assay: Callable[..., Result]) -> None:
    async def read(*arguments: str) -> Any:
        done = await in_thread(assay, *arguments, "-o", "json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    everyone = [row["candidate_id"] for row in await read("candidate", "list", "--goal", "g")]
    champion = (await read("goal", "show", "g"))["champion_id"]
    (line,) = await read("lineage", "g")
    assert (line["candidate_id"], line["status"]) == (champion, "champion")
    assert await read("lineage", champion[:13], "--to-best") == [line]
    assert (await read("candidate", "show", champion[:13]))["candidate_id"] == champion
    other = next(id_ for id_ in everyone if id_ != champion)
    differ = await read("diff", other, "g")
    assert (differ["a"]["candidate_id"], differ["b"]["candidate_id"], differ["same"]) == (other, champion, False)
    assert differ["diff"].splitlines()[-2:] == [f"-{await source(assay, other)}", f"+{await source(assay, champion)}"]
    assert "tile" in [row["gene"] for row in await read("lessons", "rms_norm")]
    assert await read("lessons", "softmax") == []
    assert [
        row["candidate_id"] for row in await read("candidate", "list", "--limit", "2", "--offset", "1")
    ] == everyone[1:3]
    page = await in_thread(assay, "candidate", "list", "--limit", "1")
    assert "--offset 1" in page.stderr


async def source(assay: Callable[..., Result], candidate: str) -> str:
    return (await in_thread(assay, "candidate", "source", candidate)).stdout.strip()


async def test_a_champion_is_exported_from_the_command_line_and_nothing_is_written_over(
    assay: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    done = await in_thread(assay, "champion", "export", GOAL, "-o", str(folder))
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(folder)
    assert {"Makefile", "README.md", "bench.c", "champion.c", "evidence.json"} <= {one.name for one in folder.iterdir()}
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]
    assert "names the folder" in str((await in_thread(assay, "champion", "export", GOAL, "-o", "json")).exception)
    for goal, where, words in ((GOAL, folder, "not empty"), ("nobody", tmp_path / "other", "no goal")):
        done = await in_thread(assay, "champion", "export", goal, "-o", str(where))
        assert isinstance(done.exception, Fault)
        assert words in str(done.exception)
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]
