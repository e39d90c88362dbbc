"""Whole host processes on a real nats-server: killed, stopped, misconfigured, and two at once."""

import asyncio
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from infra.embedded.nats import EmbeddedNats
from schemas.enums import AbandonReason
from schemas.envelope import Envelope, decode
from schemas.events import CandidateAbandoned, CandidateProposed, CandidateRejected
from services.runtime.bus import FACTS_STREAM, GOALS_BUCKET, Bus
from services.runtime.goal_view import GoalStanding, GoalView
from services.runtime.quiet import Device
from services.runtime.routes import create_route_queues
from services.runtime.service import Quiet
from services.runtime.settings import Settings, environment_of
from tests.fixtures.nats import ConnectAs
from tests.fixtures.toy_service import IN_HAND, ROUTE, propose
from tests.fixtures.waiting import until

ACK_WAIT_S = 1.0
Start = Callable[..., Awaitable[Process]]


@pytest_asyncio.fixture
async def start_host(nats_settings: Callable[[str], Settings]) -> AsyncIterator[Start]:
    """Starts toy hosts; none is left at the end."""
    started: list[Process] = []

    async def start(**changes: Any) -> Process:
        settings = nats_settings("compiler").model_copy(update=changes)
        env = os.environ | environment_of(settings)
        command = (sys.executable, "-m", "tests.fixtures.toy_host")
        started.append(await asyncio.create_subprocess_exec(*command, env=env, stderr=PIPE))
        return started[-1]

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest_asyncio.fixture
async def librarian(connect_as: ConnectAs) -> Bus:
    bus = await connect_as("librarian")
    await create_route_queues(bus, ROUTE, ACK_WAIT_S)
    return bus


async def answers(bus: Bus, count: int) -> dict[UUID, list[Envelope[Any]]]:
    """Every answer in the stream by its cause, once there are `count` of them."""
    found: dict[UUID, list[Envelope[Any]]] = {}
    async with asyncio.timeout(120):
        async for batch in bus.read(FACTS_STREAM, 1):
            for envelope in (decode(one.message) for one in batch):
                if not isinstance(envelope.fact, CandidateProposed):
                    assert envelope.causation_id
                    found.setdefault(envelope.causation_id, []).append(envelope)
            if sum(map(len, found.values())) >= count:
                break
    return found


async def run_files(folder: Path, count: int) -> list[dict[str, Any]]:
    async def written() -> bool:
        return len(list((folder / "run").glob("compiler-*.json"))) >= count

    await until(written)
    return [json.loads(path.read_text()) for path in (folder / "run").glob("compiler-*.json")]


async def ended(process: Process) -> tuple[int, str]:
    """Exit status and log of a process that shall end by itself."""
    async with asyncio.timeout(120):
        _, log = await process.communicate()
    assert process.returncode is not None
    return process.returncode, log.decode()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


async def until_ready(port: int) -> None:
    async def ready() -> bool:
        return (await asyncio.to_thread(get, port, "/readyz"))[0] == 200

    await until(ready)


async def until_in_hand(folder: Path) -> None:
    async def seen() -> bool:
        return (folder / IN_HAND).exists()

    await until(seen)


async def test_two_copies_one_killed_mid_work_conclude_every_candidate_exactly_once(
    connect_as: ConnectAs, librarian: Bus, start_host: Start, tmp_path: Path
) -> None:
    victim, _ = await start_host(), await start_host()
    proposer = await connect_as("proposer")
    causes = [await propose(proposer, f"sleep:{0.05 + n / 1000}") for n in range(30)]
    await run_files(tmp_path, 2)
    await answers(librarian, 6)
    victim.kill()
    found = await answers(librarian, len(causes))
    assert {cause.id for cause in causes} == set(found)
    assert all(len(envelopes) == 1 for envelopes in found.values())
    assert all(isinstance(one.fact, CandidateRejected) for envelopes in found.values() for one in envelopes)


async def test_a_copy_frozen_past_ack_wait_thaws_and_states_nothing_twice(
    connect_as: ConnectAs, librarian: Bus, start_host: Start, tmp_path: Path
) -> None:
    frozen = await start_host()
    (who,) = await run_files(tmp_path, 1)
    await until_ready(who["metrics_port"])
    cause = await propose(await connect_as("proposer"), "until:frozen")
    await until_in_hand(tmp_path)
    frozen.send_signal(signal.SIGSTOP)
    (tmp_path / "frozen").touch()  # not before: an unfrozen copy would answer first
    await start_host()
    await answers(librarian, 1)
    frozen.send_signal(signal.SIGCONT)

    async def counted_twice() -> bool:
        _, metrics = await asyncio.to_thread(get, who["metrics_port"], "/metrics")
        return 'duplicate="true",type="candidate.rejected.v1"} ' in metrics

    await until(counted_twice)
    found = await answers(librarian, 1)
    assert [one.fact.candidate_id for one in found[cause.id]] == [cause.id]
    assert (await librarian.state(FACTS_STREAM)).messages == 2


@pytest.mark.slow
async def test_work_that_kills_its_process_every_time_ends_in_an_abandonment(
    connect_as: ConnectAs, librarian: Bus, start_host: Start
) -> None:
    await start_host()
    cause = await propose(await connect_as("proposer"), "die")
    (found,) = (await answers(librarian, 1))[cause.id]
    assert isinstance(found.fact, CandidateAbandoned)
    assert found.fact.reason is AbandonReason.WORKER_LOST


@pytest.mark.slow
async def test_the_server_killed_and_restarted_under_load_loses_nothing(
    nats: EmbeddedNats, connect_as: ConnectAs, librarian: Bus, start_host: Start, tmp_path: Path
) -> None:
    await start_host(), await start_host()
    await run_files(tmp_path, 2)
    proposer = await connect_as("proposer")
    causes = [await propose(proposer, f"sleep:{0.03 + n / 1000}") for n in range(30)]
    await answers(librarian, 5)
    nats.kill()
    await asyncio.sleep(0.3)
    await nats.start()
    found = await answers(librarian, len(causes))
    assert {cause.id for cause in causes} == set(found)
    assert all(len(envelopes) == 1 for envelopes in found.values())


async def test_sigterm_finishes_the_work_in_hand_and_exits_zero(
    connect_as: ConnectAs, librarian: Bus, start_host: Start, tmp_path: Path
) -> None:
    host = await start_host()
    (who,) = await run_files(tmp_path, 1)
    await until_ready(who["metrics_port"])
    assert who["pid"] == host.pid
    cause = await propose(await connect_as("proposer"), "sleep:1.0")
    await until_in_hand(tmp_path)
    host.send_signal(signal.SIGTERM)
    status, _ = await ended(host)
    assert status == 0
    assert cause.id in await answers(librarian, 1)
    assert not list((tmp_path / "run").glob("compiler-*.json"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_copy_and_one_that_waits_for_its_queue_stop_when_asked(
    nats: EmbeddedNats, start_host: Start, tmp_path: Path, number: signal.Signals
) -> None:
    host = await start_host(drain_s=60.0)
    await run_files(tmp_path, 1)
    host.send_signal(number)
    status, _ = await ended(host)
    assert status == 0


async def test_a_copy_waits_for_its_queue_and_serves_once_the_librarian_has_made_it(
    connect_as: ConnectAs, start_host: Start, tmp_path: Path
) -> None:
    device = Device(tmp_path / "quiet")
    with closing(device), device.held_blocking(Quiet.EXCLUSIVE):  # its effect may not start yet, so it is not ready
        await start_host()
        (who,) = await run_files(tmp_path, 1)
        assert (await asyncio.to_thread(get, who["metrics_port"], "/readyz"))[0] == 503
        assert (await asyncio.to_thread(get, who["metrics_port"], "/livez"))[0] == 200
    bus = await connect_as("librarian")
    await create_route_queues(bus, ROUTE, ACK_WAIT_S)
    cause = await propose(await connect_as("proposer"))
    assert cause.id in await answers(bus, 1)

    async def counted() -> bool:  # a copy counts what it published once the server has confirmed it
        _, metrics = await asyncio.to_thread(get, who["metrics_port"], "/metrics")
        published = 'assay_events_published_total{duplicate="false",type="candidate.rejected.v1"} 1.0'
        return published in metrics and "assay_handler_duration_seconds_bucket" in metrics

    await until(counted)
    assert (await asyncio.to_thread(get, who["metrics_port"], "/else"))[0] == 404


async def test_a_goal_that_ends_mid_work_frees_the_copy_for_the_next(
    connect_as: ConnectAs, librarian: Bus, start_host: Start, tmp_path: Path
) -> None:
    await start_host()
    await run_files(tmp_path, 1)
    proposer = await connect_as("proposer")
    await propose(proposer, "spawn:3600", goal_id="cancelled")
    await until_in_hand(tmp_path)
    wanted = await propose(proposer, "ok", goal_id="wanted")
    await GoalView(await librarian.bucket(GOALS_BUCKET)).advance("cancelled", GoalStanding.ENDED, 9)
    assert set(await answers(librarian, 1)) == {wanted.id}


@pytest.mark.parametrize(("source", "status", "word"), [("misconfigured:no gcc", 2, "no gcc"), ("bug:oops", 1, "oops")])
async def test_a_fault_that_no_retry_mends_stops_the_service_loudly(
    connect_as: ConnectAs, librarian: Bus, start_host: Start, source: str, status: int, word: str
) -> None:
    host = await start_host()
    await propose(await connect_as("proposer"), source)
    found, log = await ended(host)
    assert found == status
    assert word in log


async def test_every_log_line_is_json_and_names_goal_candidate_and_event(
    connect_as: ConnectAs, librarian: Bus, start_host: Start
) -> None:
    host = await start_host()
    cause = await propose(await connect_as("proposer"), "poison:unreadable")
    await answers(librarian, 1)
    host.send_signal(signal.SIGTERM)
    _, log = await ended(host)
    lines = [json.loads(line) for line in log.splitlines()]
    (abandoned,) = [line for line in lines if line["message"] == "work abandoned"]
    assert abandoned["goal"] == "g1"
    assert abandoned["candidate"] == abandoned["event"] == str(cause.id)
    assert abandoned["cause"] == str(cause.causation_id)
    assert abandoned["service"] == "compiler"


async def test_wrong_credentials_end_the_service_with_status_four(start_host: Start) -> None:
    status, log = await ended(await start_host(nats_user="compiler", nats_password=None))
    assert status == 4
    assert "does not accept the credentials" in log
