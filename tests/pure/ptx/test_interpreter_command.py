"""`assay ptx run`: exit statuses, formats, arguments, and bad input in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kernel_lab.ptx.api import Buffer, Launch, LaunchRefused, Verdict, run
from kernel_lab.ptx.arguments import read_arguments
from schemas.faults import Fault, Misconfigured
from services.console.main import application
from tests.pure.ptx.lines import STORE, text_of

app = application()

GOOD = f"mul.wide.u32 %d0, %i, 4; add.s64 %d0, %in, %d0; ld.global.u32 %r0, [%d0]; {STORE}"
PLACE = ["--entry", "k", "--grid", "1", "--block", "32"]
ARGUMENTS = ["--arg", "in:u32[32]=arange", "--arg", "y:out:u32[32]"]


@pytest.fixture
def ptx(tmp_path: Path) -> Path:
    """A right kernel in a file."""
    file = tmp_path / "k.ptx"
    file.write_text(text_of(GOOD))
    return file


def _run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["ptx", "run", *map(str, words)])
    if isinstance(done.exception, Fault):
        raise done.exception
    return done.exit_code, done.stdout


def test_a_pass_exits_0_and_saves_its_outputs(ptx: Path, tmp_path: Path) -> None:
    status, out = _run(ptx, *PLACE, *ARGUMENTS, "--save", tmp_path / "outputs", "--stats")
    assert status == 0
    assert out.startswith("pass (executor ")
    assert "ld.global.u32" in out
    assert np.load(tmp_path / "outputs" / "y.npy").tolist() == list(range(32))


def test_a_failure_exits_1_and_names_its_place(ptx: Path) -> None:
    status, out = _run(ptx, *PLACE, "--arg", "x:in:u32[30]=7", "--arg", "y:out:u32[32]", "-o", "json")
    report = json.loads(out)
    assert status == 1
    assert report["verdict"] == "fail"
    (found,) = report["diagnostics"]
    assert (found["kind"], found["lane"], found["buffer"], found["count"]) == ("out_of_bounds", 30, "x", 2)


def test_a_switched_off_checker_says_nothing(ptx: Path) -> None:
    assert _run(ptx, *PLACE, "--arg", "x:in:u32[30]=7", "--arg", "y:out:u32[32]", "--without", "bounds")[0] == 0


def test_no_verdict_exits_8(tmp_path: Path) -> None:
    unknown, endless = tmp_path / "unknown.ptx", tmp_path / "endless.ptx"
    unknown.write_text(text_of("frobnicate.b32 %r0;"))
    endless.write_text(text_of("EVER: bra EVER;"))
    assert _run(unknown, *PLACE, *ARGUMENTS, "-o", "json")[0] == 8
    status, out = _run(endless, *PLACE, *ARGUMENTS, "--budget", 500, "-o", "json")
    assert (status, json.loads(out)["verdict"]) == (8, "timeout")


BAD = [
    (["--entry", "other", "--grid", "1", "--block", "32"], ARGUMENTS, "no entry 'other'"),
    (["--entry", "k", "--grid", "0", "--block", "32"], ARGUMENTS, "grid.x is 0"),
    (["--entry", "k", "--grid", "1,2,3,4", "--block", "32"], ARGUMENTS, "--grid"),
    (["--entry", "k", "--grid", "1", "--block", "many"], ARGUMENTS, "--block"),
    (PLACE, ARGUMENTS[:2], "takes 2 parameters; 1"),
    (PLACE, ["--arg", "in:u32[32]=sevens", *ARGUMENTS[2:]], "fill with normal"),
    (PLACE, ["--arg", "in:q32[32]", *ARGUMENTS[2:]], "no type q32"),
    (PLACE, ["--arg", "nonsense", *ARGUMENTS[2:]], "write a buffer as"),
    (PLACE, ["--arg", "i32=5", *ARGUMENTS[2:]], "4"),
    (PLACE, [*ARGUMENTS, "--without", "everything"], "no such checker"),
]


@pytest.mark.parametrize(("place", "arguments", "message"), BAD)
def test_bad_input_is_refused_with_a_reason(ptx: Path, place: list[str], arguments: list[str], message: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        _run(ptx, *place, *arguments)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        _run(tmp_path / "missing.ptx", *PLACE)


def test_arguments_say_type_shape_and_content(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 3), 9, "f4"))
    texts = [f"a:in:f32[2,3]={tmp_path}/x.npy", "in:bf16[4]=ones", "inout:i8[5]=-3", "f32=1e-6", "u64=0x10", "bf16=1.0"]
    a, b, c, eps, size, half = read_arguments(texts, seed=1)
    assert isinstance(a, Buffer)
    assert isinstance(b, Buffer)
    assert isinstance(c, Buffer)
    assert (a.name, a.array.tolist(), b.name, b.array.tolist()) == ("a", [[9.0] * 3] * 2, "arg1", [0x3F80] * 4)
    assert (c.role, str(c.array.dtype), c.array.tolist()) == ("inout", "int8", [-3] * 5)
    assert (eps, size, half) == (np.float32(1e-6), np.uint64(16), np.uint16(0x3F80))


def test_the_same_seed_draws_the_same_inputs() -> None:
    (first,), (second,), (other,) = (read_arguments(["in:f32[9]=normal"], seed) for seed in (1, 1, 2))
    assert isinstance(first, Buffer)
    assert isinstance(second, Buffer)
    assert isinstance(other, Buffer)
    assert (first.array == second.array).all()
    assert (first.array != other.array).any()


@pytest.mark.parametrize("text", ["in:f32[2]=missing.npy", "out:f32[2]=ones", "i8=300", "i32=1.5"])
def test_arguments_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(LaunchRefused):
        read_arguments([text], seed=0)


def test_one_buffer_given_twice_is_worked_on_in_place() -> None:
    both = Buffer(np.arange(32, dtype=np.uint32), "inout", "both")
    body = f"mul.wide.u32 %d0, %i, 4; add.s64 %d0, %in, %d0; ld.global.u32 %r0, [%d0]; add.u32 %r0, %r0, 1; {STORE}"
    report = run(text_of(body), Launch("k", (1, 1, 1), (32, 1, 1), (both, both)))
    assert report.verdict is Verdict.PASS
    assert report.outputs["both"].tolist() == list(range(1, 33))
    assert both.array.tolist() == list(range(32))
