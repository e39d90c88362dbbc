"""How a container's program ends: a fault is one line on stderr and its exit status, never a traceback."""

import sys
from collections.abc import Callable

from schemas.faults import Fault


def run_job(main: Callable[[], None]) -> None:
    """`main` has run. Exits with the fault's status when it raised one."""
    try:
        main()
    except Fault as fault:
        print(f"assay: {fault}", file=sys.stderr)
        sys.exit(fault.exit_status)
