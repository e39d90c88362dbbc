"""A champion taken home: the folder builds and repeats its claim with gcc, make and libc alone, for every workload."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_lab.backends import GccBackend
from kernel_lab.backends.backend import Built
from kernel_lab.baselines import contenders
from kernel_lab.machine import machine_class
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Language
from schemas.faults import Misconfigured
from schemas.measurement import Contender
from schemas.work import Artifact, Baseline, Build, Kernel
from services.console.export.claim import NoChampion, read_claim
from services.console.export.evidence import evidence
from services.console.export.folder import draw_checks, require_free, write_folder
from tests.fixtures.champions import crowned
from tests.search_story import Story, goal, kernel

MACHINE = machine_class()
REPEATED, WRONG, NOT_FASTER = 0, 1, 5


def built(of: Kernel, workload: str) -> Build:
    made = GccBackend().compile(of, workload, MACHINE)
    assert isinstance(made, Built), made
    stored = Artifact(sha256=made.sha256, uri="memory://k.so", size=len(made.object))
    return Build(kernel=of, object=stored, command=made.command, toolchain=made.toolchain)


def c_baseline(workload: str, form: str) -> tuple[str, Build]:
    """Name and object of the single-threaded C baseline of that form."""
    specs = contenders(workload, MACHINE, MACHINE.threads)
    spec = next(one for one in specs if one.name.startswith(f"c_{form}_one_o3"))
    assert spec.kernel is not None
    return spec.name, built(spec.kernel, workload)


async def exported(
    folder: Path, workload: str, champion: Build, baseline: Baseline, *timed: Contender, shapes: int = 3
) -> Path:
    """The folder of a champion of `workload` at its first small shapes."""
    at = WORKLOADS[workload].shapes["small"][:shapes]
    log = await crowned(workload, MACHINE, at, champion, baseline, timed).in_memory()
    claim = await read_claim(log, "g1")
    write_folder(folder, claim, draw_checks(claim, silent), await evidence(log, claim))
    return folder


def silent(_what: str, _done: int, _total: int) -> None: ...


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """`command` in the folder, with nothing of this Python on its way."""
    bare = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True, timeout=300, check=False)


def make(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "make", "-s", *targets)


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "./bench", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "taken home"


@pytest.mark.parametrize("workload", WORKLOADS)
async def test_every_workload_is_exported_from_its_declaration_and_its_results_check_out(
    folder: Path, workload: str
) -> None:
    name, baseline = c_baseline(workload, "naive")
    _, champion = c_baseline(workload, "blocked")
    raced = Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline)
    await exported(folder, workload, champion, raced)
    made = make(folder, "all", "check", "digest")
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stderr == ""
    assert made.stdout.count("all within the bound") == 2
    assert made.stdout.count("the same object as was raced") == 2
    called = run(folder, sys.executable, "call_numpy.py")
    assert called.stdout == f"{workload}: recorded case 0 is within the bound\n", called.stderr
    compile((folder / "call_torch.py").read_text(), "call_torch.py", "exec")


@pytest.mark.parametrize(
    ("champion_is_slow", "status", "words"), [(True, NOT_FASTER, "NOT REPEATED"), (False, 0, "\nREPEATED")]
)
async def test_the_claim_is_repeated_with_an_interval_or_said_not_to_be(
    folder: Path, champion_is_slow: bool, status: int, words: str
) -> None:
    name, fast = c_baseline("rms_norm", "naive")
    spin = "for (volatile int i = 0; i < 400000; i++); float squares"
    slow_kernel = fast.kernel.model_copy(update={"source": fast.kernel.source.replace("float squares", spin)})
    slow = built(slow_kernel, "rms_norm")
    champion, baseline = (slow, fast) if champion_is_slow else (fast, slow)
    raced = Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline)
    await exported(folder, "rms_norm", champion, raced, shapes=1)
    assert make(folder).returncode == 0
    done = bench(folder, "--pairs", "3", "--quads", "3")  # a median of three withstands one stalled sample
    assert done.returncode == status, done.stdout + done.stderr
    assert words in done.stdout
    assert re.search(r"here: +[\d.]+x \[[\d.]+, [\d.]+\] at 99 %", done.stdout)
    assert "claimed: 1.250× [1.225, 1.275] at 99 % · FASTER · hold-out" in done.stdout


async def test_a_wrong_argument_gets_the_usage(folder: Path) -> None:
    name, baseline = c_baseline("reduce_sum", "naive")
    raced = Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline)
    await exported(folder, "reduce_sum", baseline, raced, shapes=1)
    assert make(folder, "bench").returncode == 0
    for wrong in (("--pairs", "1"), ("--pairs",), ("--quads", "x"), ("--fly",), ("--pairs", "3", "4")):
        done = bench(folder, *wrong)
        assert (done.returncode, done.stdout) == (2, ""), wrong
        assert "usage: bench" in done.stderr


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (("* r * w[h]", "* r * w[h] * 1.00001f"), "is WRONG at"),
        (("h < H; h++) y", "h < H - (t == T - 1); h++) y"), "is WRONG at"),
        (("float squares = 0.0f;", "float squares = 0.0f; if (t == 2) __builtin_trap();"), "ended by signal"),
    ],
    ids=["slightly wrong", "leaves the last one out", "crashes"],
)
async def test_a_kernel_that_is_wrong_is_never_timed(folder: Path, spoil: tuple[str, str], words: str) -> None:
    name, baseline = c_baseline("rms_norm", "naive")
    source = baseline.kernel.source.replace(*spoil)
    assert source != baseline.kernel.source
    wrong = built(baseline.kernel.model_copy(update={"source": source}), "rms_norm")
    await exported(folder, "rms_norm", wrong, Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline))
    assert make(folder).returncode == 0
    done = bench(folder)
    assert done.returncode == WRONG
    assert words in done.stdout + done.stderr
    assert "timing" not in done.stdout


LEAVES_ANY_ANSWER = "if (y[0] == y[0]) return;"
LEAVES_THE_RIGHT_ANSWER = """
    float s = 0.0f;
    for (int64_t h = 0; h < H; h++) s += x[h] * x[h];
    if (fabsf(y[0] - x[0] / sqrtf(s / (float)H + eps) * w[0]) <= 1e-6f * fabsf(y[0])) return;
"""


@pytest.mark.parametrize(
    ("early", "status", "words"),
    [(LEAVES_ANY_ANSWER, WRONG, "is WRONG at"), (LEAVES_THE_RIGHT_ANSWER, NOT_FASTER, "NOT REPEATED")],
    ids=["any", "the right one"],
)
async def test_a_kernel_that_returns_early_where_an_answer_is_gains_nothing(
    folder: Path, early: str, status: int, words: str
) -> None:
    name, baseline = c_baseline("rms_norm", "naive")
    head, brace, body = baseline.kernel.source.partition("{")
    source = head + brace + early + body
    lazy = built(baseline.kernel.model_copy(update={"source": source}), "rms_norm")
    raced = Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline)
    await exported(folder, "rms_norm", lazy, raced, shapes=1)
    assert make(folder).returncode == 0
    done = bench(folder, "--pairs", "3", "--quads", "2")
    assert done.returncode == status, done.stdout + done.stderr
    assert words in done.stdout
    assert "timing 3 pairs" in done.stdout, "nothing was wrong before it was timed"


async def test_the_page_calls_a_champion_from_numpy(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "use-a-champion.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import numpy.*?)```", page, re.DOTALL)
    name, baseline = c_baseline("rms_norm", "naive")
    await exported(folder, "rms_norm", baseline, Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline))
    assert make(folder, "librms_norm.so").returncode == 0
    (folder / "page.py").write_text(f"{code}\nassert abs(y - 1.0).max() < 1e-5\n")
    done = run(folder, sys.executable, "page.py")
    assert done.returncode == 0, done.stderr


async def test_a_claim_against_a_library_is_repeated_against_the_strongest_c_baseline_and_says_so(
    folder: Path,
) -> None:
    _, champion = c_baseline("rms_norm", "blocked")
    timed = tuple(
        Contender(name=spec.name, description="", status="screened", median_ns=(1e6 + number,) * 3)
        for number, spec in enumerate(contenders("rms_norm", MACHINE, MACHINE.threads))
    )
    numpy = Baseline(name="numpy", axes={}, median_ns=2e6)
    await exported(folder, "rms_norm", champion, numpy, *timed)
    strongest = next(one.name for one in timed if one.name.startswith("c_"))
    made = make(folder, "all", "check", "digest")
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"{strongest}: stands in for a library" in made.stdout
    assert f"the claim is against numpy, a library (2 ms when raced). {strongest}" in (folder / "README.md").read_text()
    assert f"| `baseline_{strongest}.c` | the strongest C baseline" in (folder / "README.md").read_text()


async def test_the_evidence_places_every_fact_in_the_chain(folder: Path) -> None:
    name, baseline = c_baseline("rms_norm", "naive")
    await exported(folder, "rms_norm", baseline, Baseline(name=name, axes={}, median_ns=2e6, artifact=baseline))
    found = json.loads((folder / "evidence.json").read_text())
    assert [fact["type"] for fact in found["facts"]] == [
        "goal.accepted.v1",
        "baseline.chosen.v1",
        "candidate.proposed.v1",
        "candidate.compiled.v1",
        "candidate.verified.v1",
        "candidate.measured.v1",
        "finalist.nominated.v1",
        "finalist.proven.v1",
        "race.due.v1",
        "race.finished.v1",
        "champion.crowned.v1",
    ]
    crowned_at = found["log"]["crowned_at"]
    assert crowned_at == {key: found["facts"][-1][key] for key in crowned_at}
    assert (found["log"]["head"]["position"], found["log"]["head"]["hash"]) == (
        crowned_at["position"],
        crowned_at["hash"],
    )
    assert (found["claim"]["ratio"]["low"], found["seeds"]) == (1.225, {"race": 7})


async def test_no_champion_an_unknown_goal_and_another_language_are_refused_each_in_its_words() -> None:
    story = Story()
    story.accepted(goal())
    log = await story.in_memory()
    with pytest.raises(NoChampion, match="still running") as refusal:
        await read_claim(log, "g1")
    assert refusal.value.exit_status == 5
    with pytest.raises(Misconfigured, match="no goal 'other'"):
        await read_claim(log, "other")
    null = Build(
        kernel=kernel("k").model_copy(update={"language": Language.NULL}),
        object=Artifact(sha256="0", uri="", size=0),
        command=("null",),
        toolchain="null",
    )
    told = crowned(
        "rms_norm", MACHINE, WORKLOADS["rms_norm"].shapes["small"], null, Baseline(name="x", axes={}, median_ns=1)
    )
    with pytest.raises(Misconfigured, match="only a C champion"):
        await read_claim(await told.in_memory(), "g1")


def test_a_folder_with_anything_in_it_is_left_alone(tmp_path: Path) -> None:
    require_free(tmp_path / "new")
    require_free(tmp_path)
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(Misconfigured, match="not empty"):
        require_free(tmp_path)
    with pytest.raises(Misconfigured, match="is a file"):
        require_free(tmp_path / "mine")
