"""A new version of a fact: old bodies are lifted on reading, and what a newer Assay wrote is kept until it is known."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.envelope import decode
from schemas.events import FACTS, GenerationOpened, RouteLost
from schemas.faults import Poison
from schemas.upcasters import UPCASTERS
from services.evidence.log import Incoming
from services.evidence.memory_log import MemoryLog
from services.evidence.past import unreadable
from services.evidence.stored_types import stored_types
from services.librarian.recorder import Recording
from tests.fixtures.facts import golden, incoming, story, with_headers


class OpenedV2(GenerationOpened):
    """As v1, and says how many islands there were."""

    TYPE = "generation.opened.v2"
    islands: int


class OpenedV3(OpenedV2):
    """As v2, and says why."""

    TYPE = "generation.opened.v3"
    reason: str


def with_islands(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"islands": 1 + len(body["candidate_ids"]) // 100}


def with_reason(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"reason": "unsaid"}


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """This Assay knows v3, and how to get there from v1."""
    monkeypatch.delitem(FACTS, GenerationOpened.TYPE)
    monkeypatch.setitem(FACTS, OpenedV3.TYPE, OpenedV3)
    monkeypatch.setitem(UPCASTERS, GenerationOpened.TYPE, (OpenedV2.TYPE, with_islands))
    monkeypatch.setitem(UPCASTERS, OpenedV2.TYPE, (OpenedV3.TYPE, with_reason))


def stored(fact: Any) -> Incoming:
    """A message with that fact, as an older or newer Assay left it in the stream."""
    carrier = story("g")[1]
    headers = replace(with_headers(carrier, ce_type=fact.TYPE), body=fact.model_dump_json().encode())
    (one,) = incoming([headers])
    return one


OLD = golden(GenerationOpened, goal_id="g")


@pytest.mark.usefixtures("newer")
def test_an_old_body_is_lifted_through_every_version_to_the_newest() -> None:
    fact = decode(stored(OLD).message).fact
    assert fact == OpenedV3(**OLD.model_dump(), islands=1, reason="unsaid")


@pytest.mark.usefixtures("newer")
async def test_a_log_read_by_the_newest_type_gives_the_old_ones_too() -> None:
    log = MemoryLog()
    await log.append([stored(OLD)])
    assert stored_types((OpenedV3,)) == ("generation.opened.v1", "generation.opened.v2", "generation.opened.v3")
    assert [type(recorded.fact) async for recorded in log.read(types=(OpenedV3,))] == [OpenedV3]
    assert [row.type async for row in log.rows()] == ["generation.opened.v1"], "the row stays as it was written"


@pytest.mark.usefixtures("newer")
def test_an_old_body_that_cannot_be_lifted_names_what_is_wrong() -> None:
    broken = stored(OLD.model_copy(update={"goal_id": "no token!"})).message
    with pytest.raises(Poison, match=r"generation\.opened\.v1 does not parse: \$\.goal_id"):
        decode(broken)


async def test_a_newer_version_is_kept_raw_reported_and_read_once_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = OpenedV2(**OLD.model_dump(), islands=4)
    log = MemoryLog()
    appended = await log.append([stored(newest)])
    (row,) = appended.rows
    assert (row.type, row.goal_id) == (OpenedV2.TYPE, "g"), "its columns are those of any fact"
    assert Recording(appended, 0).facts == ()
    assert Recording(appended, 0).unread == {OpenedV2.TYPE: 1}
    assert dict(await unreadable(log, 1)) == {OpenedV2.TYPE: 1}
    assert [recorded async for recorded in log.read()] == []
    monkeypatch.setitem(FACTS, OpenedV2.TYPE, OpenedV2)
    assert [recorded.fact async for recorded in log.read()] == [newest]


async def test_a_batch_of_known_facts_leaves_nothing_unread() -> None:
    log = MemoryLog()
    appended = await log.append([stored(golden(RouteLost))])
    assert Recording(appended, 0).unread == {}
