"""`python -m services.benchmarker`: one copy of the benchmarker, until SIGTERM."""

from functools import partial

from kernel_lab.machine import machine_route
from services.benchmarker.core import Benchmarker
from services.runtime.host import run_service
from services.runtime.routes import served_routes

if __name__ == "__main__":
    run_service(
        Benchmarker(),
        effect="services.benchmarker.work:open_effect",
        routes=partial(served_routes, machine_route=machine_route),
        presence=True,
    )
