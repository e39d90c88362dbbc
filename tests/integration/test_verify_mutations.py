"""`verify` must name every kind of tampering, done as the superuser with the triggers off, and nothing else."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from schemas.envelope import Message, due, encode
from schemas.events import ChampionCrowned
from schemas.ids import answer_id
from services.evidence.breaks import BreakKind
from services.evidence.chain import link
from services.evidence.log import Incoming, Row
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import Verification, verify
from tests.fixtures.facts import Story, golden, id_of, incoming, story, with_body, with_headers
from tests.fixtures.postgres import Database

MESSAGES = story("g1", "g2", candidates=3)
LAST = len(MESSAGES)
COLUMNS = "position, origin, epoch, stream_seq, event_id, type, subject, recorded_at, raw, hash"
MUTATIONS: dict[str, tuple[str, int, BreakKind]] = {
    "an edited payload column": (
        "UPDATE events SET data = jsonb_set(data, '{goal_id}', '\"other\"') WHERE position = 4",
        4,
        BreakKind.COLUMN,
    ),
    "a payload column with a key more": (
        "UPDATE events SET data = data || '{\"x\":1}' WHERE position = 4",
        4,
        BreakKind.COLUMN,
    ),
    "an edited raw payload": (
        "UPDATE events SET raw = overlay(raw placing '\\x20' from octet_length(raw)) WHERE position = 4",
        4,
        BreakKind.DIGEST,
    ),
    "an edited goal": ("UPDATE events SET goal_id = 'other' WHERE position = 5", 5, BreakKind.COLUMN),
    "an edited generation": ("UPDATE events SET generation = 9 WHERE position = 3", 3, BreakKind.COLUMN),
    "an edited candidate": (
        "UPDATE events SET candidate_id = gen_random_uuid() WHERE position = 6",
        6,
        BreakKind.COLUMN,
    ),
    "an edited cause": ("UPDATE events SET causation_id = NULL WHERE position = 6", 6, BreakKind.COLUMN),
    "an edited subject": ("UPDATE events SET subject = subject || 'x' WHERE position = 6", 6, BreakKind.COLUMN),
    "an edited type": ("UPDATE events SET type = 'candidate.measured.v1' WHERE position = 4", 4, BreakKind.COLUMN),
    "an edited id": ("UPDATE events SET event_id = gen_random_uuid() WHERE position = 4", 4, BreakKind.COLUMN),
    "a blanked row": (
        (
            "UPDATE events SET event_id = NULL, type = NULL, source = NULL, goal_id = NULL, candidate_id = NULL, "
            "generation = NULL, causation_id = NULL, occurred_at = NULL, data = NULL WHERE position = 4"
        ),
        4,
        BreakKind.COLUMN,
    ),
    "a row re-attributed": ("UPDATE events SET source = 'assay/someone/else' WHERE position = 7", 7, BreakKind.COLUMN),
    "a row re-attributed in raw": (
        (
            "UPDATE events SET raw = decode(replace(encode(raw, 'hex'), encode('assay/test/1', 'hex'), "
            "encode('assay/evil/1', 'hex')), 'hex') WHERE position = 7"
        ),
        7,
        BreakKind.DIGEST,
    ),
    "a row re-dated by a microsecond": (
        "UPDATE events SET recorded_at = recorded_at + interval '1 microsecond' WHERE position = 8",
        8,
        BreakKind.DIGEST,
    ),
    "a fact re-dated": (
        "UPDATE events SET occurred_at = occurred_at + interval '1 day' WHERE position = 8",
        8,
        BreakKind.COLUMN,
    ),
    "a deleted row": ("DELETE FROM events WHERE position = 5", 5, BreakKind.MISSING),
    "the first row deleted": ("DELETE FROM events WHERE position = 1", 1, BreakKind.MISSING),
    "a tail cut off": (f"DELETE FROM events WHERE position > {LAST - 2}", LAST - 1, BreakKind.MISSING),
    "everything deleted": ("DELETE FROM events", 1, BreakKind.MISSING),
    "two rows swapped": (
        (
            "UPDATE events SET position = CASE position WHEN 4 THEN 1000 ELSE 1001 END WHERE position IN (4, 5);"
            "UPDATE events SET position = CASE position WHEN 1000 THEN 5 ELSE 4 END WHERE position IN (1000, 1001)"
        ),
        4,
        BreakKind.DIGEST,
    ),
    "two stream sequences swapped": (
        (
            "UPDATE events SET stream_seq = CASE stream_seq WHEN 4 THEN 1000 ELSE 1001 END WHERE stream_seq IN (4, 5);"
            "UPDATE events SET stream_seq = CASE stream_seq WHEN 1000 THEN 5 ELSE 4 END WHERE stream_seq > 999"
        ),
        4,
        BreakKind.DIGEST,
    ),
    "a row inserted in the middle": (
        (
            f"UPDATE events SET position = position + 1000 WHERE position > 3;"
            f"UPDATE events SET position = position - 999 WHERE position > 1000;"
            f"INSERT INTO events ({COLUMNS}) SELECT 4, origin, epoch, 1000, gen_random_uuid(), type, subject, "
            f"recorded_at, raw, hash FROM events WHERE position = 3"
        ),
        4,
        BreakKind.DIGEST,
    ),
    "a row inserted at the end": (
        (
            f"INSERT INTO events ({COLUMNS}) SELECT {LAST + 1}, origin, epoch, 1000, gen_random_uuid(), type, subject, "
            f"recorded_at, raw, hash FROM events WHERE position = 3"
        ),
        LAST + 1,
        BreakKind.HEAD,
    ),
    "another epoch": ("UPDATE events SET epoch = 'epoch-2' WHERE position = 6", 6, BreakKind.DIGEST),
    "another origin": ("UPDATE events SET origin = gen_random_uuid() WHERE position = 6", 6, BreakKind.DIGEST),
    "an edited hash": (
        "UPDATE events SET hash = decode(repeat('ab', 32), 'hex') WHERE position = 6",
        6,
        BreakKind.DIGEST,
    ),
    "an edited head hash": ("UPDATE head SET hash = decode(repeat('ab', 32), 'hex')", LAST, BreakKind.HEAD),
    "a head put back": ("UPDATE head SET position = position - 1", LAST - 1, BreakKind.HEAD),
    "a head put forward": ("UPDATE head SET position = position + 1", LAST + 1, BreakKind.MISSING),
    "a head past its stream": ("UPDATE head SET stream_seq = stream_seq + 1", LAST, BreakKind.SEQUENCE),
    "an invented duplicate": (
        (
            f"INSERT INTO duplicates VALUES ('epoch-1', {LAST + 1}, gen_random_uuid(), 'x', 'same_body');"
            f"UPDATE head SET stream_seq = {LAST + 1}"
        ),
        LAST,
        BreakKind.DUPLICATE,
    ),
    "a duplicate that is a row": (
        "INSERT INTO duplicates VALUES ('epoch-1', 5, gen_random_uuid(), 'x', 'same_body')",
        5,
        BreakKind.SEQUENCE,
    ),
}


async def judged(database: Database) -> Verification:
    """What `verify` says, connected as the reader."""
    log = PostgresLog(database.reader_dsn)
    try:
        return await verify(log)
    finally:
        await log.close()


async def test_a_clean_log_holds(database: Database, postgres_log: PostgresLog) -> None:
    repeated = [*MESSAGES, MESSAGES[0], with_body(MESSAGES[1], b"{}"), with_body(MESSAGES[2], b"\xff")]
    await postgres_log.append(incoming(repeated))
    found = await judged(database)
    assert found.first_break is None
    assert found.holds
    assert (found.rows, found.goals, found.candidates) == (LAST + 1, 2, 6)
    assert (found.duplicates, found.divergent, found.unparseable, found.late) == (2, 1, 1, 0)


async def test_an_empty_log_holds(database: Database) -> None:
    assert (await judged(database)).holds


@pytest.mark.parametrize(("statements", "position", "kind"), MUTATIONS.values(), ids=MUTATIONS.keys())
async def test_tampering_is_named_with_its_position_and_kind(
    database: Database, postgres_log: PostgresLog, statements: str, position: int, kind: BreakKind
) -> None:
    await postgres_log.append(incoming(MESSAGES))
    assert (await judged(database)).holds
    await database.sabotage(*statements.split(";"))
    found = (await judged(database)).first_break
    assert found is not None
    assert (found.position, found.kind) == (position, kind), found.message
    assert found.message


async def test_a_deleted_duplicate_is_a_sequence_that_nobody_accounts_for(
    database: Database, postgres_log: PostgresLog
) -> None:
    await postgres_log.append(incoming([*MESSAGES[:3], MESSAGES[0], *MESSAGES[3:]]))
    await database.sabotage("DELETE FROM duplicates")
    found = (await judged(database)).first_break
    assert found is not None
    assert (found.position, found.kind) == (4, BreakKind.SEQUENCE)


@pytest.mark.parametrize(
    "edit", ["kind = 'same_body'", "body_sha256 = 'x', kind = 'same_body'", "event_id = gen_random_uuid()"]
)
async def test_an_edited_duplicate_is_named(database: Database, postgres_log: PostgresLog, edit: str) -> None:
    await postgres_log.append(incoming([*MESSAGES, with_body(MESSAGES[0], b"{}")]))
    assert (await judged(database)).holds
    await database.sabotage(f"UPDATE duplicates SET {edit}")
    found = (await judged(database)).first_break
    assert found is not None
    assert (found.position, found.kind) == (LAST, BreakKind.DUPLICATE)


async def test_a_forged_row_with_its_own_right_hash_breaks_the_next_one(
    database: Database, postgres_log: PostgresLog
) -> None:
    await postgres_log.append(incoming(MESSAGES))
    rows = [row async for row in postgres_log.rows()]
    await rewrite(database, rows[3], rows[2].hash, lambda raw: raw + b" ")
    found = (await judged(database)).first_break
    assert found is not None
    assert (found.position, found.kind) == (5, BreakKind.DIGEST)


async def test_a_forged_last_row_with_its_own_right_hash_breaks_the_head(
    database: Database, postgres_log: PostgresLog
) -> None:
    await postgres_log.append(incoming(MESSAGES))
    rows = [row async for row in postgres_log.rows()]
    await rewrite(database, rows[-1], rows[-2].hash, lambda raw: raw + b" ")
    found = (await judged(database)).first_break
    assert found is not None
    assert (found.position, found.kind) == (LAST, BreakKind.HEAD)


async def rewrite(database: Database, row: Row, previous: bytes, edit: Callable[[bytes], bytes]) -> None:
    """`row` says something else, with the hash that this needs."""
    raw = edit(row.raw)
    hashed = link(previous, row.position, row.origin, row.epoch, row.stream_seq, row.recorded_at, raw)
    data = "data || '{}'"  # a trailing blank changes raw and not its meaning
    await database.sabotage(
        f"UPDATE events SET raw = '\\x{raw.hex()}', hash = '\\x{hashed.hex()}', data = {data} "
        f"WHERE position = {row.position}"
    )


def caused_by(message: Message, cause: Message, slot: str) -> Message:
    """`message` as the answer that decision `slot` gives to `cause`."""
    return with_headers(message, ce_id=str(answer_id(id_of(cause), slot)), ce_causationid=str(id_of(cause)))


BAD_STORIES: dict[str, tuple[Callable[[], list[Incoming]], int, BreakKind]] = {}


def bad_story(position: int, kind: BreakKind) -> Callable[[Callable[[], list[Incoming]]], Callable[[], list[Incoming]]]:
    """A history that was recorded faithfully and could not have happened."""

    def keep(told: Callable[[], list[Incoming]]) -> Callable[[], list[Incoming]]:
        BAD_STORIES[told.__name__.replace("_", " ")] = (told, position, kind)
        return told

    return keep


ONE = story("g1")  # accepted, due, proposed, compiled, verified, measured, proposed, compiled, rejected, completed


@bad_story(6, BreakKind.CAUSE)
def a_cause_recorded_nowhere() -> list[Incoming]:
    cause = uuid4()
    return incoming([*ONE[:5], with_headers(ONE[5], ce_causationid=str(cause), ce_id=str(answer_id(cause, "measure")))])


@bad_story(2, BreakKind.CAUSE)
def an_effect_before_its_cause() -> list[Incoming]:
    return incoming([ONE[0], ONE[2], ONE[1]])


@bad_story(5, BreakKind.PATH)
def measured_without_being_verified() -> list[Incoming]:
    return incoming([*ONE[:4], caused_by(ONE[5], ONE[3], "measure")])


@bad_story(5, BreakKind.PATH)
def measured_without_a_generation_due() -> list[Incoming]:
    rootless = with_headers(ONE[2], ce_causationid=None)
    return incoming([ONE[0], rootless, *ONE[3:6]])


@bad_story(5, BreakKind.PATH)
def measured_for_a_goal_that_was_not_accepted() -> list[Incoming]:
    return incoming([with_headers(ONE[1], ce_causationid=None), *ONE[2:6]])


@bad_story(7, BreakKind.ID)
def an_id_that_follows_from_no_decision() -> list[Incoming]:
    return incoming([*ONE[:6], with_headers(ONE[5], ce_id=str(uuid4()))])


@bad_story(7, BreakKind.PATH)
def two_answers_to_one_question() -> list[Incoming]:
    rejected = with_headers(ONE[8], ce_id=str(answer_id(id_of(ONE[4]), "compile")), ce_causationid=str(id_of(ONE[4])))
    body = rejected.body.replace(str(id_of(ONE[6])).encode(), str(id_of(ONE[2])).encode())
    return incoming([*ONE[:6], with_body(rejected, body)])


@bad_story(6, BreakKind.PATH)
def crowned_without_finals() -> list[Incoming]:
    champion = golden(ChampionCrowned, goal_id="g1", candidate_id=id_of(ONE[2]))
    crowned = Story().state(due("g1", "champion", champion, because=id_of(ONE[0])))
    return incoming([*ONE[:5], encode(crowned)])


@pytest.mark.parametrize(("told", "position", "kind"), BAD_STORIES.values(), ids=BAD_STORIES.keys())
async def test_a_history_that_cannot_have_happened_is_named(
    database: Database,
    postgres_log: PostgresLog,
    told: Callable[[], list[Incoming]],
    position: int,
    kind: BreakKind,
) -> None:
    await postgres_log.append(told())
    found = (await judged(database)).first_break
    assert found is not None
    assert (found.position, found.kind) == (position, kind), found.message


async def test_a_late_terminal_fact_is_counted_and_is_no_break(database: Database, postgres_log: PostgresLog) -> None:
    late = caused_by(ONE[8], ONE[6], "verify")
    await postgres_log.append(incoming([*ONE, late]))
    found = await judged(database)
    assert found.first_break is None
    assert found.late == 1
