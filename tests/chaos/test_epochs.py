"""The fact stream is deleted under a running goal; an operator opens a new epoch, and the goal ends."""

import asyncio
import json
import os
import signal

import nats
import pytest

from schemas.events import GenerationOpened
from tests.e2e.test_goal_path import assert_every_fact_once
from tests.fixtures.factory import LOOK_EVERY_S, Factory, null_goal, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long]


def delete_the_stream(factory: Factory) -> None:
    """What an accident, or an operator, can do with the administrator's password."""
    password = json.loads((factory.data / "nats" / "passwords.json").read_text())["admin"]
    url = factory.json("status")["nats"]["url"]

    async def delete() -> None:
        connection = await nats.connect(url, user="admin", password=password, inbox_prefix="_INBOX_admin")
        assert await connection.jetstream().delete_stream("ASSAY_FACTS")
        await connection.close()

    asyncio.run(delete())


def test_a_goal_whose_stream_is_deleted_ends_in_a_new_epoch_and_the_log_is_whole(factory: Factory) -> None:
    factory.up()
    (compiler,) = factory.pids("compiler")
    os.kill(compiler, signal.SIGSTOP)
    factory.submit(null_goal(), "g")
    wait_until(
        lambda: GenerationOpened.TYPE in {fact["type"] for fact in factory.facts("g")},
        "its first generation is recorded to its last word",
        every_s=LOOK_EVERY_S,
    )
    delete_the_stream(factory)
    opened = factory.json("epoch", "open", "--reason", "the stream was deleted")
    assert opened["handed_out_again"] == 50, "a whole generation waits for the compiler"
    os.kill(compiler, signal.SIGCONT)
    state = factory.wait_for_end("g")
    assert (state["outcome"], state["proposed"]) == ("champion", 200)
    assert_every_fact_once(factory.facts("g"))
    verified = factory.json("events", "verify")
    assert (verified["intact"], verified["divergent_duplicates"]) == (True, 0)
    again = factory.json("epoch", "open", "--reason", "an operator repeats it")
    assert (again["epoch"], again["handed_out_again"]) == (opened["epoch"], 0)
    (listed,) = factory.json("epoch", "list")
    assert (listed["epoch"], listed["reason"]) == (opened["epoch"], "the stream was deleted")
    assert factory.json("replay", "--decisions")["same"] is True
