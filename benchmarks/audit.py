"""How fast a log is audited, and how much memory that takes as it grows."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.benchmark import Benchmark, Figure, Result, Say, at_least, at_most
from benchmarks.synthetic_log import SyntheticLog
from infra.bootstrap.postgres import DATABASE, RECORDER_ROLE, bootstrap_postgres
from infra.embedded.postgres import EmbeddedPostgres
from schemas.envelope import Message
from schemas.framing import SIGNATURE, frame, signed_bytes_of_kept, unframe
from services.evidence.log import Log
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import Trust, verify
from services.runtime.signing import signature_holds
from tests.fixtures.facts import incoming
from tests.fixtures.signed import TRUSTED, keys, signed_story, stating

CANDIDATES_A_GOAL = 100
GOALS = 60
"""Some 24,000 signed facts in a real Postgres. Chosen: they are made in ten seconds."""
SIZES = (10_000, 100_000, 1_000_000)
BATCH = 500
MIB = 1024**2


@dataclass(frozen=True)
class Audited:
    """One verification, timed."""

    events: int
    seconds: float
    peak_bytes: int = 0
    """Of the process that did nothing else; 0 where it was not looked at."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def run(size: float, say: Say) -> Result:
    """A signed log in Postgres is verified by its chain alone and whole; then synthetic logs, each in a process."""
    goals = [f"g{number}" for number in range(max(1, round(GOALS * size)))]
    messages = signed_story(*goals, candidates=CANDIDATES_A_GOAL)
    chain, whole = asyncio.run(_in_postgres(messages, say))
    say("checking signatures alone")
    signatures = _signatures(messages)
    say(f"chain {chain.rate:,.0f}/s, everything {whole.rate:,.0f}/s, signatures {signatures.rate:,.0f}/s")
    grown = [_grown(max(1000, round(events * size)), say) for events in SIZES]
    return _result(chain, whole, signatures, grown)


async def _in_postgres(messages: tuple[Message, ...], say: Say) -> tuple[Audited, Audited]:
    async with _postgres_log() as log:
        say(f"recording {len(messages)} signed facts")
        batch = incoming(messages)
        for start in range(0, len(batch), BATCH):
            await log.append(batch[start : start + BATCH])
        say("verifying the chain, then everything")
        chain = await _timed(log, Trust(TRUSTED, chain_only=True))
        return chain, await _timed(log, Trust(TRUSTED))


@asynccontextmanager
async def _postgres_log() -> AsyncIterator[PostgresLog]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        server = EmbeddedPostgres(Path(folder, "postgres"))
        server.start()
        try:
            await bootstrap_postgres(server.dsn())
            log = PostgresLog(server.dsn(RECORDER_ROLE, DATABASE))
            yield log
            await log.close()
        finally:
            server.stop()


async def _timed(log: Log, trust: Trust) -> Audited:
    began = time.perf_counter()
    found = await verify(log, trust=trust)
    if not found.holds:
        raise AssertionError(f"the log that was measured does not verify: {found.first_break}")
    return Audited(found.rows, time.perf_counter() - began)


def _signatures(messages: tuple[Message, ...]) -> Audited:
    """Ed25519 over the bytes that were signed, one core, nothing else."""
    signed = [unframe(frame(message)) for message in messages]
    public = {service: key.certificate.public_key for service, key in keys().items()}
    of = [public[stating(message)] for message in messages]
    of[: len(public)] = public.values()  # the certificates, each signed by the service that it is about
    began = time.perf_counter()
    held = sum(
        signature_holds(key, signed_bytes_of_kept(one), one.headers[SIGNATURE])
        for key, one in zip(of, signed, strict=True)
    )
    seconds = time.perf_counter() - began
    if held != len(signed):
        raise AssertionError(f"{len(signed) - held} signatures of {len(signed)} do not hold")
    return Audited(held, seconds)


def _grown(events: int, say: Say) -> Audited:
    """A synthetic log of `events` facts, verified whole in a process of its own."""
    say(f"verifying {events:,} synthetic facts")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.audit", str(events)], stdout=subprocess.PIPE, check=True, text=True
    )
    grown = Audited(**json.loads(done.stdout))
    say(f"{grown.rate:,.0f}/s, at most {grown.peak_bytes / MIB:,.0f} MiB")
    return grown


async def _synthetic(events: int) -> Audited:
    log = SyntheticLog(events)
    await log.head()
    timed = await _timed(log, Trust())
    return Audited(timed.events, timed.seconds, _peak_bytes())


def _peak_bytes() -> int:
    """The most memory that this program held. (`ru_maxrss` would tell of the parent that forked it as well.)"""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _result(chain: Audited, whole: Audited, signatures: Audited, grown: list[Audited]) -> Result:
    memory = [
        Figure(f"peak memory, {one.events:,} events", round(one.peak_bytes / MIB), "MiB", at_most(400)) for one in grown
    ]
    pace = [
        Figure(f"everything but signatures, {one.events:,} events, made on the way", round(one.rate), "1/s")
        for one in grown
    ]
    figures = (
        Figure("chain and digests, from Postgres", round(chain.rate), "1/s", at_least(60_000)),
        Figure("signatures, one core", round(signatures.rate), "1/s", at_least(10_000)),
        Figure("everything, from Postgres", round(whole.rate), "1/s"),
        *memory,
        *pace,
    )
    raw = {
        "chain": asdict(chain),
        "whole": asdict(whole),
        "signatures": asdict(signatures),
        "grown": [asdict(one) for one in grown],
    }
    return Result(figures, raw)


BENCHMARK = Benchmark("audit", "Facts a second of `events verify`, and its memory from 10⁴ to 10⁶", 5, run)


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(_synthetic(int(sys.argv[1]))))))
