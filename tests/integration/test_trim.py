"""The janitor removes from the stream what is recorded, attested and of no unfinished goal, and nothing else."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner

from infra.bootstrap.nats import purge_up_to
from schemas.certificate import FINGERPRINT_CHARACTERS
from schemas.envelope import Message
from schemas.events import GoalCompleted
from schemas.faults import Fault, Misconfigured
from services.console import janitor
from services.console.commands.stream import app
from services.console.janitor import clean
from services.console.trust import trust_of
from services.evidence import checkpoints
from services.evidence.checkpoints import Found
from services.evidence.log import Head, Log
from services.evidence.memory_log import MemoryLog
from services.evidence.trim import Trim, trimmable
from services.evidence.verify import Trust
from services.runtime.bus import FACTS_STREAM, StreamState
from services.runtime.nats_bus import NatsBus
from services.runtime.settings import Settings
from services.runtime.signing import BootstrapKey
from tests.fixtures.facts import BEGIN, EPOCH, incoming
from tests.fixtures.nats import ConnectAs
from tests.fixtures.signed import BOOTSTRAP, STRANGER, certificates, keys, signed_story
from tests.fixtures.waiting import until

SettingsFor = Callable[[str], Settings]
CERTIFIED = len(certificates())
ENDED = signed_story("ended")
"""The certificates, then one whole goal."""


def unfinished(goal_id: str) -> tuple[Message, ...]:
    """A goal whose end is not stated yet."""
    (*whole, end) = signed_story(goal_id)[CERTIFIED:]
    assert end.headers["ce-type"] == GoalCompleted.TYPE
    return tuple(whole)


async def log_of(*messages: Message, origin: str | None = None) -> MemoryLog:
    log = MemoryLog(lambda: BEGIN, origin)
    await log.append(incoming(messages))
    return log


def stream_of(log_head: Head, more: int = 0) -> StreamState:
    """The stream behind a log, with `more` messages that are not recorded yet."""
    last = log_head.stream_seq + more
    return StreamState(last, 1000 * last, 10**9, 1, last, log_head.epoch)


def attested(
    log: Log, head: Head, origin: str, signer: str = "librarian", bootstrap: BootstrapKey = BOOTSTRAP
) -> Found:
    made = checkpoints.make(keys(bootstrap)[signer], origin, head, BEGIN)
    return Found(Path("c"), made)


async def trim_of(log: MemoryLog, *found: Found, more: int = 0) -> Trim:
    return await trimmable(log, stream_of(await log.head(), more), found, frozenset({BOOTSTRAP.fingerprint}))


async def test_what_is_recorded_and_attested_and_finished_may_go() -> None:
    log = await log_of(*ENDED)
    head = await log.head()
    trim = await trim_of(log, attested(log, head, await log.origin()), more=5)
    assert trim.upto_seq == head.stream_seq == len(ENDED), "and not one of the five that are not recorded"


async def test_nothing_goes_without_a_checkpoint_outside_the_database() -> None:
    trim = await trim_of(await log_of(*ENDED))
    assert trim == Trim(0, "no checkpoint outside the database covers it")


async def test_nothing_goes_past_the_last_checkpoint() -> None:
    log = await log_of(*ENDED[:6])
    early = attested(log, await log.head(), await log.origin())
    await log.append(incoming(ENDED[6:], first_seq=7))
    trim = await trim_of(log, early)
    assert trim.upto_seq == 6
    assert "position 6" in trim.held_by


async def test_everything_since_an_unfinished_goal_was_accepted_stays() -> None:
    log = await log_of(*ENDED, *unfinished("running"), *signed_story("later")[CERTIFIED:])
    trim = await trim_of(log, attested(log, await log.head(), await log.origin()))
    assert trim == Trim(len(ENDED), "goal running is unfinished")


@pytest.mark.parametrize("count", range(1, len(ENDED) + 1))
async def test_nothing_unfinished_or_unrecorded_ever_goes(count: int) -> None:
    """Wherever the log ends, with a checkpoint of its very end."""
    log = await log_of(*ENDED[:count])
    trim = await trim_of(log, attested(log, await log.head(), await log.origin()), more=3)
    accepted = CERTIFIED + 1
    assert trim.upto_seq == (count if count < accepted or count == len(ENDED) else accepted - 1)


async def test_a_goal_accepted_in_an_older_epoch_keeps_all_of_this_one() -> None:
    log = await log_of(*ENDED, *unfinished("running")[:4])
    await log.open_epoch(await log.head(), "epoch-2", 0)
    await log.append(incoming(signed_story("later")[CERTIFIED:], epoch="epoch-2"))
    trim = await trim_of(log, attested(log, await log.head(), await log.origin()))
    assert trim == Trim(0, "goal running is unfinished")


async def test_a_checkpoint_of_an_older_epoch_says_nothing_of_this_stream() -> None:
    log = await log_of(*ENDED)
    old = attested(log, await log.head(), await log.origin())
    await log.open_epoch(await log.head(), "epoch-2", 0)
    assert (await trim_of(log, old)).upto_seq == 0
    stream = replace(stream_of(await log.head()), epoch=EPOCH)
    held = (await trimmable(log, stream, [old], frozenset({BOOTSTRAP.fingerprint}))).held_by
    assert "the log follows epoch epoch-2 and the stream is" in held


@pytest.mark.parametrize("forgery", ["another hash", "another log", "a stranger's key", "another service"])
async def test_a_checkpoint_that_proves_nothing_covers_nothing(forgery: str) -> None:
    log = await log_of(*ENDED)
    head, origin = await log.head(), await log.origin()
    found = {
        "another hash": lambda: attested(log, replace(head, hash=bytes(32)), origin),
        "another log": lambda: attested(log, head, "00000000-0000-4000-8000-000000000009"),
        "a stranger's key": lambda: attested(log, head, origin, bootstrap=STRANGER),
        "another service": lambda: attested(log, head, origin, signer="compiler"),
    }[forgery]()
    assert (await trim_of(log, found)).upto_seq == 0


# ---- on a real stream ----------------------------------------------------------------------------------------------


async def published(bus: NatsBus, messages: tuple[Message, ...]) -> None:
    for message in messages:
        await bus.publish(message, UUID(message.headers["ce-id"]))


async def test_what_was_trimmed_is_gone_the_rest_is_there_and_recording_goes_on(
    connect_as: ConnectAs, nats_settings: SettingsFor
) -> None:
    admin = await connect_as("admin")
    await published(admin, ENDED)
    assert await purge_up_to(nats_settings("admin"), FACTS_STREAM, 5) == 5
    state = await admin.state(FACTS_STREAM)
    assert (state.first_seq, state.last_seq, state.messages) == (6, len(ENDED), len(ENDED) - 5)
    found: list[bytes] = []
    async with asyncio.timeout(30):
        async for batch in admin.read(FACTS_STREAM, 6):
            found.extend(one.message.body for one in batch)
            if len(found) >= len(ENDED) - 5:
                break
    assert found == [message.body for message in ENDED[5:]]


async def test_the_janitor_trims_a_real_stream_by_the_checkpoints_of_its_data_folder(
    connect_as: ConnectAs, nats_settings: SettingsFor
) -> None:
    admin, settings = await connect_as("admin"), nats_settings("admin")
    await published(admin, ENDED)
    log = MemoryLog(lambda: BEGIN)
    await log.append(incoming(ENDED, epoch=(await admin.state(FACTS_STREAM)).epoch))
    assert (await clean(log, admin, settings, trust_of(settings))).purged == 0, "nothing is attested yet"
    made = checkpoints.make(keys()["librarian"], await log.origin(), await log.head(), BEGIN)
    checkpoints.write(settings.checkpoints, made)
    told = await clean(log, admin, settings, trust_of(settings), dry_run=True)
    assert (told.messages, told.purged) == (len(ENDED), 0)
    assert (await clean(log, admin, settings, trust_of(settings))).purged == len(ENDED)
    assert (await admin.state(FACTS_STREAM)).messages == 0
    assert (await clean(log, admin, settings, trust_of(settings))).messages == 0, "and nothing is left to do"


async def test_the_janitor_goes_on_looking_and_trims_what_was_attested_meanwhile(
    connect_as: ConnectAs, nats_settings: SettingsFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "TRIM_FROM", 0.0)
    monkeypatch.setattr(janitor, "PERIOD_S", 0.05)
    admin, settings = await connect_as("admin"), nats_settings("admin")
    await published(admin, ENDED)
    log = MemoryLog(lambda: BEGIN)
    await log.append(incoming(ENDED, epoch=(await admin.state(FACTS_STREAM)).epoch))
    asked: list[Trust] = []

    def trust() -> Trust:
        asked.append(trust_of(settings))
        if len(asked) == 2:
            raise Misconfigured("the disk of the checkpoints is away")
        return asked[-1]

    keeping = asyncio.create_task(janitor.keep_clean(log, settings, trust))

    async def looked_thrice() -> bool:
        return len(asked) >= 3

    await until(looked_thrice)
    assert (await admin.state(FACTS_STREAM)).messages == len(ENDED)
    checkpoints.write(
        settings.checkpoints, checkpoints.make(keys()["librarian"], await log.origin(), await log.head(), BEGIN)
    )

    async def trimmed() -> bool:
        return (await admin.state(FACTS_STREAM)).messages == 0

    await until(trimmed)
    keeping.cancel()


@pytest.mark.parametrize("command", ["keep", "trim"])
def test_nothing_is_trimmed_elsewhere_without_the_key_whose_checkpoints_count(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_POSTGRES_DSN", "postgresql://reader@elsewhere/assay")
    done = CliRunner().invoke(app, [command])
    assert isinstance(done.exception, Misconfigured)
    assert "--bootstrap-key" in str(done.exception)


@pytest.mark.parametrize("command", ["keep", "trim"])
def test_where_no_factory_runs_that_is_what_is_said(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path))
    assert "no factory is running" in str(CliRunner().invoke(app, [command]).exception)


def test_a_file_of_fingerprints_is_taken_for_them(tmp_path: Path) -> None:
    file = tmp_path / "bootstrap.fingerprint"
    first, former = "0123456789abcdef" * 4, "fedcba9876543210" * 4
    file.write_text(f"{first[:FINGERPRINT_CHARACTERS]}\n{former[:FINGERPRINT_CHARACTERS]}\n")
    told = trust_of(Settings(data_dir=tmp_path), [str(file)]).bootstrap_keys
    assert told == {first[:FINGERPRINT_CHARACTERS], former[:FINGERPRINT_CHARACTERS]}
    file.write_text("no fingerprint at all")
    with pytest.raises(Misconfigured, match="no fingerprint"):
        trust_of(Settings(data_dir=tmp_path), [str(file)])


@pytest.mark.parametrize("user", ["person", "librarian", "compiler"])
async def test_only_the_bootstraps_account_may_trim(
    connect_as: ConnectAs, nats_settings: SettingsFor, user: str
) -> None:
    admin = await connect_as("admin")
    await published(admin, ENDED[:3])
    with pytest.raises(Fault):
        await purge_up_to(nats_settings(user), FACTS_STREAM, 3)
    assert (await admin.state(FACTS_STREAM)).messages == 3
