"""A superuser who writes history anew, chain and head included, is found out by signatures and outside checkpoints."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.envelope import Message
from services.evidence import checkpoints
from services.evidence.breaks import BreakKind
from services.evidence.log import Row
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import Trust, Verification, verify
from tests.fixtures.facts import BEGIN, incoming, story, with_body, with_headers
from tests.fixtures.forgery import recorded_rows, replace_history, rewritten
from tests.fixtures.postgres import Database
from tests.fixtures.signed import BOOTSTRAP, STRANGER, TRUSTED, keys, older_story, resigned, signed_story, unsigned

HISTORY = signed_story("g1", "g2", candidates=3)
LAST = len(HISTORY)
CERTIFICATES = 5
COMPILED = CERTIFICATES + 4
"""Position of a candidate.compiled."""
SOURCE = b"sample-text"
Edit = Callable[[list[Message]], list[Message]]


def replacing(position: int, edit: Callable[[Message], Message]) -> Edit:
    """The message at `position` is another one."""
    return lambda messages: [*messages[: position - 1], edit(messages[position - 1]), *messages[position:]]


FORGERIES: dict[str, tuple[Edit, int]] = {
    "a payload edited": (replacing(COMPILED, lambda m: with_body(m, m.body.replace(SOURCE, b"other-text"))), COMPILED),
    "a fact re-dated": (replacing(COMPILED, lambda m: with_headers(m, ce_time="2027-01-01T00:00:00+00:00")), COMPILED),
    "a fact re-attributed": (
        replacing(COMPILED, lambda m: with_headers(m, ce_source="assay/verifier/1")),
        COMPILED,
    ),
    "a fact re-attributed and signed by the other service": (
        replacing(COMPILED, lambda m: with_headers(resigned(m, "verifier"), ce_source="assay/compiler/1")),
        COMPILED,
    ),
    "a signature removed": (replacing(COMPILED, unsigned), COMPILED),
    "a signature of another fact": (
        replacing(COMPILED, lambda m: with_headers(m, signature=HISTORY[COMPILED].headers["signature"])),
        COMPILED,
    ),
    "a signature that is none": (replacing(COMPILED, lambda m: with_headers(m, signature="forged")), COMPILED),
    "a fact signed by a key that a stranger certified": (
        replacing(COMPILED, lambda m: resigned(m, "compiler", STRANGER)),
        COMPILED,
    ),
    "a certificate of a stranger": (
        lambda messages: [*messages[:CERTIFICATES], _stranger_compiler(), *messages[CERTIFICATES:-1]],
        CERTIFICATES + 1,
    ),
    "everything signed anew by a stranger": (
        lambda _messages: list(signed_story("g1", "g2", candidates=3, bootstrap=STRANGER)),
        1,
    ),
    "all keys and signatures removed": (
        lambda messages: [unsigned(message) for message in messages[CERTIFICATES:]],
        1,
    ),
    "a certificate taken out": (lambda messages: [*messages[:1], *messages[2:]], COMPILED - 1),
    "the certificates moved behind what they were to protect": (
        lambda messages: [
            *(unsigned(message) for message in messages[CERTIFICATES:8]),
            *messages[:CERTIFICATES],
            *messages[8:],
        ],
        4,
    ),
}
"""What was forged, and where it must be found. The chain, the columns and the head fit in all of them."""


def _stranger_compiler() -> Message:
    return signed_story(bootstrap=STRANGER)[1]


async def judged(database: Database, trust: Trust) -> Verification:
    log = PostgresLog(database.reader_dsn)
    try:
        return await verify(log, trust=trust)
    finally:
        await log.close()


async def test_a_signed_history_holds_and_everything_in_it_is_attributed(
    database: Database, postgres_log: PostgresLog
) -> None:
    await postgres_log.append(incoming(HISTORY))
    found = await judged(database, Trust(TRUSTED))
    assert found.first_break is None
    assert (found.signed, found.unsigned, found.bootstrap_keys) == (LAST, 0, (BOOTSTRAP.fingerprint,))


@pytest.mark.parametrize(("edit", "position"), FORGERIES.values(), ids=FORGERIES.keys())
async def test_a_forgery_with_a_fitting_chain_is_found_by_its_signature(
    database: Database, postgres_log: PostgresLog, edit: Edit, position: int
) -> None:
    await postgres_log.append(incoming(HISTORY))
    rows = await recorded_rows(database)
    await replace_history(database, rewritten(rows, edit(list(HISTORY))))
    found = (await judged(database, Trust(TRUSTED))).first_break
    assert found is not None
    assert (found.position, found.kind) == (position, BreakKind.SIGNATURE), found.message


async def test_facts_from_before_there_were_keys_stay_unsigned_and_are_counted(
    database: Database, postgres_log: PostgresLog
) -> None:
    earlier = older_story("old")
    await postgres_log.append(incoming([*earlier, *HISTORY]))
    found = await judged(database, Trust(TRUSTED))
    assert found.first_break is None
    assert (found.signed, found.unsigned) == (LAST, len(earlier))


async def test_a_bootstrap_key_that_was_replaced_is_brought_along_with_the_new_one(
    database: Database, postgres_log: PostgresLog
) -> None:
    later = signed_story("g3", bootstrap=STRANGER)
    await postgres_log.append(incoming([*HISTORY, *later]))
    found = await judged(database, Trust(TRUSTED | {STRANGER.fingerprint}))
    assert found.first_break is None
    assert found.bootstrap_keys == (BOOTSTRAP.fingerprint, STRANGER.fingerprint)
    for one_only in (TRUSTED, frozenset({STRANGER.fingerprint})):
        broken = (await judged(database, Trust(one_only))).first_break
        assert broken is not None
        assert broken.kind is BreakKind.SIGNATURE


async def test_a_log_without_any_key_holds_but_not_for_an_auditor_who_brought_one(
    database: Database, postgres_log: PostgresLog
) -> None:
    await postgres_log.append(incoming(story("g1")))
    plain = await judged(database, Trust())
    assert (plain.first_break, plain.signed, plain.unsigned) == (None, 0, len(story("g1")))
    found = (await judged(database, Trust(TRUSTED))).first_break
    assert found is not None
    assert (found.position, found.kind) == (1, BreakKind.SIGNATURE)


# ---- what only a checkpoint shows ----------------------------------------------------------------------------------


def cut(rows: list[Row]) -> list[Row]:
    return rows[:-3]


def re_dated(rows: list[Row]) -> list[Row]:
    """Recorded at another time: no service signed that."""
    later = [row.recorded_at + timedelta(seconds=row.position >= COMPILED) for row in rows]
    moved = [Row(**{**vars(row), "recorded_at": moment}) for row, moment in zip(rows, later, strict=True)]
    return rewritten(moved, HISTORY)


def renumbered(rows: list[Row]) -> list[Row]:
    """Another stream sequence for the last fact, as if one before it had been taken out."""
    return rewritten(rows, HISTORY[:-4])


REWRITTEN: dict[str, tuple[Callable[[list[Row]], list[Row]], int]] = {
    "the tail cut off and the head put back": (cut, LAST - 2),
    "a goal's end taken out": (renumbered, LAST - 3),
    "rows re-dated and the chain rewritten": (re_dated, LAST),
}


@pytest.mark.parametrize(("edit", "position"), REWRITTEN.values(), ids=REWRITTEN.keys())
async def test_history_rewritten_by_whoever_needs_no_signature_is_found_by_a_checkpoint(
    database: Database,
    postgres_log: PostgresLog,
    tmp_path: Path,
    edit: Callable[[list[Row]], list[Row]],
    position: int,
) -> None:
    await postgres_log.append(incoming(HISTORY))
    trust = await checkpointed(postgres_log, tmp_path)
    assert (await judged(database, trust)).checkpoints == 1
    await replace_history(database, edit(await recorded_rows(database)))
    assert (await judged(database, Trust(TRUSTED))).holds
    found = (await judged(database, trust)).first_break
    assert found is not None
    assert (found.position, found.kind) == (position, BreakKind.CHECKPOINT), found.message


async def test_a_cut_tail_is_still_found_when_other_facts_have_grown_over_it(
    database: Database, postgres_log: PostgresLog, tmp_path: Path
) -> None:
    await postgres_log.append(incoming(HISTORY))
    trust = await checkpointed(postgres_log, tmp_path)
    await replace_history(database, cut(await recorded_rows(database)))
    grown = signed_story("g3")[CERTIFICATES:]
    await postgres_log.append(incoming(grown, first_seq=LAST - 2))
    found = (await judged(database, trust)).first_break
    assert found is not None
    assert (found.position, found.kind) == (LAST, BreakKind.CHECKPOINT), found.message


async def test_another_log_in_the_place_of_this_one_is_found_by_a_checkpoint(
    database: Database, postgres_log: PostgresLog, tmp_path: Path
) -> None:
    await postgres_log.append(incoming(HISTORY))
    trust = await checkpointed(postgres_log, tmp_path)
    await database.sabotage("DELETE FROM events", "DELETE FROM head", "INSERT INTO head DEFAULT VALUES")
    found = (await judged(database, trust)).first_break
    assert found is not None
    assert (found.position, found.kind) == (0, BreakKind.CHECKPOINT), found.message


async def checkpointed(log: PostgresLog, folder: Path) -> Trust:
    """What an auditor has who kept a checkpoint of the log as it is now."""
    made = checkpoints.make(keys()["librarian"], await log.origin(), await log.head(), BEGIN)
    checkpoints.write(folder, made)
    return Trust(TRUSTED, checkpoints.read(folder))
