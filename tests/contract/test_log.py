"""The log port's contract, on the log in memory and on the log in Postgres."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from schemas.envelope import Message, Recorded, decode
from schemas.events import CandidateMeasured, CandidateProposed, GoalAccepted, GoalCompleted
from schemas.faults import Broken
from services.evidence.chain import GENESIS
from services.evidence.log import Log
from services.evidence.memory_log import MemoryLog
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import verify
from tests.fixtures.facts import BEGIN, id_of, incoming, story, ticking, with_body, with_headers
from tests.fixtures.postgres import fresh_database

BAD_BODIES = (b'{"a":"x\\u0000"}', b'{"a":"\\ud800"}', b'{"a":NaN}', b'{"a":1e400000}', b"[" * 20_000, b"\xff", b"")


@pytest.fixture(params=["memory", "postgres"])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    """An empty log whose clock moves one second at each append."""
    if request.param == "memory":
        yield MemoryLog(ticking())
        return
    database = await fresh_database(request.getfixturevalue("postgres_server"))
    made = PostgresLog(database.recorder_dsn, clock=ticking())
    yield made
    await made.close()


async def read(log: Log, **wanted: Any) -> list[Recorded[Any]]:
    return [fact async for fact in log.read(**wanted)]


async def positions(log: Log, **wanted: Any) -> list[int]:
    return [fact.position for fact in await read(log, **wanted)]


async def test_an_empty_log_has_a_head_at_zero(log: Log) -> None:
    head = await log.head()
    assert (head.position, head.epoch, head.stream_seq, head.hash) == (0, "", 0, GENESIS)
    assert await read(log) == []


async def test_what_is_appended_is_read_back_as_it_was_stated(log: Log) -> None:
    messages = story("g1")
    await log.append(incoming(messages))
    found = await read(log)
    assert [fact.envelope for fact in found] == [decode(message) for message in messages]
    assert [fact.position for fact in found] == list(range(1, len(messages) + 1))
    assert {fact.recorded_at for fact in found} == {BEGIN}


async def test_appended_says_what_is_stored(log: Log) -> None:
    appended = await log.append(incoming(story("g1")))
    stored = [row async for row in log.rows()]
    for told, row in zip(appended.rows, stored, strict=True):
        assert json.loads(told.data or "") == json.loads(row.data or "")
        assert replace(told, data=None) == replace(row, data=None)
    assert await log.head() == appended.head
    assert appended.head.hash == stored[-1].hash


async def test_positions_go_on_without_a_gap_from_batch_to_batch(log: Log) -> None:
    messages = story("g1", "g2", candidates=40)
    batch = incoming(messages)
    for start in range(0, len(batch), 70):
        await log.append(batch[start : start + 70])
    assert await positions(log) == list(range(1, len(messages) + 1))
    assert (await verify(log)).first_break is None


async def test_a_sequence_that_is_recorded_already_is_skipped(log: Log) -> None:
    batch = incoming(story("g1"))
    await log.append(batch[:5])
    again = await log.append(batch[:7])
    assert [row.stream_seq for row in again.rows] == [6, 7]
    assert (await log.append(batch[:7])).rows == ()
    assert await log.duplicates() == ()


async def test_an_empty_batch_changes_nothing(log: Log) -> None:
    assert (await log.append([])).head == await log.head()


async def test_a_gap_is_refused_and_nothing_of_its_batch_is_recorded(log: Log) -> None:
    batch = incoming(story("g1"))
    with pytest.raises(Broken, match="sequence 3 is missing"):
        await log.append([*batch[:2], *batch[3:]])
    assert (await log.head()).position == 0
    with pytest.raises(Broken, match="sequence 1 is missing"):
        await log.append(batch[1:])


async def test_another_epoch_is_refused(log: Log) -> None:
    messages = story("g1")
    await log.append(incoming(messages[:2]))
    with pytest.raises(Broken, match="epoch"):
        await log.append(incoming(messages[2:], first_seq=3, epoch="epoch-2"))


async def test_the_same_id_and_body_is_recorded_once(log: Log) -> None:
    messages = story("g1")
    await log.append(incoming(messages))
    repeated = await log.append(incoming([messages[3]], first_seq=len(messages) + 1))
    assert repeated.rows == ()
    assert [(one.kind, one.event_id) for one in repeated.duplicates] == [("same_body", id_of(messages[3]))]
    assert await log.duplicates() == repeated.duplicates
    assert (await log.head()).stream_seq == len(messages) + 1
    assert (await log.head()).position == len(messages)


async def test_the_same_id_with_another_body_is_divergent_and_the_first_stays(log: Log) -> None:
    messages = story("g1")
    other = with_body(messages[0], messages[0].body.replace(b"sample-text", b"another"))
    appended = await log.append(incoming([messages[0], other]))
    assert [one.kind for one in appended.duplicates] == ["divergent"]
    first = await log.get(id_of(messages[0]))
    assert first is not None
    assert first.envelope == decode(messages[0])


async def test_a_repetition_far_inside_one_batch_is_found(log: Log) -> None:
    messages = story("g1", candidates=60)
    appended = await log.append(incoming([*messages, messages[0], messages[-1], messages[0]]))
    assert [one.kind for one in appended.duplicates] == ["same_body"] * 3
    assert len(appended.rows) == len(messages)


async def test_a_time_that_differs_is_still_the_same_body(log: Log) -> None:
    message = story("g1")[0]
    later = with_headers(message, ce_time="2027-01-01T00:00:00+00:00")
    appended = await log.append(incoming([message, later]))
    assert [one.kind for one in appended.duplicates] == ["same_body"]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
async def test_one_unparseable_message_does_not_fail_its_batch(log: Log, body: bytes) -> None:
    messages = story("g1")
    bad = with_body(messages[2], body)
    appended = await log.append(incoming([*messages[:2], bad, *messages[2:]]))
    blank = appended.rows[2]
    assert (blank.event_id, blank.type, blank.data, blank.goal_id) == (None, None, None, None)
    assert blank.raw.endswith(body)
    assert await positions(log) == [1, 2, *range(4, len(messages) + 2)]
    assert (await verify(log)).unparseable == 1


async def test_an_unparseable_message_shadows_no_id(log: Log) -> None:
    message = story("g1")[0]
    appended = await log.append(incoming([with_body(message, b"{"), message]))
    assert appended.duplicates == ()
    assert await positions(log) == [2]


async def test_a_subject_that_postgres_cannot_store_is_kept_in_raw(log: Log) -> None:
    message = story("g1")[0]
    appended = await log.append(incoming([Message("a\0b\ud800", message.headers, message.body)]))
    assert appended.rows[0].event_id is None
    assert (await verify(log)).first_break is None


async def test_an_unknown_type_is_recorded_and_no_fold_sees_it(log: Log) -> None:
    newer = with_headers(story("g1")[0], ce_type="goal.dreamt.v1")
    appended = await log.append(incoming([newer]))
    assert appended.rows[0].type == "goal.dreamt.v1"
    assert await read(log) == []
    assert await log.get(id_of(newer)) is None
    assert await log.position_of(id_of(newer)) == 1


async def test_reading_stops_at_the_position_asked_for(log: Log) -> None:
    await log.append(incoming(story("g1")))
    assert await positions(log, after=2, upto=5) == [3, 4, 5]
    assert [row.position async for row in log.rows(after=2, upto=5)] == [3, 4, 5]


async def test_reading_one_goal_gives_that_goal_only(log: Log) -> None:
    await log.append(incoming(story("g1", "g2")))
    found = await read(log, goal_id="g2")
    assert {fact.envelope.goal_id for fact in found} == {"g2"}
    assert len(found) == len(story("g2"))


async def test_reading_some_types_gives_those_types_in_order(log: Log) -> None:
    await log.append(incoming(story("g1", "g2")))
    found = await read(log, goal_id="g1", types=(CandidateMeasured, GoalAccepted))
    assert [type(fact.fact) for fact in found] == [GoalAccepted, CandidateMeasured]
    everywhere = await read(log, types=(GoalCompleted,))
    assert [fact.envelope.goal_id for fact in everywhere] == ["g1", "g2"]


async def test_more_than_a_page_is_read_whole(log: Log) -> None:
    messages = story("g1", candidates=700)
    await log.append(incoming(messages))
    assert await positions(log) == list(range(1, len(messages) + 1))
    assert len(await read(log, types=(CandidateProposed,))) == 700


async def test_an_id_that_is_not_recorded_is_nowhere(log: Log) -> None:
    missing = id_of(story("g1")[0])
    assert await log.get(missing) is None
    assert await log.position_of(missing) is None


async def test_a_log_goes_on_with_another_epoch_and_keeps_what_it_holds(log: Log) -> None:
    messages = story("g1")
    before = (await log.append(incoming(messages[:4]))).head
    opened = await log.open_epoch(before, "epoch-2", 6)
    assert (opened.position, opened.hash) == (before.position, before.hash)
    assert await log.head() == opened
    await log.append(incoming(messages[4:], first_seq=7, epoch="epoch-2"))
    assert await positions(log) == list(range(1, len(messages) + 1))


async def test_an_epoch_is_not_opened_from_a_head_that_has_moved(log: Log) -> None:
    stale = await log.head()
    moved = (await log.append(incoming(story("g1")))).head
    with pytest.raises(Broken, match="moved"):
        await log.open_epoch(stale, "epoch-2", 0)
    assert await log.head() == moved


async def test_a_census_counts_rows_by_type_and_those_that_are_no_fact(log: Log) -> None:
    bad, *rest = story("g1")
    await log.append(incoming([with_body(bad, b"no json"), *rest]))
    counted = await log.census()
    assert counted[None] == 1
    assert counted[CandidateProposed.TYPE] == 2
    assert sum(counted.values()) == len(rest) + 1
    assert sum((await log.census(3)).values()) == 3
