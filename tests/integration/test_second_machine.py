"""A worker from another machine on a real NATS: what it may do, until when, and which work reaches it."""

import asyncio
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.bootstrap import workers
from infra.bootstrap.nats_server import rewrite_workers
from infra.embedded.nats import EmbeddedNats
from schemas.envelope import Envelope, encode
from schemas.events import CandidateCompiled, CandidateRejected, CandidateVerified, Fact, MachineObserved
from schemas.faults import Misconfigured, NotAllowed
from services.runtime.address import Address
from services.runtime.bus import FACTS_STREAM, queue_name
from services.runtime.credentials import write_credentials
from services.runtime.language import require_same_language
from services.runtime.nats_bus import NatsBus
from services.runtime.nats_link import Link
from services.runtime.routes import INPUTS, OUTPUTS, create_route_queues
from services.runtime.settings import Settings
from tests.fixtures.nats import ConnectAs
from tests.fixtures.toy_service import envelope, propose
from tests.golden.sample import sample_model


def credentials_file(tmp_path: Path, service: str, name: str = "box2") -> Path:
    """`name` is admitted as `service`, and the running server knows it."""
    path = tmp_path / f"{name}.creds"
    write_credentials(workers.admit(tmp_path / "nats", service, name, datetime.now(UTC)), path)
    assert rewrite_workers(tmp_path / "nats") is True
    return path


def stated(kind: type[Fact]) -> Envelope[Fact]:
    """Some fact of this kind."""
    fact = sample_model(kind)
    assert isinstance(fact, kind)
    return envelope(fact)


async def joined(nats: EmbeddedNats, creds: Path, service: str) -> NatsBus:
    settings = Settings(nats_url=nats.url, nats_creds=creds, data_dir=creds.parent / "elsewhere")
    async with asyncio.timeout(20):
        while True:
            try:
                return await NatsBus.open(settings, service)
            except NotAllowed:  # the server reads its new configuration just now
                await asyncio.sleep(0.1)


async def test_a_joined_worker_states_its_services_facts_and_no_others(nats: EmbeddedNats, tmp_path: Path) -> None:
    bus = await joined(nats, credentials_file(tmp_path, "verifier"), "verifier")
    try:
        mine, another = stated(CandidateVerified), stated(CandidateCompiled)
        assert (await bus.publish(encode(mine), mine.id)).seq == 1
        with pytest.raises(NotAllowed):
            await bus.publish(encode(another), another.id)
    finally:
        await bus.close()


async def test_a_revoked_worker_is_disconnected_and_may_not_come_back(nats: EmbeddedNats, tmp_path: Path) -> None:
    creds = credentials_file(tmp_path, "verifier")
    bus = await joined(nats, creds, "verifier")
    try:
        assert bus.connected()
        workers.revoke(tmp_path / "nats", "box2")
        rewrite_workers(tmp_path / "nats")
        async with asyncio.timeout(30):
            while bus.connected():  # noqa: ASYNC110 — the bus has no event for it
                await asyncio.sleep(0.05)
    finally:
        await bus.close()
    with pytest.raises(NotAllowed, match=r"box2\.creds.*revoked"):
        await NatsBus.open(Settings(nats_url=nats.url, nats_creds=creds), "verifier")


async def test_an_admission_outlives_the_server(nats: EmbeddedNats, tmp_path: Path) -> None:
    creds = credentials_file(tmp_path, "compiler")
    await nats.stop()
    await nats.start()
    await (await joined(nats, creds, "compiler")).close()


async def test_work_reaches_machines_of_its_own_class_only(connect_as: ConnectAs) -> None:
    librarian, proposer, compiler = [await connect_as(user) for user in ("librarian", "proposer", "compiler")]
    for route in ("cpu_here", "cpu_there"):
        await create_route_queues(librarian, route, ack_wait_s=30.0)
    here, there = await propose(proposer, route="cpu_here"), await propose(proposer, route="cpu_there")
    for route, cause in (("cpu_there", there), ("cpu_here", here)):
        queue = await compiler.queue(FACTS_STREAM, queue_name("compiler", route))
        first, second = await queue.fetch(30.0), await queue.fetch(0.2)
        assert first is not None
        assert (first.message.headers["ce-id"], second) == (str(cause.id), None)


async def test_the_factory_says_which_facts_it_speaks_and_strangers_are_refused(
    connect_as: ConnectAs, nats_settings: Callable[[str], Settings]
) -> None:
    bus = await connect_as("benchmarker")
    speech = (*INPUTS["benchmarker"], *OUTPUTS["benchmarker"])
    await require_same_language(bus, speech)
    await speak_only(nats_settings("admin"), {fact.TYPE for fact in speech} - {MachineObserved.TYPE})
    with pytest.raises(Misconfigured, match=r"newer than its factory.*machine\.observed"):
        await require_same_language(bus, speech)
    await speak_only(nats_settings("admin"), {CandidateRejected.TYPE.replace(".v1", ".v2")})
    with pytest.raises(Misconfigured, match=r"older than its factory.*candidate\.rejected"):
        await require_same_language(bus, (CandidateRejected,))


async def speak_only(admin: Settings, types: set[str]) -> None:
    """The stream says what a factory of another version would say of itself."""
    link = await Link.open(admin, "admin")
    try:
        config = (await link.api(f"STREAM.INFO.{FACTS_STREAM}"))["config"]
        config["metadata"]["language"] = " ".join(sorted(types))
        await link.api(f"STREAM.UPDATE.{FACTS_STREAM}", config)
    finally:
        await link.close()


async def test_a_server_that_listens_everywhere_keeps_its_port_and_is_reached_by_every_address(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path, listen=Address("0.0.0.0"))
    await server.start()
    try:
        port = int(server.url.rpartition(":")[2])
        for host in ("127.0.0.1", "127.1.2.3"):
            with socket.create_connection((host, port), timeout=30.0) as connection:
                assert connection.recv(4) == b"INFO"
        await server.stop()
        await server.start()
        assert server.url == f"nats://127.0.0.1:{port}"
    finally:
        await server.stop()


async def test_a_taken_port_or_a_foreign_address_is_refused_by_its_name(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured, match=rf"port {port} at 127\.0\.0\.1 is taken"):
            await EmbeddedNats(tmp_path / "a", listen=Address("127.0.0.1", port)).start()
    with pytest.raises(Misconfigured, match=r"cannot listen at 203\.0\.113\.7"):
        await EmbeddedNats(tmp_path / "b", listen=Address("203.0.113.7")).start()


async def test_a_free_port_that_somebody_takes_first_is_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedNats(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        chosen = iter([taken.getsockname()[1], 0])
        free_port = server._free_port
        monkeypatch.setattr(server, "_free_port", lambda: next(chosen) or free_port())
        await server.start()
        try:
            assert server.url != f"nats://127.0.0.1:{taken.getsockname()[1]}"
        finally:
            await server.stop()
