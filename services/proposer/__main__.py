"""`python -m services.proposer`: one copy of the proposer, until SIGTERM."""

from services.proposer.core import Proposer
from services.runtime.host import run_service

if __name__ == "__main__":
    run_service(Proposer(), effect="services.proposer.work:open_effect")
