"""Messages on their way to whoever asked for them."""

import asyncio

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from services.runtime.nats_link import Inbox


def message() -> Msg:
    return Msg(Client(), subject="here", data=b"1")


async def waiting_for(inbox: Inbox) -> "asyncio.Task[Msg | None]":
    waiting = asyncio.create_task(inbox.get(60.0))
    await asyncio.sleep(0.01)
    return waiting


async def test_whoever_waits_gets_the_message() -> None:
    inbox, sent = Inbox("here"), message()
    waiting = await waiting_for(inbox)
    await inbox.put(sent)
    assert await waiting is sent


async def test_nothing_comes_in_time() -> None:
    assert await Inbox("here").get(0.01) is None


async def test_a_reader_that_is_cancelled_as_a_message_arrives_ends_and_loses_nothing() -> None:
    """It read on for ever: a service that stops, or loses its leadership, would go on working."""
    inbox, sent = Inbox("here"), message()
    waiting = await waiting_for(inbox)
    await inbox.put(sent)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert inbox.pop() is sent
