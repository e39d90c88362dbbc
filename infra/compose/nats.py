"""`python -m infra.compose.nats`: this process becomes nats-server, with Assay's users, streams below `/data/nats`."""

import os
from pathlib import Path

from infra.bootstrap.nats_server import Server, server_binary, write_server_config
from infra.compose.job import run_job
from infra.compose.passwords import nats_passwords
from services.runtime.address import LOOPBACK, Address

HOME = Path("/data/nats")
LISTEN = Address("0.0.0.0", 4222)  # noqa: S104 — of its container
MONITOR = Address(LOOPBACK, 8222)
"""For the health check, inside the container only."""
MAX_STORE_BYTES = 32 * 1024**3
"""As the embedded server's."""


def main() -> None:
    """The server runs in place of this process. Raises Misconfigured when a secret is missing."""
    HOME.mkdir(exist_ok=True, mode=0o700)
    config = write_server_config(Server(HOME, LISTEN, MAX_STORE_BYTES, MONITOR), nats_passwords())
    binary = server_binary()
    os.execv(binary, [binary, "-c", str(config)])  # noqa: S606 — no shell is wanted


if __name__ == "__main__":
    run_job(main)
