"""`python -m services.verifier`: one copy of the verifier, until SIGTERM."""

from services.runtime.host import run_service
from services.verifier.core import Verifier
from services.verifier.work import served_routes

if __name__ == "__main__":
    run_service(Verifier(), effect="services.verifier.work:open_effect", routes=served_routes)
