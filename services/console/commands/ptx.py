"""`assay ptx`: run and check a GPU kernel on this machine's CPU. No GPU, no bus, no database."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kernel_lab.ptx.api import Checks, Launch, Report, Verdict, run
from kernel_lab.ptx.arguments import read_arguments
from kernel_lab.ptx.kernels.nvrtc import NoCudaCompiler, compiled
from kernel_lab.ptx.launch import STEP_BUDGET
from schemas.faults import Misconfigured
from services.console.exits import Exit, exit_with
from services.console.output import Format, OutputOption, emit_record, stdout

app = typer.Typer(no_args_is_help=True, help="Run and check GPU kernels with no GPU (docs/ptx-executor.md).")

EXITS = {
    Verdict.PASS: Exit.OK,
    Verdict.FAIL: Exit.FAILED,
    Verdict.UNSUPPORTED: Exit.NO_VERDICT,
    Verdict.TIMEOUT: Exit.NO_VERDICT,
}
CHECKS = tuple(field.name for field in fields(Checks))


@app.command("run")
def run_(
    file: Annotated[Path, typer.Argument(help="PTX, or a .cu file (needs the extra `cuda`).")],
    entry: Annotated[str, typer.Option("--entry", help="The kernel's name.")],
    grid: Annotated[str, typer.Option("--grid", help="CTAs, as 64 or 8,8 or 8,8,1.")],
    block: Annotated[str, typer.Option("--block", help="Threads of a CTA, likewise.")],
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg", help="One parameter, in order: in:f32[64,1024]=normal, out:f32[1024], i64=1024, f32=1e-6."
        ),
    ] = None,
    shared: Annotated[int, typer.Option("--shared", help="Bytes of dynamic shared memory.")] = 0,
    arch: Annotated[str, typer.Option("--arch", help="What a .cu is compiled for.")] = "sm_90",
    without: Annotated[
        list[str] | None, typer.Option("--without", help=f"Switch a checker off: {', '.join(CHECKS)}.")
    ] = None,
    budget: Annotated[int, typer.Option("--budget", help="Steps before the run times out.")] = STEP_BUDGET,
    seed: Annotated[int, typer.Option("--seed", help="What random inputs are drawn from.")] = 0,
    save: Annotated[Path | None, typer.Option("--save", help="A folder for the outputs, as NAME.npy.")] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Show what the kernel cost.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Run one launch with every checker. Exit 0 pass, 1 fail, 8 no verdict. A pass is no proof on hardware.

    Example: assay ptx run softmax.ptx --entry softmax --grid 64 --block 256 --arg in:f32[64,1024]=normal
    --arg out:f32[64,1024] --arg i32=1024
    """
    launch = Launch(
        entry, _three("--grid", grid), _three("--block", block), read_arguments(arg or [], seed), shared, budget
    )
    report = run(_ptx(file, arch), launch, checks=_checks(without or []), stats=stats)
    if save is not None:
        _save(report, save)
    emit_record(_record(report), output, lambda: _text(report, file))
    exit_with(EXITS[report.verdict])


def _three(option: str, text: str) -> tuple[int, int, int]:
    try:
        sizes = [int(size) for size in text.replace("x", ",").split(",")]
        x, y, z = (*sizes, 1, 1)[:3] if len(sizes) <= 3 else sizes
    except ValueError as error:
        raise Misconfigured(f"{option} {text!r}: give one to three numbers, as 8,8,1") from error
    return x, y, z


def _checks(without: list[str]) -> Checks:
    for name in without:
        if name not in CHECKS:
            raise Misconfigured(f"--without {name!r}: no such checker; there are {', '.join(CHECKS)}")
    return Checks(**{name: name not in without for name in CHECKS})


def _ptx(file: Path, arch: str) -> str:
    try:
        source = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"cannot read {file}: {error}") from error
    if file.suffix != ".cu":
        return source
    try:
        return compiled(source, file.stem, arch)
    except NoCudaCompiler as fault:
        message = "no CUDA compiler here: install the extra `cuda` (pip install 'assay[cuda]'), or give PTX"
        raise Misconfigured(f"{file}: {message}") from fault


def _save(report: Report, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in report.outputs.items():
            np.save(folder / f"{name}.npy", array)
    except OSError as error:
        raise Misconfigured(f"--save {folder}: {error}") from error


def _record(report: Report) -> dict[str, Any]:
    return {
        "verdict": report.verdict,
        "version": report.version,
        "diagnostics": [asdict(diagnostic) for diagnostic in report.diagnostics],
        "outputs": {name: _described(array) for name, array in report.outputs.items()},
        "stats": _stats_record(report),
    }


def _described(array: np.ndarray) -> dict[str, Any]:
    return {"dtype": str(array.dtype), "shape": list(array.shape)}


def _stats_record(report: Report) -> dict[str, Any] | None:
    if report.stats is None:
        return None
    return asdict(report.stats) | {"sectors_per_request": report.stats.sectors_per_request}


def _text(report: Report, file: Path) -> None:
    out = stdout()
    out.print(f"{report.verdict} (executor {report.version})", markup=False)
    for found in report.diagnostics:
        where = f" ({found.source_line})" if found.source_line else ""
        who = f"thread {found.lane} of CTA {found.cta}, " if found.lane >= 0 else ""
        address = f" at {found.address:#x} in {found.buffer}" if found.address is not None else ""
        out.print(
            f"{file}:{found.line}{where}: {found.kind}: {found.opcode}: {who}{found.message}{address}", markup=False
        )
        if found.count > 1:
            out.print(f"  and {found.count - 1} more times here", markup=False)
    if report.stats is not None:
        _stats_text(report)


def _stats_text(report: Report) -> None:
    stats, out = report.stats, stdout()
    assert stats is not None
    out.print(f"{stats.steps} steps, lane utilisation {100 * stats.lane_utilisation:.1f} %", markup=False)
    out.print(
        f"shared: {stats.shared_requests} requests, {stats.shared_wavefronts} wavefronts, {stats.bank_conflicts} of "
        f"them bank conflicts; global: {stats.global_requests} requests, {stats.sectors_per_request:.2f} sectors each",
        markup=False,
    )
    for opcode, count in stats.instructions.items():
        out.print(f"  {count:>10}  {opcode}", markup=False)
