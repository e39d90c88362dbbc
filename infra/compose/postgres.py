"""`python -m infra.compose.postgres`: this process becomes Postgres, over the cluster below `/data`."""

import os
import shutil
import tempfile
from pathlib import Path

from infra.bootstrap.postgres_server import (
    SERVER_SETTINGS,
    create_cluster,
    require_same_version,
    server_command,
    server_environment,
)
from infra.compose.job import run_job
from infra.compose.passwords import POSTGRES_PASSWORD, secret

HOME = Path("/data")
HBA = "host all all all scram-sha-256\n"
"""Whoever comes over the network shows a password; there is no other way in."""


def main() -> None:
    """The server runs in place of this process. Raises Misconfigured: no secret, or a volume of another version."""
    data = HOME / "cluster"
    password = secret(POSTGRES_PASSWORD)
    if data.exists():
        require_same_version(data, "start the version that wrote the volume, and export the log with it")
    else:
        _create(data, password)
    hba = HOME / "pg_hba.conf"
    hba.write_text(HBA, encoding="utf-8")
    command = server_command(data, _settings(hba))
    os.execve(command[0], command, server_environment())  # noqa: S606 — no shell is wanted


def _create(data: Path, password: str) -> None:
    """`data` appears whole: an initdb that was cut off is done again."""
    unfinished = data.with_name("cluster.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:  # of mode 0600
        file.write(password)
        file.flush()
        create_cluster(unfinished, ("--auth=scram-sha-256", f"--pwfile={file.name}"))
    unfinished.rename(data)


def _settings(hba: Path) -> dict[str, str]:
    """As the embedded server's, but reached over the network of its containers only."""
    network = {"listen_addresses": "*", "unix_socket_directories": "", "hba_file": str(hba)}
    return {**SERVER_SETTINGS, **network}


if __name__ == "__main__":
    run_job(main)
