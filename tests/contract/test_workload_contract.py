"""The contract of workloads, and `assay workload check`: each clause can be broken, and says where."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from kernel_lab.verify.workload_contract import CONTRACT, Kept, examine
from kernel_lab.workloads.reduce_sum import REDUCE_SUM
from kernel_lab.workloads.softmax import SOFTMAX
from kernel_lab.workloads.workload import Arrays, Axes, Buffer, Call, Claim, Distribution, Relation, Steps, Workload
from schemas.faults import Misconfigured
from schemas.goal import Shape
from services.console.commands.workload import shown_problems
from services.console.main import application
from services.console.workload_file import load_workloads

app = application()

ROOT = Path(__file__).parents[2]


ROWS = replace(
    SOFTMAX,
    smoke_axes=({"R": 0, "C": 1}, {"R": 1, "C": 2}, {"R": 2, "C": 7}, {"R": 3, "C": 1}),
    shapes={name: tuple(Shape(axes={"R": r, "C": 63}) for r in (1, 13)) for name in ("small", "serving", "large")},
)
"""Softmax at sizes that take no time."""
VECTOR = replace(
    REDUCE_SUM,
    smoke_axes=tuple({"N": n} for n in (0, 1, 2, 3, 64)),
    shapes={name: (Shape(axes={"N": 1023}),) for name in ("small", "serving", "large")},
)


def drawing(change: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[Distribution, ...]:
    """Softmax's first distribution, its draws changed."""
    first = ROWS.distributions[0]
    return (replace(first, draw=lambda axes, rng: change(first.draw(axes, rng))),)


def zeros_are_due(inputs: Arrays, axes: Axes, _rng: np.random.Generator) -> Steps:
    got = yield Call(inputs, axes)
    return (Claim("zeros", got["y"], np.zeros_like(got["y"])),)


def by_chance(inputs: Arrays, axes: Axes, _rng: np.random.Generator) -> Steps:
    factor = np.float32(1 + np.random.default_rng().random())
    got = yield Call({"x": np.multiply(inputs["x"], factor, dtype=np.float32)}, axes)
    return (Claim("anything", got["y"], got["y"]),)


def nothing_is_due(inputs: Arrays, axes: Axes, _rng: np.random.Generator) -> Steps:
    got = yield Call(inputs, axes, judged=False)
    return (Claim("itself", got["y"], got["y"]),)


def constant(value: float) -> Callable[..., dict[str, Any]]:
    return lambda _inputs, _axes, _scalars, exact: {"y": np.full_like(exact["y"], value)}


def one(*sizes: tuple[int, int]) -> Any:
    return {name: tuple(Shape(axes={"R": r, "C": c}) for r, c in sizes) for name in ("small", "serving", "large")}


BROKEN: dict[str, tuple[Workload, str]] = {
    "a keyword for a name": (replace(ROWS, axes=("R", "for")), "no name"),
    "one distribution twice": (replace(ROWS, distributions=ROWS.distributions[:1] * 2), "one name"),
    "an unknown axis": (replace(ROWS, outputs=(Buffer("y", ("R", "Q")),)), "axis Q"),
    "no axis minimum": (replace(ROWS, axis_minimum={"R": 0}), "axis_minimum"),
    "too many scalars": (replace(ROWS, scalars={f"s{n}": 1.0 for n in range(5)}), "more arguments"),
    "no formula": (replace(ROWS, formula=" "), "formula is empty"),
    "no relation": (replace(ROWS, relations=()), "no metamorphic relation"),
    "no zero mean": (
        replace(ROWS, distributions=tuple(replace(d, zero_mean=False) for d in ROWS.distributions)),
        "zero_mean",
    ),
    "float64 draws": (
        replace(ROWS, distributions=drawing(lambda d: {"x": d["x"].astype(np.float64)})),
        "not float32",
    ),
    "infinite draws": (replace(ROWS, distributions=drawing(lambda d: {"x": d["x"] * np.inf})), "not finite"),
    "draws of its own chance": (
        replace(ROWS, distributions=drawing(lambda d: {"x": d["x"] + np.float32(np.random.default_rng().random())})),
        "does not repeat",
    ),
    "a float32 reference": (
        replace(ROWS, reference=lambda i, a, s: {"y": ROWS.reference(i, a, s)["y"].astype(np.float32)}),
        "not float64",
    ),
    "a negative bound": (replace(ROWS, bound=constant(-1.0)), "negative bound"),
    "a bound too narrow": (replace(ROWS, bound=constant(1e-12)), "honest float32 is refused"),
    "no bound at all": (replace(ROWS, bound=constant(np.inf)), "past the bound"),
    "a bound for zeros": (replace(ROWS, bound=constant(2.0)), "passes with zeros"),
    "half precision for a yardstick": (
        replace(
            ROWS,
            bound=constant(1e-2),
            index_order_f32=lambda i, a, s: {
                "y": ROWS.index_order_f32(i, a, s)["y"].astype(np.float16).astype(np.float32)
            },
        ),
        "half precision pass",
    ),
    "an exact tier of fractions": (
        replace(VECTOR, exact=Distribution("integers", VECTOR.distributions[0].draw, zero_mean=False)),
        "not all integers",
    ),
    "an exact tier that rounds": (
        replace(
            VECTOR,
            exact=Distribution("integers", lambda a, _: {"x": np.full(a["N"], 8.0, np.float32)}, zero_mean=False),
        ),
        "some order of summing",
    ),
    "a reference beside the exact one": (
        replace(
            VECTOR,
            index_order_f32=lambda i, a, s: {
                "y": np.add(VECTOR.index_order_f32(i, a, s)["y"], np.float32(0.5), dtype=np.float32)
            },
        ),
        "exactly",
    ),
    "a relation that honest code breaks": (
        replace(ROWS, relations=(Relation("never", "the outputs are zeros", steps=zeros_are_due),)),
        "does not hold for honest float32",
    ),
    "a relation of its own chance": (
        replace(ROWS, relations=(Relation("chance", "anything", steps=by_chance),)),
        "does not repeat from its seed",
    ),
    "a relation that anything keeps": (
        replace(ROWS, relations=(Relation("always", "anything", steps=nothing_is_due),)),
        "kept by a kernel that adds",
    ),
    "no prime among smoke sizes": (replace(ROWS, smoke_axes=({"R": 0, "C": 1}, {"R": 1, "C": 2})), "prime"),
    "no smoke size 1": (replace(ROWS, smoke_axes=({"R": 0, "C": 2},)), "no smoke size has"),
    "a smoke size below the minimum": (replace(ROWS, smoke_axes=({"R": 1, "C": 0},)), "below the minimum"),
    "nothing to do is never much": (replace(ROWS, bytes_read=lambda axes: 4 * axes["C"]), "R = 0 and moves"),
    "no large set": (replace(ROWS, shapes={k: v for k, v in ROWS.shapes.items() if k != "large"}), "large"),
    "even shapes only": (replace(ROWS, shapes=one((1, 64), (4, 64))), "odd C"),
    "no decode size": (replace(ROWS, shapes=one((2, 63), (4, 64))), "decode"),
    "a shape of another workload": (
        replace(ROWS, shapes={**ROWS.shapes, "large": VECTOR.shapes["large"]}),
        "does not give",
    ),
    "no bytes": (replace(ROWS, bytes_written=lambda _axes: 0), "bytes_written"),
    "serving shapes beyond a goal": (replace(ROWS, bytes_read=lambda _axes: 2**30), "one goal may have 1"),
    "a function that raises": (replace(ROWS, flops=lambda axes: axes["Z"]), "raises KeyError"),
}


@cache
def examined(name: str) -> tuple[Kept, ...]:
    return tuple(examine(BROKEN[name][0]))


@pytest.mark.parametrize("workload", [ROWS, VECTOR], ids=["rows", "vector"])
def test_what_the_mutants_start_from_is_whole(workload: Workload) -> None:
    assert [kept for kept in examine(workload) if kept.problems] == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_workload_is_told_what_is_wrong(name: str) -> None:
    words = BROKEN[name][1]
    said = [problem for kept in examined(name) for problem in kept.problems]
    assert any(words in problem for problem in said), said


def test_no_clause_is_there_for_show() -> None:
    broken = {kept.clause for name in BROKEN for kept in examined(name) if kept.problems}
    assert broken == {clause.statement for clause in CONTRACT}


# ---- from a file ----------------------------------------------------------------------------------------------------

GOOD = (ROOT / "kernel_lab" / "workloads" / "softmax.py").read_text(encoding="utf-8")


def checked(tmp_path: Path, text: str, *options: str) -> Any:
    file = tmp_path / "mine.py"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["workload", "check", str(file), *options])


def test_a_module_that_keeps_the_contract_exits_0(tmp_path: Path) -> None:
    done = checked(tmp_path, GOOD, "-o", "csv")
    assert done.exit_code == 0
    assert done.stdout.count(",kept,") == len(CONTRACT)


def test_a_module_that_breaks_it_exits_1_and_shows_the_first_few_problems(tmp_path: Path) -> None:
    done = checked(tmp_path, GOOD.replace('return {"y": softmax_bound', 'return {"y": 1e-6 * softmax_bound'))
    assert done.exit_code == 1
    assert "honest float32 is refused" in done.stdout
    assert "more" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "no Workload"),
        ("def f(:", ":1: not Python"),
        ("x = 1\ny = x / 0", ":2: ZeroDivisionError"),
        ("import kernel_lab.no_such_thing", "ModuleNotFoundError"),
        ("x = '\0'", "not Python"),
    ],
)
def test_a_file_without_a_workload_says_why(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Misconfigured, match=words):
        load_workloads(file)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe")
    for name, words in (("absent.py", "No such file"), ("binary.py", "not UTF-8"), (".", "directory")):
        with pytest.raises(Misconfigured, match=words):
            load_workloads(tmp_path / name)


def test_problems_beyond_a_few_are_counted() -> None:
    assert shown_problems(["a", "b", "c", "d", "e"]) == "a\nb\nc\n… and 2 more"
