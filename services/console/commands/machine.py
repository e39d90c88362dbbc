"""`assay machine`: what this machine is, and how quiet it is."""

import asyncio
from typing import Any

import typer

from kernel_lab.machine import machine_class
from kernel_lab.measure.profile import calibrate_here
from schemas.events import MachineObserved
from schemas.faults import Transient
from schemas.measurement import MachineProfile
from services.console.endpoints import open_log
from services.console.exits import Exit, exit_with
from services.console.output import Format, OutputOption, emit_record, progress_steps, say, stdout
from services.runtime.quiet import Device
from services.runtime.service import Quiet
from services.runtime.settings import host_id, read_settings

app = typer.Typer(no_args_is_help=True, help="What this machine is, and how quiet it is.")


@app.command()
def show(output: OutputOption = Format.TEXT) -> None:
    """This machine's class; and, where a factory runs, every machine that the log has seen.

    Example: assay machine show -o json
    """
    found = machine_class()
    seen = asyncio.run(_seen())
    record = {"machine": found.model_dump(mode="json"), "seen": seen}
    emit_record(record, output, lambda: _show_text(record))


async def _seen() -> list[dict[str, Any]]:
    """The latest profile of each machine in the log; empty where no factory runs."""
    try:
        async with open_log() as log:
            latest = {}
            async for recorded in log.read(types=(MachineObserved,)):
                profile: MachineProfile = recorded.fact.profile
                latest[profile.machine.route, profile.host] = profile.model_dump(mode="json")
            return list(latest.values())
    except Transient as away:
        say(f"{away}; only this machine's class is shown")
        return []


def _show_text(record: dict[str, Any]) -> None:
    for key, value in record["machine"].items():
        stdout().print(f"{key:>14}  {value if not isinstance(value, list) else ' '.join(value)}", markup=False)
    for profile in record["seen"]:
        stdout().print(f"seen: {profile_line(profile)}", markup=False)


def profile_line(profile: dict[str, Any]) -> str:
    """A machine's noise and peaks in one line."""
    floor = f"{100 * profile['noise_floor']:.2f} %" if profile["noise_floor"] is not None else "unknown"
    verdict = {True: "FIT", False: "UNFIT", None: "not calibrated"}[profile["fit"]]
    speeds = ", ".join(f"{name.replace('_', ' ')} {gbps:.1f} GB/s" for name, gbps in profile["copy_gbps"].items())
    peak = ", ".join(f"{dtype} {gflops:.0f} GFLOP/s" for dtype, gflops in profile["fma_gflops"].items())
    place = f"{profile['machine']['route']}/{profile['host']}"
    return f"{place}  {verdict}, noise floor {floor}; {speeds}; FMA {peak}; isolation {profile['isolation']}"


@app.command()
def calibrate(output: OutputOption = Format.TEXT) -> None:
    """Measure the noise floor, the roofs and the FMA peak now: half a minute. Exit 9 when the machine is UNFIT.

    Example: assay machine calibrate
    """
    settings = read_settings()
    with Device(settings.quiet).held_blocking(Quiet.EXCLUSIVE), progress_steps() as progress:
        profile = calibrate_here(settings.isolation, host=host_id(settings.data_dir), progress=progress)
    record = profile.model_dump(mode="json")
    emit_record(record, output, lambda: stdout().print(profile_line(record), markup=False))
    if not profile.fit:
        say("UNFIT: byte-identical kernels differ by more than 10 % here, or too many samples were disturbed")
        exit_with(Exit.UNFIT)
