"""`python -m services.verifier`: one copy of the verifier, until SIGTERM."""

from functools import partial

from kernel_lab.machine import machine_route
from services.runtime.host import run_service
from services.runtime.routes import served_routes
from services.verifier.core import Verifier

if __name__ == "__main__":
    run_service(
        Verifier(),
        effect="services.verifier.work:open_effect",
        routes=partial(served_routes, machine_route=machine_route),
    )
