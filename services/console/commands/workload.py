"""`assay workload`: what can be made faster."""

from typing import Annotated, Any

import typer

from kernel_lab.spaces import SPACES
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.faults import Misconfigured
from services.console.output import Column, Format, OutputOption, emit_record, emit_records, stdout

app = typer.Typer(no_args_is_help=True, help="What can be made faster.")

COLUMNS = (
    Column("name", "workload"),
    Column("summary", "what it computes"),
    Column("languages", "languages", ", ".join),
    Column("signature", "a C candidate defines"),
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


def _show_text(record: dict[str, Any]) -> None:
    out = stdout()
    for key in ("name", "summary", "formula", "signature", "bound"):
        out.print(f"{key:>14}  {record[key]}", markup=False)
    out.print(f"{'distributions':>14}  {', '.join(record['distributions'])}", markup=False)
    for title in ("relations", "variants", "shapes"):
        for name, value in record[title].items():
            out.print(f"{title:>14}  {name}: {value}", markup=False)
