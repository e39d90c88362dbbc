"""`python -m services.compiler`: one copy of the compiler, until SIGTERM."""

from functools import partial

from kernel_lab.machine import machine_route
from services.compiler.core import Compiler
from services.runtime.host import run_service
from services.runtime.routes import served_routes

if __name__ == "__main__":
    run_service(
        Compiler(),
        effect="services.compiler.work:open_effect",
        routes=partial(served_routes, machine_route=machine_route),
    )
