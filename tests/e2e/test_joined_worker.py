"""A second machine, as far as one machine can be two: other network namespaces, another processor, another folder."""

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernel_lab.machine import machine_route
from services.runtime.settings import PREFIX
from tests.fixtures.factory import ASSAY, Factory, null_goal, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long]

HOME, AWAY = "10.213.7.1", "10.213.7.2"
PORT = "4222"


def sh(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)


@dataclass(frozen=True)
class TwoMachines:
    """Two network namespaces that reach each other and nothing else."""

    home: str
    away: str

    def at_home(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.home)

    def elsewhere(self, cpuinfo: Path, command: list[str]) -> list[str]:
        """`command` in the other network, on a processor of another name."""
        pretend = 'mount --bind "$0" /proc/cpuinfo && exec "$@"'
        return ["ip", "netns", "exec", self.away, "sh", "-c", pretend, str(cpuinfo), *command]


@pytest.fixture
def machines() -> Iterator[TwoMachines]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2: apt-get install iproute2")
    tag = secrets.token_hex(3)
    made = TwoMachines(f"assay-home-{tag}", f"assay-away-{tag}")
    try:
        sh("ip", "netns", "add", made.home)
    except subprocess.CalledProcessError as refused:
        pytest.skip(f"this host lets nobody make a network namespace: {refused.stderr.decode().strip()}")
    try:
        sh("ip", "netns", "add", made.away)
        sh("ip", "-n", made.home, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", made.away)
        for name, address in ((made.home, HOME), (made.away, AWAY)):
            sh("ip", "-n", name, "address", "add", f"{address}/24", "dev", "wire")
            sh("ip", "-n", name, "link", "set", "wire", "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in (made.away, made.home):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@dataclass
class FactoryAtHome(Factory):
    """Its commands run in its own network."""

    prefix: tuple[str, ...] = ()

    def run(self, *arguments: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, *ASSAY, *arguments],
            env=os.environ | {"ASSAY_DATA": str(self.data)} | self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@pytest.fixture
def home(machines: TwoMachines, factory: Factory) -> FactoryAtHome:
    """A stopped factory at home; the fixture that it is made from sees to what is left of it."""
    return FactoryAtHome(factory.data, factory.environment, machines.at_home())


@dataclass
class Joined:
    """A worker on the other machine."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def said(self) -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def serves(self) -> bool:
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        return any(line["message"] == "serving" for line in self.said())


@pytest.fixture
def join(machines: TwoMachines, tmp_path: Path) -> Iterator[Any]:
    """Starts workers elsewhere; all are gone afterwards."""
    started: list[Joined] = []
    cpuinfo = tmp_path / "cpuinfo"
    here = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next(line for line in here.splitlines() if line.startswith("model name"))
    cpuinfo.write_text(here.replace(model, "model name\t: Another Processor"), encoding="utf-8")

    def start(service: str, creds: Path) -> Joined:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        environment |= {"ASSAY_DATA": str(tmp_path / "away"), "ASSAY_NULL_ROUTE": "true", "ASSAY_COPY_ID": "box2"}
        command = [*ASSAY, "worker", service, "--join", f"nats://{HOME}:{PORT}", "--creds", str(creds)]
        log = tmp_path / f"{service}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                machines.elsewhere(cpuinfo, command), env=environment, stdout=out, stderr=out, start_new_session=True
            )
        started.append(Joined(process, log))
        return started[-1]

    yield start
    for joined in started:
        joined.process.kill()
        joined.process.wait()


def test_a_worker_on_another_machine_does_its_share_until_it_is_revoked(
    home: FactoryAtHome, join: Any, tmp_path: Path
) -> None:
    home.up("--listen", f"{HOME}:{PORT}")
    creds = tmp_path / "box2.creds"
    home.ok("credentials", "create", "compiler", "box2", "--file", str(creds))
    worker = join("compiler", creds)
    wait_until(worker.serves, "the worker serves")

    home.submit(null_goal(), "shared")
    home.wait_for_end("shared")
    compiled = [fact for fact in home.facts("shared") if fact["type"].startswith("candidate.compiled")]
    assert len(compiled) == 200
    assert len({fact["source"] for fact in compiled}) == 2
    assert "assay/compiler/box2" in {fact["source"] for fact in compiled}
    assert home.json("events", "verify")["intact"] is True, "what it stated is signed with a key of this factory"

    (ready,) = [line for line in worker.said() if line["message"] == "ready"]
    assert ready["routes"][1:] == ["null"]
    assert ready["routes"][0].startswith("cpu_")
    assert ready["routes"][0] != machine_route(), "another processor is another class"
    assert [line["queue"] for line in worker.said() if line["message"] == "serving"] == ["compiler-null"]

    home.ok("credentials", "revoke", "box2")
    assert worker.process.wait(60) == 4
    assert "revoked" in worker.log.read_text(encoding="utf-8")
    again = join("compiler", creds)
    assert again.process.wait(60) == 4


def test_a_factory_that_listens_badly_does_not_start_and_names_the_address(factory: Factory) -> None:
    refused = factory.run("up", "--listen", "203.0.113.9")
    assert refused.returncode == 2
    assert "give --listen an address of this machine" in refused.stderr
