"""How much faster two compilers finish a backlog than one.

The copies are up and serve; then the whole backlog is published at once, and the time runs to the last object. Rounds
with one and with two copies take turns, each with a fresh bus and a fresh artifact store.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid5

from pydantic import SecretStr

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least
from benchmarks.factory import FOLDER
from infra.bootstrap.nats import bootstrap_nats
from infra.embedded.nats import EmbeddedNats
from infra.embedded.tether import tethered
from kernel_lab.machine import machine_class
from kernel_lab.spaces import SPACES
from kernel_lab.spaces.fingerprint import fingerprint
from kernel_lab.spaces.space import Surroundings
from kernel_lab.workloads import WORKLOADS
from schemas.enums import Language, Target
from schemas.envelope import Envelope, decode, encode
from schemas.events import CandidateCompiled, CandidateProposed, Fact
from schemas.goal import Goal, Shape, SpaceLimits
from schemas.ids import NAMESPACE
from schemas.work import Kernel, MachineClass
from services.librarian.assignment import task_for
from services.runtime.bus import FACTS_STREAM
from services.runtime.nats_bus import NatsBus
from services.runtime.routes import COMPILER, create_route_queues
from services.runtime.settings import PREFIX, Settings, environment_of

CANDIDATES = 80
ROUNDS = 3
COPIES = (1, 2)
WORKLOAD = "rms_norm"
GOAL_ID = "backlog"
ACK_WAIT_S = 30.0
READY_S = 60.0
ROUND_S = 300.0
"""Chosen: a compilation takes a fifth of a second; twenty times that is a stuck round."""


def run(size: float, say: Say) -> Result:
    """Rounds of one and two copies in turn; the ratio of the medians."""
    machine = machine_class()
    backlog = tuple(_proposals(machine, max(8, round(CANDIDATES * size))))
    seconds: dict[int, list[float]] = {copies: [] for copies in COPIES}
    for turn in range(max(1, round(ROUNDS * size))):
        for copies in COPIES if turn % 2 == 0 else COPIES[::-1]:
            took_s = asyncio.run(_round(backlog, machine, copies))
            seconds[copies].append(round(took_s, 3))
            say(f"{copies} {'compiler' if copies == 1 else 'compilers'}: {len(backlog)} candidates in {took_s:.1f} s")
    one, two = (statistics.median(seconds[copies]) for copies in COPIES)
    figures = (
        Figure("two compilers over one", round(one / two, 3), "×", at_least(1.7)),
        Figure("candidates with one", round(len(backlog) / one, 1), "1/s"),
        Figure("candidates with two", round(len(backlog) / two, 1), "1/s"),
    )
    return Result(figures, {"candidates": len(backlog), "seconds": {str(copies): s for copies, s in seconds.items()}})


def _proposals(machine: MachineClass, count: int) -> Iterator[Envelope[Fact]]:
    """`count` different kernels from all over the design space, each proposed once."""
    around = Surroundings(machine.vector_bits, machine.threads, deterministic=False, forbid=())
    space = SPACES[WORKLOAD, Language.C.value]
    points = space.points(around, SpaceLimits())
    task = task_for(GOAL_ID, _goal(), WORKLOADS[WORKLOAD], machine)
    for number, genome in enumerate(points[:: max(1, len(points) // count)][:count]):
        rendered = space.render(genome, around)
        kernel = Kernel(
            language=Language.C,
            source=rendered.source,
            flags=rendered.flags,
            threads=rendered.threads,
            fingerprint=fingerprint(rendered.source, rendered.flags, rendered.threads, Target.CPU.value),
        )
        fact = CandidateProposed(
            goal_id=GOAL_ID,
            generation=0,
            island=0,
            strategy="enumerate",
            author="benchmark",
            parents=(),
            kernel=kernel,
            task=task,
        )
        yield Envelope(uuid5(NAMESPACE, f"{GOAL_ID}|{number}"), fact, "assay/proposer/benchmark", datetime.now(UTC))


def _goal() -> Goal:
    return Goal(workload=WORKLOAD, target=Target.CPU, shapes=(Shape(axes={"T": 64, "H": 1024}),))


async def _round(backlog: tuple[Envelope[Fact], ...], machine: MachineClass, copies: int) -> float:
    """Seconds from the first publication to the last object. Raises AssertionError when one was not built."""
    async with _bus() as (server, folder):
        bus = await NatsBus.open(_settings(server, folder, "admin"), "admin")
        try:
            await create_route_queues(bus, machine.route, ACK_WAIT_S)
            with _compilers(_settings(server, folder, COMPILER), copies) as logs:
                await _all_serve(logs)
                began = time.perf_counter()
                await asyncio.gather(*(bus.publish(encode(one), one.id) for one in backlog))
                await _all_built(bus, len(backlog))
                return time.perf_counter() - began
        finally:
            await bus.close()


@asynccontextmanager
async def _bus() -> AsyncIterator[tuple[EmbeddedNats, Path]]:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="bench-") as text:
        folder = Path(text)
        server = EmbeddedNats(folder)
        await server.start()
        try:
            await bootstrap_nats(_settings(server, folder, "admin"))
            yield server, folder
        finally:
            await asyncio.shield(server.stop())


def _settings(server: EmbeddedNats, folder: Path, user: str) -> Settings:
    name, password = server.credentials(user)
    return Settings(nats_url=server.url, nats_user=name, nats_password=SecretStr(password), data_dir=folder)


@contextmanager
def _compilers(settings: Settings, copies: int) -> Iterator[tuple[Path, ...]]:
    """`copies` compilers run; their logs. None is left afterwards."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    logs = tuple(settings.data_dir / f"compiler-{number}.log" for number in range(copies))
    started = [_started(environment | environment_of(settings), log) for log in logs]
    try:
        yield logs
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(READY_S)


def _started(environment: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as out:
        return subprocess.Popen(
            tethered([sys.executable, "-m", "services.compiler"]), env=environment, stdout=out, stderr=out
        )


async def _all_serve(logs: tuple[Path, ...]) -> None:
    async with asyncio.timeout(READY_S):
        while not all(b'"serving"' in log.read_bytes() for log in logs):  # noqa: ASYNC110 — another process's log
            await asyncio.sleep(0.1)


async def _all_built(bus: NatsBus, count: int) -> None:
    built = 0
    async with asyncio.timeout(ROUND_S):
        async for batch in bus.read(FACTS_STREAM, 1):
            facts = [decode(one.message).fact for one in batch]
            others = [fact for fact in facts if not isinstance(fact, CandidateCompiled | CandidateProposed)]
            if others:
                raise AssertionError(f"a kernel of the design space was not built: {others[0]}")
            built += sum(isinstance(fact, CandidateCompiled) for fact in facts)
            if built >= count:
                return


BENCHMARK = Benchmark("compile_backlog", "A backlog of compilations with two compilers and with one", 2, run)
