"""`python -m services.benchmarker`: one copy of the benchmarker, until SIGTERM."""

from services.benchmarker.core import Benchmarker
from services.benchmarker.work import served_routes
from services.runtime.host import run_service

if __name__ == "__main__":
    run_service(Benchmarker(), effect="services.benchmarker.work:open_effect", routes=served_routes, presence=True)
