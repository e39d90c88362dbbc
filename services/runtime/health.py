"""`/metrics`, `/livez` and `/readyz`, served from a thread so that a stuck loop cannot answer for itself."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from schemas.faults import Misconfigured
from services.runtime.metrics import Metrics

TICK_S = 1.0
STUCK_AFTER_S = 15.0
"""Chosen: fifteen missed ticks; a loaded two-core machine stalls a loop for a second or two at most."""

Check = Callable[[], bool]


class Health:
    """Liveness is the loop's tick and a connection not closed for good; readiness is the service's own word.

    Postgres is never part of liveness: restarting a service does not bring a database back.
    """

    def __init__(self, connected: Check, clock: Callable[[], float] = time.monotonic) -> None:
        self._connected = connected
        self._clock = clock
        self._ticked_at = clock()
        self.ready = False

    def tick(self) -> None:
        """The loop ran just now."""
        self._ticked_at = self._clock()

    async def ticking(self) -> None:
        """Ticks for ever."""
        while True:
            self.tick()
            await asyncio.sleep(TICK_S)

    def live(self) -> bool:
        """False when only a restart helps."""
        return self._connected() and self._clock() - self._ticked_at < STUCK_AFTER_S


class _Server(ThreadingHTTPServer):
    """Answers probes, also those that do not stay for the answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that left early is no news; anything else is shown with its traceback."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class HealthServer:
    """The HTTP endpoints of one process, from construction to `close`."""

    def __init__(self, host: str, port: int, metrics: Metrics, health: Health) -> None:
        try:
            self._server = _Server((host, port), _handler(metrics, health))
        except OSError as error:
            raise Misconfigured(f"metrics port {host}:{port}: {error.strerror}; set ASSAY_METRICS_PORT=0") from error
        self._thread = Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Nobody listens any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class RunFile:
    """`<run_dir>/<service>-<copy>.json` says which process this is and where its metrics are, until `remove`."""

    def __init__(self, run_dir: Path, service: str, copy: str, port: int) -> None:
        self._path = run_dir / f"{service}-{copy}.json"
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            content = {"service": service, "copy": copy, "pid": os.getpid(), "metrics_port": port}
            fresh.write_text(json.dumps(content))
            fresh.replace(self._path)
        except OSError as error:
            raise Misconfigured(f"{self._path}: {error.strerror}; choose a writable folder with ASSAY_DATA") from error

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self._path.unlink()


def _handler(metrics: Metrics, health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path:
                case "/metrics":
                    self._answer(200, metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8")
                case "/livez":
                    self._say(health.live())
                case "/readyz":
                    self._say(health.live() and health.ready)
                case _:
                    self._answer(404, b"/metrics, /livez or /readyz\n")

        def _say(self, well: bool) -> None:
            self._answer(200 if well else 503, b"ok\n" if well else b"no\n")

        def _answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name http.server calls
            """Probes every second are no news."""

    return Handler
