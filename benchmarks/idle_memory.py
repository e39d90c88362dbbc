"""What an idle factory holds in memory."""

import time

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_most
from benchmarks.costs import Memory, memory_of, processes_of
from benchmarks.factory import running_factory
from services.console.supervisor import SERVICES

IDLE_S = 5.0
"""Chosen: long enough for the last calibration's pages to be given back."""
LIMIT_MB = 150.0


def run(size: float, say: Say) -> Result:
    """Resident memory of every process some seconds after the factory is ready; a service counts with its effect."""
    with running_factory(null_route=False) as factory:
        say("the factory is ready; it idles")
        time.sleep(IDLE_S * size)
        held = {process.label: memory_of(process.pid) for process in processes_of(factory.pid)}
    figures = tuple(_figure(service, held) for service in SERVICES)
    return Result(figures, {label: vars(memory) for label, memory in held.items()})


def _figure(service: str, held: dict[str, Memory]) -> Figure:
    own, effect = held[service], held.get(f"{service} effect", Memory(0.0, 0.0))
    proportional = own.proportional_mb + effect.proportional_mb
    return Figure(
        f"resident: {service}",
        round(own.resident_mb + effect.resident_mb, 1),
        "MB",
        at_most(LIMIT_MB),
        f"host {own.resident_mb:.0f} + effect {effect.resident_mb:.0f}; {proportional:.0f} with shared pages shared",
    )


BENCHMARK = Benchmark("idle_memory", "Resident memory of each idle service, its effect's process included", 0.7, run)
