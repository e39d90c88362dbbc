"""One fact and whose word it is: a name that nobody signed attributes nothing."""

import pytest

from services.evidence.attribution import UNSIGNED, Attribution, attribution
from services.evidence.memory_log import MemoryLog
from tests.fixtures.facts import incoming, story, with_body, with_headers
from tests.fixtures.signed import BOOTSTRAP, STRANGER, TRUSTED, keys, resigned, signed_story

HISTORY = signed_story("g1")
COMPILED = 9


async def of(message: object = None, position: int = COMPILED, trusted: frozenset[str] = TRUSTED) -> Attribution:
    """The attribution of the fact at `position`, with `message` in its place."""
    messages = list(HISTORY)
    if message is not None:
        messages[position - 1] = message  # type: ignore[call-overload]
    log = MemoryLog()
    await log.append(incoming(messages))
    return await attribution(log, position, trusted)


async def test_a_signed_fact_is_its_services_word() -> None:
    assert await of() == Attribution("compiler", keys()["compiler"].fingerprint, BOOTSTRAP.fingerprint)


async def test_a_certificate_is_the_word_of_the_service_that_it_is_about() -> None:
    assert (await of(position=2)).by == "compiler"


async def test_a_name_that_nobody_signed_attributes_nothing() -> None:
    found = await of(with_headers(HISTORY[COMPILED - 1], signature=None, signature_key=None))
    assert (found.by, found.certified_by) == (UNSIGNED, None)
    assert "not signed" in str(found.objection)


async def test_an_edited_fact_is_nobodys_word() -> None:
    found = await of(with_body(HISTORY[COMPILED - 1], HISTORY[COMPILED - 1].body + b" "))
    assert (found.by, found.certified_by) == (UNSIGNED, None)
    assert found.objection is not None


async def test_a_strangers_signature_attributes_nothing() -> None:
    found = await of(resigned(HISTORY[COMPILED - 1], "compiler", STRANGER))
    assert (found.by, found.certified_by) == (UNSIGNED, None)


async def test_a_log_without_keys_attributes_nothing_and_objects_to_nothing() -> None:
    log = MemoryLog()
    await log.append(incoming(story("g1")))
    assert await attribution(log, 3) == Attribution(UNSIGNED, None, None)
    with pytest.raises(LookupError):
        await attribution(log, 100)
