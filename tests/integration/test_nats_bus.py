"""The sharp edges of NATS and nats-py, each handled, on a real server that is killed and restarted."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from infra.bootstrap.nats import bootstrap_nats, purge_subject
from infra.embedded.nats import EmbeddedNats
from schemas.envelope import Message
from schemas.faults import Misconfigured, NotAllowed, Transient
from services.runtime.bus import (
    FACTS_STREAM,
    GOALS_BUCKET,
    INTAKE_STREAM,
    PARKED_STREAM,
    PRESENCE_BUCKET,
    Bus,
    Delivery,
    Queue,
)
from services.runtime.nats_bus import NatsBus
from services.runtime.nats_link import Link
from services.runtime.parked import park, parked, replay
from services.runtime.presence import Presence, present_routes
from services.runtime.routes import create_route_queues
from services.runtime.settings import Settings
from tests.fixtures.nats import ConnectAs, settings_for
from tests.fixtures.toy_service import ROUTE, propose
from tests.fixtures.waiting import until

SettingsFor = Callable[[str], Settings]
COMPILED = f"assay.fact.candidate.compiled.{ROUTE}.g1"


def note(subject: str, body: bytes = b"{}") -> Message:
    return Message(subject, {"ce-type": "note"}, body)


async def read(bus: Bus, count: int, stream: str = FACTS_STREAM) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    async with asyncio.timeout(30):
        async for batch in bus.read(stream, 1):
            found.extend((one.seq, one.message.body) for one in batch)
            if len(found) >= count:
                break
    return found


# ---- the server goes away ------------------------------------------------------------------------------------------


async def test_a_publish_survives_kill_nine_of_the_server_and_is_stored_once(
    nats: EmbeddedNats, connect_as: ConnectAs
) -> None:
    bus = await connect_as("compiler")
    nats.kill()
    publishing = asyncio.create_task(bus.publish(note(COMPILED), uuid4()))
    await asyncio.sleep(0.3)
    assert not publishing.done()
    await nats.start()
    async with asyncio.timeout(20):
        await publishing
    assert (await bus.state(FACTS_STREAM)).messages == 1
    assert bus.connected()


async def test_facts_acknowledged_before_kill_nine_are_there_after_it(
    nats: EmbeddedNats, connect_as: ConnectAs
) -> None:
    bus = await connect_as("compiler")
    ids = [uuid4() for _ in range(20)]
    for event_id in ids:
        await bus.publish(note(COMPILED, event_id.bytes), event_id)
    nats.kill()
    await nats.start()
    again = await connect_as("compiler")
    assert (await again.publish(note(COMPILED, ids[0].bytes), ids[0])).duplicate
    librarian = await connect_as("librarian")
    assert [body for _, body in await read(librarian, 20)] == [event_id.bytes for event_id in ids]


async def test_a_restarted_server_keeps_its_port_users_queues_and_epoch(
    nats: EmbeddedNats, connect_as: ConnectAs, nats_settings: SettingsFor
) -> None:
    bus = await connect_as("librarian")
    await create_route_queues(bus, ROUTE, 1.0)
    url, before = nats.url, await bus.state(FACTS_STREAM)
    await nats.stop()
    await nats.start()
    await bootstrap_nats(nats_settings("admin"))
    assert nats.url == url
    worker = await connect_as("compiler")
    await worker.queue(FACTS_STREAM, f"compiler-{ROUTE}")
    assert await worker.state(FACTS_STREAM) == before
    assert before.epoch


async def test_a_fetch_while_the_server_is_away_is_transient_and_works_again_after(
    nats: EmbeddedNats, connect_as: ConnectAs
) -> None:
    await create_route_queues(await connect_as("librarian"), ROUTE, 1.0)
    worker = await connect_as("compiler")
    queue = await worker.queue(FACTS_STREAM, f"compiler-{ROUTE}")
    nats.kill()
    with pytest.raises(Transient):
        await queue.fetch(0.2)
    await nats.start()
    cause = await propose(await connect_as("proposer"))
    async with asyncio.timeout(20):
        while (delivery := await _fetched(queue)) is None:
            pass
    assert delivery.message.headers["ce-id"] == str(cause.id)


async def _fetched(queue: Queue) -> Delivery | None:
    try:
        return await queue.fetch(0.2)
    except Transient:
        await asyncio.sleep(0.1)
        return None


@pytest.mark.slow
async def test_a_reader_goes_on_without_a_gap_after_kill_nine(nats: EmbeddedNats, connect_as: ConnectAs) -> None:
    librarian, worker = await connect_as("librarian"), await connect_as("compiler")
    reading = librarian.read(FACTS_STREAM, 1, batch=7)
    found: list[int] = []
    async with asyncio.timeout(120):
        for part in range(3):
            for _ in range(25):
                await worker.publish(note(COMPILED), uuid4())
            while len(found) < 25 * (part + 1):
                found.extend(one.seq for one in await anext(reading))
            nats.kill()
            await nats.start()
    assert found == list(range(1, 76))


async def test_a_reader_whose_consumer_is_deleted_reopens_at_the_next_message(
    connect_as: ConnectAs, nats_settings: SettingsFor
) -> None:
    librarian, worker = await connect_as("librarian"), await connect_as("compiler")
    reading = librarian.read(FACTS_STREAM, 1)
    await worker.publish(note(COMPILED, b"1"), uuid4())
    async with asyncio.timeout(20):
        while not (batch := await anext(reading)):
            pass
    assert [one.message.body for one in batch] == [b"1"]
    admin = await Link.open(nats_settings("admin"), "admin")
    for name in (await admin.api(f"CONSUMER.NAMES.{FACTS_STREAM}"))["consumers"]:
        await admin.api(f"CONSUMER.DELETE.{FACTS_STREAM}.{name}")
    await admin.close()
    await worker.publish(note(COMPILED, b"2"), uuid4())
    async with asyncio.timeout(20):
        while not (batch := await anext(reading)):
            pass
    assert [(one.seq, one.message.body) for one in batch] == [(2, b"2")]


async def test_a_deleted_queue_fails_slowly_instead_of_spinning_and_works_once_it_is_made_again(
    connect_as: ConnectAs, nats_settings: SettingsFor
) -> None:
    librarian, worker = await connect_as("librarian"), await connect_as("compiler")
    await create_route_queues(librarian, ROUTE, 1.0)
    queue = await worker.queue(FACTS_STREAM, f"compiler-{ROUTE}")
    admin = await Link.open(nats_settings("admin"), "admin")
    await admin.api(f"CONSUMER.DELETE.{FACTS_STREAM}.compiler-{ROUTE}")
    await admin.close()
    failures = 0
    deadline = asyncio.get_running_loop().time() + 2.5
    while asyncio.get_running_loop().time() < deadline:
        with pytest.raises(Transient):
            await queue.fetch(0.2)
        failures += 1
    assert failures <= 3
    cause = await propose(await connect_as("proposer"))
    await create_route_queues(librarian, ROUTE, 1.0)
    async with asyncio.timeout(20):
        while (delivery := await _fetched(queue)) is None:
            pass
    assert delivery.message.headers["ce-id"] == str(cause.id)


async def test_a_service_may_start_before_its_server(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    settings = settings_for(server, "compiler", tmp_path)
    await server.stop()
    opening = asyncio.create_task(NatsBus.open(settings, "compiler"))
    await asyncio.sleep(0.2)
    assert not opening.done()
    await server.start()
    async with asyncio.timeout(20):
        bus = await opening
    await bus.close()
    await server.stop()


# ---- permissions ---------------------------------------------------------------------------------------------------


async def test_wrong_credentials_are_refused_by_name(nats_settings: SettingsFor) -> None:
    wrong = nats_settings("compiler").model_copy(update={"nats_password": SecretStr("wrong")})
    with pytest.raises(NotAllowed, match="compiler"):
        await NatsBus.open(wrong, "compiler")


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("person", "assay.fact.champion.crowned.any.g1"),
        ("person", f"$KV.{GOALS_BUCKET}.g1"),
        ("compiler", "assay.fact.candidate.verified.null.g1"),
        ("compiler", "assay.intake.goal.submitted.g1"),
        ("verifier", "assay.fact.champion.crowned.any.g1"),
        ("proposer", f"$KV.{GOALS_BUCKET}.g1"),
        ("benchmarker", f"$KV.{GOALS_BUCKET}.g1"),
    ],
)
async def test_a_publish_that_is_not_allowed_says_so_and_stores_nothing(
    connect_as: ConnectAs, user: str, subject: str
) -> None:
    bus = await connect_as(user)
    with capture_logs() as logs, pytest.raises(NotAllowed, match=subject.replace("$", r"\$")):
        await bus.publish(note(subject), uuid4())
    assert any(line["event"] == "nats permission violation" for line in logs)
    assert (await (await connect_as("admin")).state(FACTS_STREAM)).messages == 0


@pytest.mark.parametrize("user", ["compiler", "librarian", "person"])
@pytest.mark.parametrize("verb", ["DELETE", "PURGE", "UPDATE"])
async def test_only_the_bootstrap_may_administer_streams(nats_settings: SettingsFor, user: str, verb: str) -> None:
    link = await Link.open(nats_settings(user), user)
    with pytest.raises(NotAllowed):
        await link.api(f"STREAM.{verb}.{FACTS_STREAM}", {})
    await link.close()


async def test_a_person_asks_and_looks(connect_as: ConnectAs) -> None:
    person = await connect_as("person")
    await person.publish(note("assay.intake.goal.submitted.g1"), uuid4())
    await (await connect_as("compiler")).publish(note(COMPILED, b"fact"), uuid4())
    assert await read(person, 1) == [(1, b"fact")]
    assert (await person.state(INTAKE_STREAM)).messages == 1
    assert await (await person.bucket(GOALS_BUCKET)).get("g1") is None


async def test_a_person_cannot_take_over_a_workers_queue(connect_as: ConnectAs) -> None:
    await create_route_queues(await connect_as("librarian"), ROUTE, 1.0)
    person = await connect_as("person")
    with pytest.raises(NotAllowed):
        await person.create_queue(FACTS_STREAM, f"compiler-{ROUTE}", ("assay.fact.none",), 1.0)


async def test_every_worker_can_do_its_whole_job_with_its_own_permissions(connect_as: ConnectAs) -> None:
    await create_route_queues(await connect_as("librarian"), ROUTE, 5.0)
    cause = await propose(await connect_as("proposer"))
    worker = await connect_as("compiler")
    queue = await worker.queue(FACTS_STREAM, f"compiler-{ROUTE}")
    delivery = await queue.fetch(30.0)
    assert delivery is not None
    await delivery.in_progress()
    assert await (await worker.bucket(GOALS_BUCKET)).get("g1") is None
    await worker.publish(note(COMPILED), uuid4())
    await park(worker, "compiler", delivery.message, FACTS_STREAM, delivery.seq, "a\nreason")
    await delivery.ack()
    (found,) = [one async for one in parked(await connect_as("person"))]
    assert (found.reason, found.message.headers["ce-id"]) == ("a reason", str(cause.id))
    assert found.message == delivery.message


async def test_presence_is_seen_by_the_librarian_and_ends_when_it_is_withdrawn(connect_as: ConnectAs) -> None:
    benchmarker, librarian = await connect_as("benchmarker"), await connect_as("librarian")
    present = Presence(await benchmarker.bucket(PRESENCE_BUCKET), ("cpu_1", "null"), "host", "copy", 10.0)
    await present.refresh()
    bucket = await librarian.bucket(PRESENCE_BUCKET)
    assert await present_routes(bucket) == {"cpu_1", "null"}
    await present.withdraw()
    assert await present_routes(bucket) == frozenset()


async def test_a_presence_that_is_not_refreshed_is_forgotten(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    settings = settings_for(server, "admin", tmp_path).model_copy(update={"presence_ttl_s": 1.0})
    await bootstrap_nats(settings)
    bus = await NatsBus.open(settings, "admin")
    bucket = await bus.bucket(PRESENCE_BUCKET)
    await bucket.put("cpu_1.host.copy", b"{}")

    async def forgotten() -> bool:
        return not await present_routes(bucket)

    await until(forgotten)
    await bus.close()
    await server.stop()


# ---- the streams and the server itself -----------------------------------------------------------------------------


async def test_the_streams_are_durable_refuse_what_does_not_fit_and_keep_their_epoch(
    nats_settings: SettingsFor,
) -> None:
    link = await Link.open(nats_settings("admin"), "admin")
    before = (await link.api(f"STREAM.INFO.{FACTS_STREAM}"))["config"]
    await bootstrap_nats(nats_settings("admin").model_copy(update={"stream_max_bytes": 128 * 1024**2}))
    config = (await link.api(f"STREAM.INFO.{FACTS_STREAM}"))["config"]
    assert (config["storage"], config["discard"], config["max_age"]) == ("file", "new", 0)
    assert config["deny_delete"]
    assert not config.get("deny_purge")
    assert config["duplicate_window"] == 2 * 3600 * 10**9
    assert config["max_bytes"] == 128 * 1024**2
    assert config["metadata"]["epoch"] == before["metadata"]["epoch"]
    assert (await link.api("STREAM.NAMES"))["streams"] == sorted(
        [FACTS_STREAM, INTAKE_STREAM, PARKED_STREAM, f"KV_{GOALS_BUCKET}", f"KV_{PRESENCE_BUCKET}"]
    )
    await link.close()


async def test_a_full_stream_makes_publishing_wait_and_loses_nothing(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    small = settings_for(server, "admin", tmp_path).model_copy(update={"stream_max_bytes": 1024**2})
    await bootstrap_nats(small)
    bus = await NatsBus.open(small, "admin")
    for _ in range(2):
        await bus.publish(note(COMPILED, b"x" * 400_000), uuid4())
    waiting = asyncio.create_task(bus.publish(note(COMPILED, b"y" * 400_000), uuid4()))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    assert (await bus.state(FACTS_STREAM)).messages == 2
    await bootstrap_nats(small.model_copy(update={"stream_max_bytes": 8 * 1024**2}))
    async with asyncio.timeout(20):
        await waiting
    await bus.close()
    await server.stop()


async def test_the_passwords_are_private_and_kept(nats: EmbeddedNats, tmp_path: Path) -> None:
    path = tmp_path / "nats" / "passwords.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "nats" / "server.conf").stat().st_mode & 0o777 == 0o600
    before = nats.credentials("person")
    await nats.stop()
    await nats.start()
    assert nats.credentials("person") == before


async def test_a_data_folder_that_cannot_be_written_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "nats").write_text("in the way")
    with pytest.raises(Misconfigured, match="ASSAY_DATA"):
        await EmbeddedNats(tmp_path).start()


async def test_a_port_taken_by_another_is_left_to_it_and_a_restart_on_it_says_so(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    port = int(server.url.rsplit(":", 1)[1])
    await server.stop()
    intruder = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", port)
    with pytest.raises(Misconfigured, match=str(port)):
        await server.start()
    fresh = EmbeddedNats(tmp_path)
    await fresh.start()
    assert fresh.url != f"nats://127.0.0.1:{port}"
    await fresh.stop()
    intruder.close()


async def test_a_dropped_message_is_gone_alone_and_only_the_admin_may_drop(
    nats: EmbeddedNats, connect_as: ConnectAs, nats_settings: SettingsFor
) -> None:
    worker, admin = await connect_as("compiler"), await connect_as("admin")
    for seq in (1, 2, 3):
        await park(worker, "compiler", note(COMPILED, f"{seq}".encode()), FACTS_STREAM, seq, "a reason")
    last = [one async for one in parked(admin)][-1]
    with pytest.raises(NotAllowed):
        await purge_subject(nats_settings("person"), PARKED_STREAM, last.subject)
    assert await purge_subject(nats_settings("admin"), PARKED_STREAM, last.subject) == 1
    assert [one.stream_seq async for one in parked(admin)] == [1, 2]


async def test_a_replayed_message_is_published_again_whole_by_the_admin_only(connect_as: ConnectAs) -> None:
    worker, admin, person = await connect_as("compiler"), await connect_as("admin"), await connect_as("person")
    await park(worker, "compiler", note(COMPILED, b"body"), FACTS_STREAM, 1, "a reason")
    (found,) = [one async for one in parked(person)]
    with pytest.raises(NotAllowed):
        await replay(person, found, uuid4())
    await replay(admin, found, uuid4())
    assert await read(admin, 1) == [(1, b"body")]


async def test_the_state_of_a_stream_says_since_when_it_holds_messages(connect_as: ConnectAs) -> None:
    admin = await connect_as("admin")
    assert (await admin.state(FACTS_STREAM)).first_at is None
    before = datetime.now(UTC) - timedelta(minutes=1)
    await admin.publish(note(COMPILED), uuid4())
    first_at = (await admin.state(FACTS_STREAM)).first_at
    assert first_at is not None
    assert before < first_at < datetime.now(UTC) + timedelta(minutes=1)
