"""Checkpoints are written outside the database at the start, at each champion, on schedule and at the end of a term."""

import asyncio
from pathlib import Path

import pytest

from schemas.faults import Broken, Misconfigured
from services.evidence import checkpoints
from services.evidence.log import Log
from services.evidence.memory_log import MemoryLog
from services.evidence.verify import Trust, verify
from services.librarian.notary import Notary
from tests.fixtures.facts import BEGIN, incoming
from tests.fixtures.signed import STRANGER, TRUSTED, certificates, keys, signed_story

NEVER_S = 3600.0
MOMENT = BEGIN.replace(hour=1)


def notary(folder: Path, every_s: float = NEVER_S) -> Notary:
    return Notary(keys()["librarian"], folder, every_s, lambda: BEGIN)


def positions(folder: Path) -> list[int]:
    return [one.checkpoint.position for one in checkpoints.read(folder)]


async def grown(log: Log, by: int = 3) -> None:
    """`by` facts more are in the log."""
    end = (await log.head()).stream_seq
    await log.append(incoming(signed_story("g1")[end : end + by], first_seq=end + 1))


async def until(folder: Path, expected: list[int]) -> None:
    async with asyncio.timeout(60):
        while not folder.exists() or positions(folder) != expected:  # noqa: ASYNC110  a file is awaited
            await asyncio.sleep(0.01)


async def test_a_checkpoint_is_written_at_the_start_and_whenever_it_is_asked_for(tmp_path: Path) -> None:
    log, writer = MemoryLog(), notary(tmp_path)
    await grown(log)
    keeping = asyncio.create_task(writer.keep(log))
    await until(tmp_path, [3])
    await grown(log)
    writer.ask()
    await until(tmp_path, [3, 6])
    keeping.cancel()


async def test_a_log_that_grows_is_attested_on_schedule_and_one_that_rests_is_not(tmp_path: Path) -> None:
    log = MemoryLog()
    await grown(log)
    keeping = asyncio.create_task(notary(tmp_path, every_s=0.01).keep(log))
    await until(tmp_path, [3])
    await grown(log)
    await until(tmp_path, [3, 6])
    await asyncio.sleep(0.05)
    assert positions(tmp_path) == [3, 6]
    keeping.cancel()


async def test_an_empty_log_needs_no_checkpoint(tmp_path: Path) -> None:
    await notary(tmp_path).attest(MemoryLog())
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_cannot_be_written_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    log = MemoryLog()
    await grown(log)
    writer = notary(tmp_path / "file")
    await writer.attest(log)
    (tmp_path / "file").unlink()
    await writer.attest(log)
    assert positions(tmp_path / "file") == [3]


async def test_what_was_written_down_is_what_verify_compares_with(tmp_path: Path) -> None:
    log = MemoryLog()
    await grown(log, by=10)
    await notary(tmp_path).attest(log)
    await grown(log)
    found = await verify(log, trust=Trust(TRUSTED, checkpoints.read(tmp_path)))
    assert found.first_break is None
    assert found.checkpoints == 1


async def _one(folder: Path) -> Path:
    log = MemoryLog()
    await grown(log)
    await notary(folder).attest(log)
    (path,) = folder.iterdir()
    return path


async def test_a_checkpoint_signed_by_an_unknown_key_proves_nothing(tmp_path: Path) -> None:
    log = MemoryLog()
    await log.append(incoming(certificates()))
    strange = checkpoints.make(keys(STRANGER)["librarian"], await log.origin(), await log.head(), BEGIN)
    checkpoints.write(tmp_path, strange)
    found = (await verify(log, trust=Trust(TRUSTED, checkpoints.read(tmp_path)))).first_break
    assert found is not None
    assert "unknown key" in found.message


async def test_only_a_librarians_checkpoint_counts(tmp_path: Path) -> None:
    log = MemoryLog()
    await grown(log)
    checkpoints.write(tmp_path, checkpoints.make(keys()["compiler"], await log.origin(), await log.head(), BEGIN))
    (found,) = checkpoints.read(tmp_path)
    assert "only the librarian" in str(checkpoints.objection(found.checkpoint, TRUSTED))


@pytest.mark.parametrize("field", ["position", "hash", "origin", "epoch", "stream_seq", "at"])
async def test_an_edited_checkpoint_proves_nothing(tmp_path: Path, field: str) -> None:
    (found,) = checkpoints.read((await _one(tmp_path)).parent)
    other = {
        "position": 2,
        "hash": "ab" * 32,
        "origin": "x",
        "epoch": "x",
        "stream_seq": 9,
        "at": BEGIN.replace(hour=1),
    }
    edited = found.checkpoint.model_copy(update={field: other[field]})
    assert "signature" in str(checkpoints.objection(edited, TRUSTED))
    assert checkpoints.objection(found.checkpoint, TRUSTED) is None


async def test_a_damaged_checkpoint_is_broken_evidence_and_a_newer_one_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = await _one(tmp_path)
    text = path.read_text()
    path.write_text(text[:-20])
    with pytest.raises(Broken, match="is no checkpoint"):
        checkpoints.read(tmp_path)
    path.write_text(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(Misconfigured, match="version 2"):
        checkpoints.read(tmp_path)


def test_a_folder_of_checkpoints_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        checkpoints.read(tmp_path / "nowhere")
