"""The ladder on real files and processes: every bad input, every isolation, replay, and the verifier's effect."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lab.backends.backend import Built
from kernel_lab.machine import machine_class
from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.draws import SEED_NAMES
from kernel_lab.verify.file import to_json, verify_file, verify_source
from kernel_lab.verify.subject import Depth, Plan
from kernel_lab.workloads import WORKLOADS
from schemas.enums import JudgedAs, Language, Reason, Rung, RungStatus
from schemas.envelope import due
from schemas.events import CounterexampleKept, GenerationDue
from schemas.faults import Misconfigured
from schemas.verdict import Judgement
from schemas.work import MAX_SOURCE_BYTES, Artifact, Build, Kernel, MachineClass, Task
from services.runtime.artifacts import ArtifactStore
from services.runtime.settings import Settings
from services.verifier.core import Prove, Verify
from services.verifier.work import open_effect
from tests.pure.floor import Floor
from tests.search_story import task
from tests.zoo.inmates import Inmate, inmates, told

RMS_NORM = WORKLOADS["rms_norm"]
PLAN = Plan(RMS_NORM.shapes["small"])
ZOO = {inmate.name: inmate for kind in ("good", "bad") for inmate in inmates(kind)}
PLAIN = ZOO["rms_norm__plain"]
PLAIN_KERNEL = Kernel(language=Language.C, source=PLAIN.source.decode(), threads=1, fingerprint="plain")
KEYS = ["verdict", "rung", "reason", "message", "worst", "rungs", "seeds"]


@pytest.fixture(scope="module")
def machine() -> MachineClass:
    return machine_class()


@pytest.fixture(scope="module")
def court() -> Court:
    return open_court("auto")


@pytest.fixture(scope="module", params=["bwrap", "landlock", "none"])
def each_court(request: pytest.FixtureRequest) -> Court:
    try:
        return open_court(request.param)
    except Misconfigured as reason:
        pytest.skip(f"this machine refuses it: {reason}")


def verified(path: Path) -> Judgement:
    return verify_file(path, RMS_NORM, RMS_NORM.shapes["small"], cheap=True)


BAD_FILES: dict[str, tuple[bytes, Rung, Reason]] = {
    "empty": (b"", Rung.STATIC, Reason.NOT_TEXT),
    "blank": (b" \n\t\n", Rung.STATIC, Reason.NOT_TEXT),
    "binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe", Rung.STATIC, Reason.NOT_TEXT),
    "not UTF-8": ("/* größe */".encode("latin-1"), Rung.STATIC, Reason.NOT_TEXT),
    "a NUL byte": (b"void rms_norm(void) {}\0", Rung.STATIC, Reason.NOT_TEXT),
    "huge": (b"/" * (MAX_SOURCE_BYTES + 1), Rung.STATIC, Reason.TOO_LARGE),
    "launch data that is no JSON": (b"// assay: {flags}\n" + PLAIN.source, Rung.STATIC, Reason.BAD_LAUNCH_DATA),
    "a flag that is not allowed": (
        b'// assay: {"flags": ["-fplugin=evil.so"]}\n' + PLAIN.source,
        Rung.STATIC,
        Reason.FLAG_NOT_ALLOWED,
    ),
    "another signature": (
        b"#include <stdint.h>\nvoid rms_norm(double *x, int64_t n) { x[n] = 0; }\n",
        Rung.STATIC,
        Reason.WRONG_SIGNATURE,
    ),
    "another function": (b"void softmax_of_mine(void) {}\n", Rung.STATIC, Reason.NO_ENTRY),
    "no C at all": (b"import numpy as np\n", Rung.LOAD, Reason.DOES_NOT_COMPILE),
    "two definitions of the entry": (PLAIN.source + b"\n" + PLAIN.source, Rung.LOAD, Reason.DOES_NOT_COMPILE),
    "an include that does not exist": (b"#include <cuda.h>\n", Rung.LOAD, Reason.DOES_NOT_COMPILE),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_file_that_is_no_kernel_is_rejected_with_its_reason(what: str, tmp_path: Path) -> None:
    body, rung, reason = BAD_FILES[what]
    path = tmp_path / "k.c"
    path.write_bytes(body)
    judgement = verified(path)
    assert (judgement.verdict, judgement.rung, judgement.reason) == (JudgedAs.REJECTED, rung, reason)
    assert judgement.message
    assert list(to_json(judgement)) == KEYS


def test_a_file_of_many_gigabytes_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.touch()
    os.truncate(path, 1 << 40)
    assert verified(path).reason is Reason.TOO_LARGE


@pytest.mark.parametrize("name", ["absent.c", "."])
def test_a_file_that_cannot_be_read_is_a_fault_of_the_caller(name: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"directory|file"):
        verified(tmp_path / name)


def test_what_is_printed_has_exactly_the_keys_that_outsiders_script_against(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_bytes(PLAIN.source)
    told_json = json.loads(json.dumps(to_json(verified(path)), allow_nan=False))
    assert list(told_json) == KEYS
    assert told_json["verdict"] == "verified"
    assert told_json["rung"] is told_json["reason"] is told_json["message"] is None
    assert [row["rung"] for row in told_json["rungs"]] == ["v0_static", "v1_load", "v2_smoke", "v3_numeric"]
    assert 0 < told_json["worst"]["margin"] <= 1


def test_deep_is_more_draws_and_the_rungs_above_each_with_checks_of_its_own(
    court: Court, machine: MachineClass
) -> None:
    cheap = verify_source(PLAIN.source, RMS_NORM, PLAN, court, machine)
    deep = verify_source(PLAIN.source, RMS_NORM, replace(PLAN, depth=Depth.DEEP), court, machine)
    assert deep.verdict is JudgedAs.VERIFIED, deep.message
    assert [r.rung for r in cheap.rungs] == [Rung.STATIC, Rung.LOAD, Rung.SMOKE, Rung.NUMERIC]
    above = [Rung.METAMORPHIC, Rung.FUZZ, Rung.REPEAT, Rung.SANITIZERS]
    assert [r.rung for r in deep.rungs] == [*(r.rung for r in cheap.rungs), *above]
    assert all(r.checks for r in deep.rungs)
    assert deep.rungs[3].checks > cheap.rungs[3].checks


def without_sanitizers(folder: Path) -> dict[str, str]:
    """An environment whose gcc is one that came without libasan."""
    shim = folder / "bin" / "gcc"
    shim.parent.mkdir()
    shim.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-fsanitize*) echo "/usr/bin/ld: cannot find -lasan" >&2; exit 1;; esac\n'
        f'exec {shutil.which("gcc")} "$@"\n'
    )
    shim.chmod(0o755)
    return {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"}


@pytest.mark.long
def test_without_sanitizers_there_is_no_verdict_and_the_rung_is_named(tmp_path: Path) -> None:
    kernel = tmp_path / "k.c"
    kernel.write_bytes(PLAIN.source)
    command = [sys.executable, "-m", "services.console", "candidate", "verify", str(kernel)]
    done = subprocess.run(
        [*command, "--workload", "rms_norm", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        env=without_sanitizers(tmp_path),
    )
    assert done.returncode == 8, done.stderr
    said = json.loads(done.stdout)
    assert (said["verdict"], said["rung"]) == ("no_verdict", "v7_sanitizers")
    assert "libasan" in said["message"]
    assert said["rungs"][-1]["status"] == "unsupported"


def test_a_broken_relation_is_kept_and_tried_first_on_the_next(court: Court, machine: MachineClass) -> None:
    inmate = ZOO["rms_norm__clamps_its_weights"]
    first = verify_source(inmate.source, RMS_NORM, inmate.plan, court, machine, inmate.seeds)
    assert first.counterexample is not None
    assert first.counterexample.distribution == "normal/power_of_two_scaling"
    known = replace(PLAN, counterexamples=(first.counterexample,))
    assert verify_source(inmate.source, RMS_NORM, PLAN, court, machine).verdict is JudgedAs.VERIFIED
    cheap = verify_source(inmate.source, RMS_NORM, known, court, machine)
    assert (cheap.rung, cheap.reason) == (Rung.NUMERIC, Reason.COUNTEREXAMPLE)
    assert verify_source(PLAIN.source, RMS_NORM, known, court, machine).verdict is JudgedAs.VERIFIED


def test_fuzz_shrinks_what_it_finds_and_what_it_keeps_catches_cheaply(court: Court, machine: MachineClass) -> None:
    inmate = ZOO["rms_norm__wrong_between_the_sizes"]
    found = verify_source(inmate.source, RMS_NORM, inmate.plan, court, machine, inmate.seeds).counterexample
    assert found is not None
    assert found.axes == {"T": 1, "H": 301}
    known = replace(PLAN, counterexamples=(found,))
    assert verify_source(inmate.source, RMS_NORM, PLAN, court, machine).verdict is JudgedAs.VERIFIED
    assert verify_source(inmate.source, RMS_NORM, known, court, machine).reason is Reason.COUNTEREXAMPLE


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "rms_norm__plain",
        "reduce_sum__openmp_reduction",
        "rms_norm__reads_past_the_end",
        "rms_norm__borrows_its_input",
        "rms_norm__exits_with_status_0",
        "rms_norm__flips_flush_to_zero",
        "rms_norm__more_threads_than_it_asked_for",
        "rms_norm__reads_past_its_scratch",
        "rms_norm__two_threads_or_nothing",
    ],
)
def test_every_isolation_gives_the_same_verdict_and_is_named_in_it(
    name: str, each_court: Court, machine: MachineClass
) -> None:
    inmate = ZOO[name]
    judgement = verify_source(inmate.source, inmate.workload, inmate.plan, each_court, machine, inmate.seeds)
    assert told(judgement) == inmate.expect, judgement.message
    assert judgement.isolation == each_court.isolation


@pytest.mark.parametrize(
    "name",
    ["rms_norm__plain", "reduce_sum__rounds_its_terms", "softmax__no_maximum", "rms_norm__wrong_between_the_sizes"],
)
def test_the_logged_seeds_give_the_same_verdict_again(name: str, court: Court, machine: MachineClass) -> None:
    inmate = ZOO[name]

    def judged(seeds: dict[str, int] | None) -> Judgement:
        return verify_source(inmate.source, inmate.workload, inmate.plan, court, machine, seeds)

    first = judged(None)
    again, another = judged(first.seeds), judged(None)
    same = {"verdict", "rung", "reason", "worst", "seeds", "input_digests", "counterexample", "ladder"}
    assert first.model_dump(include=same) == again.model_dump(include=same)
    assert another.seeds != first.seeds
    assert another.input_digests != first.input_digests
    assert told(another) == told(first)


def test_a_long_sum_does_not_hide_the_smaller_format_of_a_short_one(court: Court, machine: MachineClass) -> None:
    """Errors of f32 grow with the length: pooled over all sizes, the longest would set the class by luck."""
    inmate = ZOO["reduce_sum__rounds_its_terms"]
    for base in range(8):
        seeds = dict.fromkeys(SEED_NAMES, base)
        judgement = verify_source(inmate.source, inmate.workload, inmate.plan, court, machine, seeds)
        assert told(judgement) == inmate.expect, judgement.message


def test_a_counterexample_catches_its_candidate_again_under_other_seeds(court: Court, machine: MachineClass) -> None:
    inmate = ZOO["rms_norm__small_magnitudes_only"]
    first = verify_source(inmate.source, RMS_NORM, PLAN, court, machine)
    assert first.counterexample is not None
    known = replace(PLAN, counterexamples=(first.counterexample,))
    second = verify_source(inmate.source, RMS_NORM, known, court, machine)
    assert second.reason is Reason.COUNTEREXAMPLE
    assert second.counterexample == first.counterexample
    assert verify_source(PLAIN.source, RMS_NORM, known, court, machine).verdict is JudgedAs.VERIFIED


def test_an_input_that_one_goal_kept_catches_a_candidate_of_another(
    court: Court, machine: MachineClass, settings: Settings
) -> None:
    """Curator to task to verifier: the second goal's task carries what the first one kept."""
    inmate = ZOO["rms_norm__wrong_between_the_sizes"]
    found = verify_source(inmate.source, RMS_NORM, inmate.plan, court, machine, inmate.seeds).counterexample
    assert found is not None
    floor = Floor()
    floor.record(due("first", "kept", CounterexampleKept(goal_id="first", counterexample=found)))
    floor.with_route().accept("second")
    floor.search()
    carried = floor.facts(GenerationDue)[0].task.counterexamples
    work, perform = work_of(inmate, court, machine, settings), open_effect(settings)
    assert perform(work).verdict is JudgedAs.VERIFIED
    told_of_it = replace(work, task=work.task.model_copy(update={"counterexamples": carried}))
    assert perform(told_of_it).reason is Reason.COUNTEREXAMPLE


def linked_by_hand(folder: Path, source: bytes, *link_flags: str) -> bytes:
    """An object that our own compiler line would not make."""
    (folder / "k.c").write_bytes(source)
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc's own start files are what is tested")
    command = [compiler, "-O2", "-fPIC", "-fopenmp", "-shared", *link_flags, "k.c", "-o", "k.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.so").read_bytes()


def judged_object(content: bytes, court: Court, machine: MachineClass, checks: Checks = ALL_CHECKS) -> Judgement:
    return court.judge(content, PLAIN_KERNEL, machine, RMS_NORM, PLAN, checks=checks)


def test_fast_math_given_to_the_linker_is_seen_in_the_object_and_at_load(
    court: Court, machine: MachineClass, tmp_path: Path
) -> None:
    content = linked_by_hand(tmp_path, PLAIN.source, "-ffast-math")
    assert told(judged_object(content, court, machine)) == "v0_static forbidden_construct"
    at_load = judged_object(content, court, machine, replace(ALL_CHECKS, constructors=False))
    assert told(at_load) == "v1_load fp_state_changed"


def test_an_object_without_the_entry_or_from_another_library_is_refused(
    court: Court, machine: MachineClass, tmp_path: Path
) -> None:
    other = PLAIN.source.replace(b"void rms_norm(", b"void not_it(")
    assert told(judged_object(linked_by_hand(tmp_path, other), court, machine)) == "v0_static no_entry"
    foreign = linked_by_hand(tmp_path, PLAIN.source, "-Wl,--no-as-needed", "-ldl", "-lresolv")
    judgement = judged_object(foreign, court, machine)
    assert told(judgement) == "v0_static forbidden_import"
    assert "libresolv" in (judgement.message or "")


def test_without_a_disassembler_there_is_no_verdict_and_never_a_pass(
    court: Court, machine: MachineClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = court.backend.compile(PLAIN_KERNEL, "rms_norm", machine)
    assert isinstance(built, Built)
    monkeypatch.setenv("PATH", "/nonexistent")
    judgement = judged_object(built.object, court, machine)
    assert judgement.verdict is JudgedAs.NO_VERDICT
    assert judgement.rungs[-1].status is RungStatus.UNSUPPORTED
    assert "binutils" in (judgement.message or "")


def test_bytes_that_are_no_object_are_no_verdict(court: Court, machine: MachineClass) -> None:
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(500)):
        judgement = judged_object(content, court, machine)
        assert judgement.verdict is JudgedAs.NO_VERDICT
        assert judgement.rungs[-1].status is RungStatus.TOOL_FAILURE


# ---- the verifier's effect ------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


def work_of(inmate: Inmate, court: Court, machine: MachineClass, settings: Settings) -> Verify:
    """What the compiler would have handed on."""
    kernel = Kernel(language=Language.C, source=inmate.source.decode(), threads=1, fingerprint=inmate.name)
    built = court.backend.compile(kernel, inmate.workload.name, machine)
    assert isinstance(built, Built)
    stored = ArtifactStore(settings.artifacts).put(built.object)
    build = Build(kernel=kernel, object=stored, command=built.command, toolchain=built.toolchain)
    return Verify(build, _task(inmate, machine))


def _task(inmate: Inmate, machine: MachineClass) -> Task:
    return task(machine=machine, workload=inmate.workload.name, shapes=inmate.workload.shapes["small"])


def test_the_effect_judges_a_stored_object_under_fresh_seeds_each_time(
    court: Court, machine: MachineClass, settings: Settings
) -> None:
    perform = open_effect(settings)
    work = work_of(PLAIN, court, machine, settings)
    candidate, finalist = perform(work), perform(Prove(work.build, work.task))
    assert candidate.verdict is finalist.verdict is JudgedAs.VERIFIED
    assert candidate.seeds != finalist.seeds
    checks = [{result.rung: result.checks for result in one.rungs} for one in (candidate, finalist)]
    assert checks[1][Rung.NUMERIC] > checks[0][Rung.NUMERIC]


def test_a_lost_object_is_built_again_from_source(court: Court, machine: MachineClass, settings: Settings) -> None:
    work = work_of(PLAIN, court, machine, settings)
    shutil.rmtree(settings.data_dir / "artifacts")
    assert open_effect(settings)(work).verdict is JudgedAs.VERIFIED


def test_a_lost_object_that_cannot_be_built_to_its_digest_is_no_verdict(
    court: Court, machine: MachineClass, settings: Settings
) -> None:
    work = work_of(PLAIN, court, machine, settings)
    gone = Artifact(sha256="0" * 64, uri=work.build.object.uri, size=1)
    judgement = open_effect(settings)(replace(work, build=work.build.model_copy(update={"object": gone})))
    assert judgement.verdict is JudgedAs.NO_VERDICT
    assert "0000" in (judgement.message or "")


@pytest.mark.long
def test_an_earlier_verdicts_seeds_judge_the_same_way_from_the_command_line(tmp_path: Path) -> None:
    kernel, verdict = tmp_path / "k.c", tmp_path / "verdict.json"
    kernel.write_bytes(PLAIN.source)

    def judged(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "services.console", "candidate", "verify", str(kernel)]
        return subprocess.run(
            [*command, "--workload", "rms_norm", *arguments], capture_output=True, text=True, check=False
        )

    first = judged("-o", "json")
    verdict.write_text(first.stdout, encoding="utf-8")
    again = judged("-o", "json", "--seeds", str(verdict))
    for key in ("verdict", "seeds", "worst"):
        assert json.loads(again.stdout)[key] == json.loads(first.stdout)[key]
    refused = judged("--seeds", str(kernel))
    assert refused.returncode == 2
    assert "no verdict with seeds" in refused.stderr
