"""`assay workload`: what can be made faster."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kernel_lab.spaces import SPACES
from kernel_lab.verify.workload_contract import CONTRACT, examine
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.faults import Misconfigured
from services.console.exits import Exit, exit_with
from services.console.output import (
    Column,
    Format,
    OutputOption,
    emit_record,
    emit_records,
    progress_steps,
    say,
    stdout,
)
from services.console.workload_file import load_workloads

app = typer.Typer(no_args_is_help=True, help="What can be made faster.")

COLUMNS = (
    Column("name", "workload"),
    Column("summary", "what it computes"),
    Column("languages", "languages", ", ".join),
    Column("signature", "a C candidate defines"),
)


PROBLEMS_SHOWN = 3
"""Of one clause, in text; -o json has all. Chosen: a bound that is wrong is wrong everywhere."""


def shown_problems(problems: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = [f"… and {len(problems) - PROBLEMS_SHOWN} more"] if len(problems) > PROBLEMS_SHOWN else []
    return "\n".join([*problems[:PROBLEMS_SHOWN], *more])


CLAUSES = (
    Column("workload", "workload"),
    Column("status", "status"),
    Column("clause", "clause"),
    Column("problems", "what is wrong", shown_problems),
)


def find(name: str) -> Workload:
    """The workload called `name`. Raises Misconfigured, listing what there is."""
    if name not in WORKLOADS:
        raise Misconfigured(f"no workload {name!r}; there are: {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


def record_of(workload: Workload) -> dict[str, Any]:
    """A workload as JSON."""
    spaces = {language: list(space.variants) for (name, language), space in SPACES.items() if name == workload.name}
    return {
        "name": workload.name,
        "summary": workload.summary,
        "formula": workload.formula,
        "signature": workload.signature(),
        "axes": list(workload.axes),
        "axis_minimum": dict(workload.axis_minimum),
        "languages": sorted(spaces),
        "variants": spaces,
        "bound": workload.bound_source,
        "distributions": [distribution.name for distribution in workload.distributions],
        "relations": {relation.name: relation.statement for relation in workload.relations},
        "shapes": {name: [dict(shape.axes) for shape in shapes] for name, shapes in workload.shapes.items()},
    }


@app.command("list")
def list_(output: OutputOption = Format.TEXT) -> None:
    """Every workload that a goal may name.

    Example: assay workload list
    """
    emit_records([record_of(workload) for workload in WORKLOADS.values()], output, COLUMNS, "no workloads")


@app.command()
def show(name: Annotated[str, typer.Argument(help="A workload's name.")], output: OutputOption = Format.TEXT) -> None:
    """One workload: formula, signature, domain, bound, shapes, design spaces.

    Example: assay workload show softmax
    """
    record = record_of(find(name))
    emit_record(record, output, lambda: _show_text(record))


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(help="A Python module that holds a Workload. It is run: check only your own.")
    ],
    output: OutputOption = Format.TEXT,
) -> None:
    """Whether a workload module keeps the contract that every built-in one keeps. Exit 0 it does, 1 it does not.

    Example: assay workload check my_workload.py
    """
    kept = [record for workload in load_workloads(file) for record in _examined(workload)]
    emit_records(kept, output, CLAUSES, "nothing was checked")
    broken = sum(record["status"] == "broken" for record in kept)
    if broken:
        say(f"{broken} of {len(kept)} clauses are broken; docs/add-a-workload.md says what each is for")
        exit_with(Exit.FAILED)


def _examined(workload: Workload) -> Iterator[dict[str, Any]]:
    """A record per clause, as it is examined."""
    with progress_steps() as told:
        for number, kept in enumerate(examine(workload)):
            told(kept.clause, number + 1, len(CONTRACT))
            status = "broken" if kept.problems else "kept"
            yield {"workload": workload.name, "clause": kept.clause, "status": status, "problems": list(kept.problems)}


def _show_text(record: dict[str, Any]) -> None:
    out = stdout()
    for key in ("name", "summary", "formula", "signature", "bound"):
        out.print(f"{key:>14}  {record[key]}", markup=False)
    out.print(f"{'distributions':>14}  {', '.join(record['distributions'])}", markup=False)
    for title in ("relations", "variants", "shapes"):
        for name, value in record[title].items():
            out.print(f"{title:>14}  {name}: {value}", markup=False)
