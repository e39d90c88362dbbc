"""`assay parked` on a real NATS: seen by people, replayed and dropped by the administrator only."""

import asyncio
import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from infra.embedded.nats import EmbeddedNats
from schemas.envelope import Message
from schemas.faults import Misconfigured, NotAllowed
from services.console.main import application
from services.runtime.bus import FACTS_STREAM
from services.runtime.parked import park
from tests.fixtures.nats import ConnectAs

app = application()

Assay = Callable[..., Result]
SUBJECT = "assay.fact.candidate.compiled.cpu_1.g1"


@pytest.fixture
async def assay(nats: EmbeddedNats, connect_as: ConnectAs, monkeypatch: pytest.MonkeyPatch) -> Assay:
    """`assay parked …` as a user, with three messages parked."""
    worker = await connect_as("compiler")
    for seq in (1, 2, 3):
        message = Message(SUBJECT, {"ce-id": str(seq)}, f'{{"seq": {seq}}}'.encode())
        await park(worker, "compiler", message, FACTS_STREAM, seq, f"nobody knows {seq}")
    monkeypatch.setenv("ASSAY_POSTGRES_DSN", "postgresql://nowhere")
    monkeypatch.setenv("ASSAY_NATS_URL", nats.url)

    def run(user: str, *arguments: str) -> Result:
        for name, value in zip(("USER", "PASSWORD"), nats.credentials(user), strict=True):
            monkeypatch.setenv(f"ASSAY_NATS_{name}", value)
        return CliRunner().invoke(app, ["parked", *arguments])

    return run


async def ask(assay: Assay, user: str, *arguments: str) -> Result:
    """Commands run an event loop of their own."""
    return await asyncio.to_thread(assay, user, *arguments)


async def numbers(assay: Assay) -> list[int]:
    listed = await ask(assay, "person", "list", "-o", "json")
    return [row["number"] for row in json.loads(listed.stdout)]


async def test_a_person_sees_what_is_parked_and_why(assay: Assay) -> None:
    assert await numbers(assay) == [1, 2, 3]
    page = json.loads((await ask(assay, "person", "list", "--limit", "1", "--offset", "1", "-o", "json")).stdout)
    assert [(row["number"], row["reason"], row["subject"]) for row in page] == [(2, "nobody knows 2", SUBJECT)]
    shown = (await ask(assay, "person", "show", "2")).stdout
    assert "nobody knows 2" in shown
    assert '{"seq": 2}' in shown


async def test_the_administrator_replays_and_drops_one_and_a_person_may_not(
    assay: Assay, connect_as: ConnectAs
) -> None:
    for command in ("replay", "drop"):
        refused = await ask(assay, "person", command, "2")
        assert isinstance(refused.exception, NotAllowed)
    assert await numbers(assay) == [1, 2, 3]
    assert (await ask(assay, "admin", "replay", "2")).exit_code == 0
    assert (await (await connect_as("person")).state(FACTS_STREAM)).messages == 1
    assert await numbers(assay) == [1, 2, 3]
    assert (await ask(assay, "admin", "drop", "2")).exit_code == 0
    assert await numbers(assay) == [1, 3]


async def test_a_number_that_is_not_parked_is_refused_with_those_that_are(assay: Assay) -> None:
    for command in ("show", "replay", "drop"):
        refused = await ask(assay, "admin", command, "9")
        assert isinstance(refused.exception, Misconfigured)
        assert "parked: 1, 2, 3" in str(refused.exception)
