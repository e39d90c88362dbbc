"""Streams, buckets and the queues that need no route. Run as often as you like: what exists is left as it is."""

from typing import Any
from uuid import uuid4

from infra.bootstrap.nats_users import ADMIN
from schemas.events import FACTS
from schemas.faults import Misconfigured, Transient
from services.runtime.bus import (
    FACTS_STREAM,
    GOALS_BUCKET,
    INTAKE_STREAM,
    PARKED_STREAM,
    PRESENCE_BUCKET,
    STREAM_SUBJECTS,
)
from services.runtime.nats_bus import LANGUAGE, STREAM_NOT_FOUND, NatsBus
from services.runtime.nats_link import Link, Refused
from services.runtime.routes import create_common_queues
from services.runtime.settings import Settings

ATTEMPTS = 3
DUPLICATE_WINDOW_S = 2 * 3600
SECOND_NS = 1_000_000_000
INTAKE_MAX_BYTES = 256 * 1024**2
PARKED_MAX_BYTES = 256 * 1024**2
"""Chosen: half a thousand of the largest requests, or of the largest facts, at the least."""


async def bootstrap_nats(settings: Settings, name: str = "admin") -> None:
    """Streams, buckets and common queues exist. `settings` carry the credentials of the admin user.

    A server that does not answer in time is asked again: every step may be repeated.
    """
    for attempt in range(ATTEMPTS):
        try:
            await _bootstrap(settings, name)
            break
        except Transient as fault:
            if isinstance(fault, Refused) or attempt + 1 == ATTEMPTS:
                raise


async def _bootstrap(settings: Settings, name: str) -> None:
    link = await Link.open(settings, name)
    try:
        for config in _streams(settings):
            await _ensure(link, config)
        await create_common_queues(NatsBus(link), settings.ack_wait_s)
    finally:
        await link.close()


async def restore_streams(settings: Settings) -> None:
    """Streams and buckets that are gone exist again, empty. Those that are there stay as they are, size included."""
    link = await Link.open(settings, settings.nats_user or ADMIN)
    try:
        for config in _streams(settings):
            if await _found(link, config["name"]) is None:
                await link.api(f"STREAM.CREATE.{config['name']}", config)
    finally:
        await link.close()


async def let_follow(settings: Settings, previous: str, reason: str, *, renamed: bool) -> None:
    """The fact stream says that it goes on where epoch `previous` ended, and why: the librarian may record it.

    `renamed`: it becomes another epoch, because its sequences are not those that the log knows.
    """
    link = await Link.open(settings, settings.nats_user or ADMIN)
    try:
        config = (await link.api(f"STREAM.INFO.{FACTS_STREAM}"))["config"]
        told = config.get("metadata", {}) | {"follows": previous, "reason": reason}
        told |= {"epoch": str(uuid4())} if renamed or not told.get("epoch") else {}
        await link.api(f"STREAM.UPDATE.{FACTS_STREAM}", {**config, "metadata": told})
    finally:
        await link.close()


async def purge_up_to(settings: Settings, stream: str, last_seq: int) -> int:
    """No message of `stream` up to and with `last_seq` is left. Returns how many there were. Raises NotAllowed for any
    user but the admin."""
    return await _purge(settings, stream, {"seq": last_seq + 1})


async def purge_subject(settings: Settings, stream: str, subject: str) -> int:
    """No message of `stream` under `subject` is left. Returns how many there were. Raises NotAllowed for any user but
    the admin."""
    return await _purge(settings, stream, {"filter": subject})


async def _purge(settings: Settings, stream: str, which: dict[str, Any]) -> int:
    link = await Link.open(settings, settings.nats_user or ADMIN)
    try:
        done = await link.api(f"STREAM.PURGE.{stream}", which)
        purged: int = done["purged"]
        return purged
    finally:
        await link.close()


async def _ensure(link: Link, config: dict[str, Any]) -> None:
    """The stream exists. An existing one keeps its epoch, which is what makes it that stream."""
    found = await _found(link, config["name"])
    if found is None:
        await link.api(f"STREAM.CREATE.{config['name']}", config)
        return
    _require_durable(config["name"], found["config"])
    metadata = {**config["metadata"], **_kept_life(found["config"])}
    await link.api(f"STREAM.UPDATE.{config['name']}", {**found["config"], **config, "metadata": metadata})


def _kept_life(config: dict[str, Any]) -> dict[str, str]:
    """Which life of the stream this is, and which one it follows: never ours to say anew."""
    metadata = config.get("metadata", {})
    return {name: metadata[name] for name in ("epoch", "follows", "reason") if metadata.get(name)}


async def _found(link: Link, name: str) -> dict[str, Any] | None:
    """What the server says of the stream; None when it has none of that name."""
    try:
        return await link.api(f"STREAM.INFO.{name}")
    except Refused as refused:
        if refused.err_code != STREAM_NOT_FOUND:
            raise
        return None


def _require_durable(name: str, config: dict[str, Any]) -> None:
    """`persist_mode: async` overrides sync_interval (ADR-56): an ack would then promise nothing."""
    if config.get("persist_mode") == "async":
        raise Misconfigured(f"stream {name} has persist_mode async: acknowledged facts could be lost; recreate it")


def _streams(settings: Settings) -> tuple[dict[str, Any], ...]:
    sizes = {
        FACTS_STREAM: settings.stream_max_bytes,
        INTAKE_STREAM: INTAKE_MAX_BYTES,
        PARKED_STREAM: PARKED_MAX_BYTES,
    }
    return (
        *(_stream(name, STREAM_SUBJECTS[name], max_bytes) for name, max_bytes in sizes.items()),
        _bucket(GOALS_BUCKET, ttl_s=0),
        _bucket(PRESENCE_BUCKET, ttl_s=settings.presence_ttl_s),
    )


def _stream(name: str, subjects: str, max_bytes: int) -> dict[str, Any]:
    """DiscardNew refuses what does not fit, so nothing recorded is ever pushed out; deny_purge would be for ever."""
    return {
        "name": name,
        "subjects": [subjects],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_bytes": max_bytes,
        "max_age": 0,
        "max_msgs": -1,
        "max_consumers": -1,
        "num_replicas": 1,
        "deny_delete": True,
        "duplicate_window": DUPLICATE_WINDOW_S * SECOND_NS,
        "metadata": {"epoch": str(uuid4()), LANGUAGE: " ".join(sorted(FACTS))},
    }


def _bucket(name: str, ttl_s: float) -> dict[str, Any]:
    """A KV bucket as NATS clients expect it (ADR-8): history of one, direct gets, roll-ups allowed."""
    return {
        "name": f"KV_{name}",
        "subjects": [f"$KV.{name}.>"],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_msgs_per_subject": 1,
        "max_age": int(ttl_s * SECOND_NS),
        "max_bytes": -1,
        "max_msgs": -1,
        "max_consumers": -1,
        "num_replicas": 1,
        "deny_delete": True,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "duplicate_window": int(min(ttl_s, 120.0) * SECOND_NS) if ttl_s else 120 * SECOND_NS,
        "metadata": {"epoch": str(uuid4())},
    }
