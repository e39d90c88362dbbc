"""Export and import: lossless, verified first, each log under its own origin, and nothing done twice."""

import json
import resource
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from schemas.envelope import Message
from schemas.events import GoalAccepted
from schemas.faults import Broken, Fault, Misconfigured
from services.console.commands.evidence import write_export
from services.evidence.audit import audit
from services.evidence.breaks import BreakKind
from services.evidence.export import Selection, encoded, export
from services.evidence.export_file import ExportFile
from services.evidence.foreign_log import foreign_log
from services.evidence.log import Log, Row
from services.evidence.memory_log import MemoryLog
from services.evidence.postgres_imports import TakenIn, take_in
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import Trust, verify
from tests.fixtures.facts import BEGIN, incoming, ticking, with_body
from tests.fixtures.postgres import Database
from tests.fixtures.signed import TRUSTED, signed_story

ORIGIN = "11111111-1111-4111-8111-111111111111"
HISTORY = signed_story("g1", "g2", candidates=3)
UNTEXT = Message("assay.fact.x", {"ce-id": "é", "signature": "x"}, b"\xff\x00")
"""No fact and no text: it still travels byte for byte."""
TRUST = Trust(TRUSTED)


async def other_log(messages: Iterable[Message] = (*HISTORY, UNTEXT, HISTORY[3])) -> MemoryLog:
    """Another factory's log, with one unreadable message and one duplicate unless told otherwise."""
    log = MemoryLog(ticking(), ORIGIN)
    batch = incoming(messages)
    await log.append(batch[:9])
    await log.append(batch[9:])
    return log


async def exported(path: Path, log: Log, selection: Selection | None = None) -> Path:
    path.write_bytes(b"".join([encoded(line) async for line in export(log, selection or Selection(), BEGIN, "0.1.0")]))
    return path


async def rows_of(log: Log) -> list[Row]:
    return [row async for row in log.rows()]


async def verified(path: Path) -> ExportFile:
    """The export in `path`, which holds. Raises Broken with the first break."""
    other = ExportFile(path)
    found = (await verify(other, trust=TRUST)).first_break
    if found:
        raise Broken(found.message)
    return other


async def imported(home: PostgresLog, path: Path) -> TakenIn:
    """`path` is verified and taken in, as the command does."""
    return await take_in(home, await verified(path), BEGIN)


# ---- export --------------------------------------------------------------------------------------------------------


async def test_an_export_holds_every_byte_of_the_log_and_verifies_alone(tmp_path: Path) -> None:
    log = await other_log()
    file = ExportFile(await exported(tmp_path / "all.jsonl", log))
    assert [replace(row, data=None) for row in await rows_of(file)] == [
        replace(row, data=None) for row in await rows_of(log)
    ]
    assert await file.duplicates() == await log.duplicates()
    found = await verify(file, trust=TRUST)
    assert found.first_break is None
    assert (found.rows, found.left_out, found.signed, found.unparseable) == (len(HISTORY) + 1, 0, len(HISTORY), 1)
    assert found.head == await log.head()


@pytest.mark.parametrize(
    "selection",
    [
        Selection(goal_id="g2"),
        Selection(types=("candidate.measured",)),
        Selection(types=("candidate.measured.v1", "goal.accepted")),
        Selection(after=12, upto=20),
        Selection(goal_id="nobody"),
    ],
    ids=str,
)
async def test_a_partial_export_says_so_and_names_what_it_leaves_out(tmp_path: Path, selection: Selection) -> None:
    log = await other_log()
    path = await exported(tmp_path / "part.jsonl", log, selection)
    file = ExportFile(path)
    assert file.header.partial
    chosen, everything = await rows_of(file), await rows_of(log)
    assert [row.raw for row in chosen] == [row.raw for row in everything if selection.takes(row)]
    found = await verify(file, trust=TRUST)
    assert found.first_break is None
    assert (found.rows, found.left_out) == (len(chosen), len(everything) - len(chosen))
    gaps = [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "left-out"]
    assert {gap["hash"] for gap in gaps} <= {row.hash.hex() for row in everything}
    assert all(everything[gap["last"] - 1].hash.hex() == gap["hash"] for gap in gaps)


async def test_certificates_always_travel_so_that_a_part_can_be_attributed(tmp_path: Path) -> None:
    file = ExportFile(await exported(tmp_path / "part.jsonl", await other_log(), Selection(goal_id="g2")))
    assert (await verify(file, trust=TRUST)).unsigned == 0
    assert sum(row.type == "key.certified.v1" for row in await rows_of(file)) == 5


async def test_exporting_an_import_again_gives_the_same_lines(tmp_path: Path, postgres_log: PostgresLog) -> None:
    first = await exported(tmp_path / "first.jsonl", await other_log())
    await imported(postgres_log, first)
    again = await exported(tmp_path / "again.jsonl", await foreign_log(postgres_log, ORIGIN))
    assert again.read_bytes() == first.read_bytes()


async def test_an_export_of_a_partial_copy_is_labelled_partial_too(tmp_path: Path, postgres_log: PostgresLog) -> None:
    await imported(postgres_log, await exported(tmp_path / "g2.jsonl", await other_log(), Selection(goal_id="g2")))
    again = ExportFile(await exported(tmp_path / "again.jsonl", await foreign_log(postgres_log, ORIGIN)))
    assert again.header.partial
    assert (await verify(again, trust=TRUST)).holds


async def test_a_full_disk_leaves_nothing_half_written_and_says_so(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: it fails in the same place."""
    file, soft = tmp_path / "out.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    lines = export(await other_log(), Selection(), BEGIN, "0.1.0")
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, soft[1]))
    try:
        with pytest.raises(Misconfigured, match="could not be written"):
            await write_export(file, lines)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="could not be written"):
        await write_export(tmp_path / "no" / "x.jsonl", export(await other_log(), Selection(), BEGIN, "0.1.0"))


# ---- bad files -----------------------------------------------------------------------------------------------------

Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, tuple[Damage, type[Fault], str]] = {
    "cut off": (lambda lines: lines[:-4], Broken, "cut off"),
    "cut off inside a line": (lambda lines: [*lines[:-4], lines[-4][:50]], Broken, f"line {len(HISTORY) + 1}"),
    "without its end": (lambda lines: lines[:-1], Broken, "cut off"),
    "with a line left out": (lambda lines: [*lines[:9], *lines[10:]], Broken, "its end says"),
    "in another order": (lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]], Broken, "not as it was written"),
    "with a word changed": (
        lambda lines: [one.replace(b"sample-text", b"other-text") for one in lines],
        Broken,
        "not as it was written",
    ),
    "with another time of export": (
        lambda lines: [lines[0].replace(b"2026-11-30T12:00:00Z", b"2027-11-30T12:00:00Z"), *lines[1:]],
        Broken,
        "not as it was written",
    ),
    "with something after the end": (lambda lines: [*lines, lines[5]], Broken, "follows the end"),
    "of another version": (
        lambda lines: [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]],
        Misconfigured,
        "version 2",
    ),
    "that is no export": (lambda _lines: [b"PK\x03\x04 something else\n"], Misconfigured, "no export"),
    "that is other JSON": (lambda _lines: [b'{"a": 1}\n'], Misconfigured, "no export"),
    "that is empty": (lambda _lines: [], Misconfigured, "empty"),
    "with a line that is no JSON": (lambda lines: [*lines[:5], b"\x00\xff\n", *lines[6:]], Broken, "line 6"),
    "with a line of brackets": (lambda lines: [*lines[:5], b"[" * 90_000 + b"\n", *lines[6:]], Broken, "line 6"),
    "with a line without end": (lambda lines: [*lines[:5], b"x" * (5 << 20)], Broken, "more than 4 MiB"),
    "with an event that says nothing": (
        lambda lines: [*lines[:5], lines[5].replace(b'"body"', b'"corpse"'), *lines[6:]],
        Broken,
        "line 6",
    ),
}


@pytest.mark.parametrize(("damage", "fault", "words"), DAMAGES.values(), ids=DAMAGES.keys())
async def test_a_damaged_export_does_not_verify_and_says_where(
    tmp_path: Path, damage: Damage, fault: type[Fault], words: str
) -> None:
    path = await exported(tmp_path / "bad.jsonl", await other_log())
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(fault, match=words):
        await verified(path)


async def test_an_export_of_a_broken_log_does_not_verify_either(tmp_path: Path) -> None:
    forged = [*HISTORY[:8], with_body(HISTORY[8], HISTORY[8].body + b" "), *HISTORY[9:]]
    path = await exported(tmp_path / "forged.jsonl", await other_log(forged))
    with pytest.raises(Broken, match="signature of"):
        await verified(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        ExportFile(tmp_path / "nowhere.jsonl")


# ---- import --------------------------------------------------------------------------------------------------------


async def test_an_imported_log_stands_under_its_own_origin_byte_for_byte(
    tmp_path: Path, postgres_log: PostgresLog
) -> None:
    log = await other_log()
    await postgres_log.append(incoming(signed_story("mine")))
    before = (await postgres_log.head()).stream_seq
    done = await imported(postgres_log, await exported(tmp_path / "all.jsonl", log))
    assert (done.new, done.known) == (len(HISTORY) + 1, 0)
    copy = await foreign_log(postgres_log, ORIGIN[:6])
    theirs, copied = await rows_of(log), await rows_of(copy)
    assert [(r.position, r.recorded_at, r.hash, r.raw) for r in copied] == [
        (r.position, r.recorded_at, r.hash, r.raw) for r in theirs
    ]
    assert (await postgres_log.head()).stream_seq == before
    found = await audit(postgres_log, trust=TRUST)
    assert found.holds, [one.first_break for one in found.verifications]
    assert [(one.origin, one.rows) for one in found.copies] == [(ORIGIN, len(theirs))]
    assert found.own.foreign == len(theirs)


async def test_no_fold_of_this_factory_sees_what_was_imported(tmp_path: Path, postgres_log: PostgresLog) -> None:
    await imported(postgres_log, await exported(tmp_path / "all.jsonl", await other_log()))
    assert [fact async for fact in postgres_log.read()] == []
    accepted = [row for row in await rows_of(await other_log()) if row.type == GoalAccepted.TYPE]
    assert accepted[0].event_id is not None
    assert await postgres_log.get(accepted[0].event_id) is None
    copy = await foreign_log(postgres_log, ORIGIN)
    assert [fact.fact.goal_id async for fact in copy.read(types=(GoalAccepted,))] == ["g1", "g2"]
    theirs = await copy.get(accepted[0].event_id)
    assert theirs is not None
    assert theirs.position == accepted[0].position
    assert [fact.fact.goal_id async for fact in copy.read(goal_id="g2", types=(GoalAccepted,))] == ["g2"]


async def test_recording_goes_on_after_an_import_and_the_same_ids_may_come_again(
    tmp_path: Path, postgres_log: PostgresLog
) -> None:
    """The same goal id in two factories gives the same derived ids: they are two facts of two logs."""
    await imported(postgres_log, await exported(tmp_path / "all.jsonl", await other_log()))
    await postgres_log.append(incoming(HISTORY))
    assert len([fact async for fact in postgres_log.read()]) == len(HISTORY)
    assert (await audit(postgres_log, trust=TRUST)).holds


async def test_importing_what_is_there_changes_nothing(tmp_path: Path, postgres_log: PostgresLog) -> None:
    path = await exported(tmp_path / "all.jsonl", await other_log())
    await imported(postgres_log, path)
    head = await postgres_log.head()
    again = await imported(postgres_log, path)
    assert (again.new, again.known) == (0, len(HISTORY) + 1)
    assert await postgres_log.head() == head


async def test_importing_a_copy_of_this_very_log_compares_and_changes_nothing(
    tmp_path: Path, database: Database, postgres_log: PostgresLog
) -> None:
    await postgres_log.append(incoming(HISTORY))
    path = await exported(tmp_path / "mine.jsonl", postgres_log)
    done = await imported(postgres_log, path)
    assert (done.own, done.new, done.known) == (True, 0, len(HISTORY))
    await database.sabotage("UPDATE events SET hash = decode(repeat('ab', 32), 'hex') WHERE position = 6")
    with pytest.raises(Broken, match="position 6"):
        await imported(postgres_log, path)


async def test_parts_of_a_log_join_and_in_the_end_it_is_whole(tmp_path: Path, postgres_log: PostgresLog) -> None:
    log = await other_log()
    await imported(postgres_log, await exported(tmp_path / "g2.jsonl", log, Selection(goal_id="g2")))
    (part,) = await postgres_log.imports()
    assert part.partial
    found = await audit(postgres_log, trust=TRUST)
    assert found.holds
    assert found.copies[0].left_out > 0
    await imported(postgres_log, await exported(tmp_path / "g1.jsonl", log, Selection(goal_id="g1")))
    done = await imported(postgres_log, await exported(tmp_path / "all.jsonl", log))
    assert (done.new, done.known) == (1, len(HISTORY))
    (whole,) = await postgres_log.imports()
    assert not whole.partial
    found = await audit(postgres_log, trust=TRUST)
    assert found.holds
    assert (found.copies[0].rows, found.copies[0].left_out) == (len(HISTORY) + 1, 0)


async def test_an_import_that_was_cut_short_is_gone_on_with(
    tmp_path: Path, postgres_log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await exported(tmp_path / "all.jsonl", await other_log())
    monkeypatch.setattr("services.evidence.postgres_imports.BATCH_ROWS", 7)

    def killed(row: int, _of: int) -> None:
        if row > 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await take_in(postgres_log, ExportFile(path), BEGIN, killed)
    half = await audit(postgres_log, trust=TRUST)
    assert half.holds, "evidence is not broken by an import that goes on, or was cut short"
    assert [one.partial for one in await postgres_log.imports()] == [True]
    done = await imported(postgres_log, path)
    assert (done.new, done.known) == (len(HISTORY) + 1 - 21, 21)
    assert (await audit(postgres_log, trust=TRUST)).holds


async def test_another_history_of_a_log_that_is_here_already_is_refused(
    tmp_path: Path, postgres_log: PostgresLog
) -> None:
    await imported(postgres_log, await exported(tmp_path / "all.jsonl", await other_log()))
    head = await postgres_log.head()
    rewritten = await exported(tmp_path / "other.jsonl", await other_log(HISTORY[:-4]))
    moved = MemoryLog(ticking(BEGIN.replace(hour=13)), ORIGIN)
    await moved.append(incoming(HISTORY))
    assert (await imported(postgres_log, rewritten)).new == 0, "a shorter copy of the same history is no other history"
    with pytest.raises(Broken, match="rewritten"):
        await imported(postgres_log, await exported(tmp_path / "moved.jsonl", moved))
    assert await postgres_log.head() == head


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DELETE FROM imported WHERE origin_position = 9", BreakKind.ORIGIN),
        ("UPDATE imported SET recorded_at = recorded_at + interval '1 s' WHERE origin_position = 9", BreakKind.DIGEST),
        ("UPDATE imported SET hash = decode(repeat('ab', 32), 'hex') WHERE origin_position = 9", BreakKind.DIGEST),
        ("UPDATE imports SET head_hash = decode(repeat('ab', 32), 'hex')", BreakKind.HEAD),
    ],
)
async def test_tampering_with_a_copy_is_named(
    tmp_path: Path, database: Database, postgres_log: PostgresLog, statement: str, kind: BreakKind
) -> None:
    await imported(postgres_log, await exported(tmp_path / "all.jsonl", await other_log()))
    connection = await asyncpg.connect(database.admin_dsn)
    async with connection.transaction():
        for table in ("imported", "imports"):
            await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        await connection.execute(statement)
    await connection.close()
    found = await audit(postgres_log, trust=TRUST)
    assert kind in [one.first_break.kind for one in found.verifications if one.first_break]


async def test_what_was_imported_is_append_only_too(
    tmp_path: Path, database: Database, postgres_log: PostgresLog
) -> None:
    await imported(postgres_log, await exported(tmp_path / "all.jsonl", await other_log()))
    connection = await asyncpg.connect(database.admin_dsn)
    for table in ("imported", "imports", "imported_duplicates"):
        for statement in (f"DELETE FROM {table}", f"TRUNCATE {table}", f"UPDATE {table} SET origin = origin"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    await connection.close()


async def test_an_origin_that_was_never_imported_is_said_with_what_there_is(
    tmp_path: Path, postgres_log: PostgresLog
) -> None:
    with pytest.raises(Misconfigured, match="nothing was imported"):
        await foreign_log(postgres_log, "abc")
    await imported(postgres_log, await exported(tmp_path / "all.jsonl", await other_log()))
    with pytest.raises(Misconfigured, match=ORIGIN):
        await foreign_log(postgres_log, "abc")
