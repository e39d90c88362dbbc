"""A container engine for the tests: the host's own, else one of ours with a private data root."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.embedded.tether import tethered

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / ".assay" / "compose-engine"
"""Images of an engine of ours are kept, so that the next run need not build them from nothing."""
BUILDS_S = 1200.0
START_S = 60.0
BRIDGE, NETWORKS = "172.29.0.1/24", "base=172.30.0.0/16,size=24"
"""Chosen: private addresses (RFC 1918) that no other engine uses by default."""


class NoEngine(Exception):
    """Containers cannot be run here, for the reason given."""


@dataclass(frozen=True)
class Engine:
    """How to talk to it."""

    docker: str
    compose: tuple[str, ...]
    environment: Mapping[str, str]

    def run(self, *arguments: str, timeout_s: float = 120.0, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`docker <arguments>`."""
        return run([self.docker, *arguments], self.environment, timeout_s=timeout_s, check=check)

    def has(self, image: str) -> bool:
        return self.run("image", "inspect", image, check=False).returncode == 0


def run(
    command: list[str],
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    check: bool = True,
    given: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """`command` has ended; with `check` it must have succeeded."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        input=given or "",
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} → {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


@contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine that answers. Raises NoEngine with the reason why there is none."""
    docker, compose = _docker(), _compose()
    if _answers(docker, {}):
        yield Engine(docker, compose, {})
        return
    with _engine_of_ours(docker) as environment:
        yield Engine(docker, compose, environment)


def base_images(engine: Engine) -> dict[str, str]:
    """BASE_IMAGE and TOOLCHAIN_IMAGE as the caller has them, else as a registry has them, else made here."""
    given = {name: os.environ[name] for name in ("BASE_IMAGE", "TOOLCHAIN_IMAGE") if name in os.environ}
    if len(given) == 2:
        return given
    local = {"BASE_IMAGE": "assay-base:python", "TOOLCHAIN_IMAGE": "assay-base:gcc"}
    if all(engine.has(image) for image in local.values()):
        return local
    public = "python:3.11-slim-bookworm"
    if engine.has(public) or engine.run("pull", "--quiet", public, timeout_s=300.0, check=False).returncode == 0:
        return {"BASE_IMAGE": public, "TOOLCHAIN_IMAGE": public}
    made = run(
        ["sh", "infra/docker/local_base.sh"],
        {**engine.environment, "DOCKER": engine.docker},
        timeout_s=BUILDS_S,
        check=False,
    )
    if made.returncode != 0:
        raise NoEngine(f"no base image: {public} cannot be pulled, and {made.stderr.strip()[-500:]}")
    return local


def _docker() -> str:
    found = shutil.which("docker")
    if found is None:
        raise NoEngine("no docker: apt-get install docker.io docker-compose")
    return found


def _compose() -> tuple[str, ...]:
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ("docker", "compose")
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise NoEngine("no compose: apt-get install docker-compose")


def _answers(docker: str, environment: Mapping[str, str]) -> bool:
    asked = [docker, "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(asked, env=os.environ | environment, capture_output=True).returncode == 0


@contextmanager
def _engine_of_ours(docker: str) -> Iterator[dict[str, str]]:
    """dockerd in a folder of ours. It changes no firewall, so its containers reach each other and nothing else."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        raise NoEngine("no engine answers, and starting one needs root and dockerd: apt-get install docker.io")
    STORE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="assay-dockerd-") as folder, (STORE / "dockerd.log").open("wb") as log:
        environment = {"DOCKER_HOST": f"unix://{folder}/docker.sock"}
        process = subprocess.Popen(_dockerd(Path(folder)), stdout=log, stderr=log, start_new_session=True)
        try:
            _await(process, docker, environment)
            yield environment
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(START_S)


def _dockerd(folder: Path) -> list[str]:
    program = shutil.which("dockerd")
    assert program
    place = ["--data-root", str(STORE), "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    network = ["--iptables=false", "--ip-masq=false", "--bip", BRIDGE, "--default-address-pool", NETWORKS]
    return tethered([program, "--host", f"unix://{folder}/docker.sock", *place, *network], signal.SIGTERM)


def _await(process: subprocess.Popen[bytes], docker: str, environment: Mapping[str, str]) -> None:
    deadline = time.monotonic() + START_S
    while not _answers(docker, environment):
        if process.poll() is not None or time.monotonic() > deadline:
            said = (STORE / "dockerd.log").read_text(errors="replace").strip().splitlines()[-3:]
            raise NoEngine(f"dockerd does not start here: {' | '.join(said)}")
        time.sleep(0.2)
