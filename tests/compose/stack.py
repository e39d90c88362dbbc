"""One composed factory, driven as an operator does."""

import json
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.compose.fresh_env import filled
from tests.compose.engine import ROOT, Engine, run

PATIENCE_S = 600.0
"""Chosen: a benchmarker calibrates for half a minute, or for several on a busy machine."""


@dataclass
class Stack:
    """A project of its own: names, volumes, secrets and port are nobody else's."""

    engine: Engine
    folder: Path
    changes: dict[str, str]
    """What its .env says other than the example."""
    project: str = field(default_factory=lambda: f"assaytest{secrets.token_hex(4)}")

    def __post_init__(self) -> None:
        self.changes = {"NATS_PORT": str(free_port()), "ASSAY_NULL_ROUTE": "true", **self.changes}
        example = (ROOT / ".env.example").read_text(encoding="utf-8")
        self.env_file.write_text(changed(filled(example), self.changes), encoding="utf-8")

    @property
    def env_file(self) -> Path:
        return self.folder / f"{self.project}.env"

    def rewrite(self, changes: Mapping[str, str | None]) -> None:
        """The .env says something else from now on; None takes a line out."""
        self.env_file.write_text(changed(self.env_file.read_text(encoding="utf-8"), changes), encoding="utf-8")

    def compose(
        self, *arguments: str, timeout_s: float = 300.0, check: bool = True, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`docker compose <arguments>` on this project, `given` being its standard input."""
        command = [*self.engine.compose, "--env-file", str(self.env_file), "--project-name", self.project, *arguments]
        return run(command, self.engine.environment, timeout_s=timeout_s, check=check, given=given)

    def console(self, *arguments: str, check: bool = True, goal: Path | None = None) -> str:
        """stdout of `assay <arguments>` in the console's container; `goal` is there as /goal.json."""
        mounted = ["--volume", f"{goal}:/goal.json:ro"] if goal else []
        return self.compose("run", "--rm", "-T", *mounted, "console", *arguments, check=check).stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.console(*arguments, "-o", "json"))

    def up(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.compose("up", "--detach", *arguments, timeout_s=PATIENCE_S, check=check)

    def down(self) -> None:
        self.compose("down", "--volumes", "--timeout", "1", check=False)

    def containers(self, service: str) -> tuple[str, ...]:
        """Ids of the containers of a service, also those that have ended."""
        labels = {"project": self.project, "service": service, "oneoff": "False"}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        listed = self.engine.run("ps", "--all", "--quiet", *filters)
        return tuple(listed.stdout.split())

    def inspect(self, container: str, form: str) -> str:
        return self.engine.run("inspect", "--format", form, container).stdout.strip()

    def await_healthy(self, *services: str) -> None:
        for service in services:
            wait_until(lambda service=service: self._are_healthy(service), f"{service} is healthy")  # type: ignore[misc]

    def _are_healthy(self, service: str) -> bool:
        found = self.containers(service)
        return bool(found) and all(self.inspect(one, "{{.State.Health.Status}}") == "healthy" for one in found)

    def fingerprint(self) -> str:
        """The bootstrap key's, as the bootstrap job tells the operator."""
        told = self.compose("logs", "--no-color", "bootstrap").stdout
        return told.rpartition("bootstrap key ")[2].split()[0]

    def goal(self, goal_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.json("goal", "show", goal_id)
        return shown

    def submit(self, goal_id: str, goal: Mapping[str, Any]) -> None:
        path = self.folder / f"{goal_id}.json"
        path.write_text(json.dumps(goal), encoding="utf-8")
        path.chmod(0o644)  # the container's user is another
        self.console("goal", "submit", "/goal.json", "--id", goal_id, goal=path)

    def facts(self, *arguments: str) -> list[dict[str, Any]]:
        lines = self.console("events", "list", "--limit", "0", "-o", "jsonl", *arguments).splitlines()
        return [json.loads(line) for line in lines]


def changed(env: str, changes: Mapping[str, str | None]) -> str:
    """The text of a .env with other values."""
    lines = [line for line in env.splitlines() if line.partition("=")[0] not in changes]
    return "\n".join([*lines, *(f"{name}={value}" for name, value in changes.items() if value is not None), ""])


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Returns once `condition` holds; fails, naming `what`, when it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s until {what}"
        time.sleep(1.0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
