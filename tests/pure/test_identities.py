"""Ids are recomputed from the decisions they stand for, by the slots that the cores themselves use."""

from uuid import uuid4

from services.benchmarker.core import BASELINE, MEASURE, RACE, REMEASURE
from services.compiler.core import COMPILE
from services.evidence.identities import ANSWERS, derived
from services.evidence.log import Row
from services.evidence.memory_log import MemoryLog
from services.proposer.core import OPEN, OPEN_FINALS
from services.verifier.core import PROVE, VERIFY
from tests.fixtures.facts import BEGIN, incoming, story
from tests.fixtures.forgery import rewritten


async def rows() -> list[Row]:
    log = MemoryLog(lambda: BEGIN)
    await log.append(incoming(story("g1")))
    return [row async for row in log.rows()]


def kind(row: Row) -> str:
    return (row.type or "").rpartition(".")[0]


def test_the_slots_are_those_of_the_cores() -> None:
    used = {slot for slots in ANSWERS.values() for slot in slots}
    assert used == {BASELINE, MEASURE, REMEASURE, RACE, COMPILE, OPEN, OPEN_FINALS, VERIFY, PROVE}


async def test_every_id_of_a_goals_path_follows_from_its_decision() -> None:
    assert all(derived(row, kind(row)) for row in await rows())


async def test_an_id_that_somebody_made_up_follows_from_nothing() -> None:
    made_up = [Row(**{**vars(row), "event_id": uuid4()}) for row in await rows()]
    unchecked = {kind(row) for row in made_up if derived(row, kind(row))}
    assert unchecked == {"candidate.proposed"}


async def test_a_rewritten_row_keeps_its_columns() -> None:
    """The forgery used elsewhere is no other history than the honest one when nothing was edited."""
    honest = await rows()
    assert rewritten(honest, story("g1")) == honest
