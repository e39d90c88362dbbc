"""Who may do what on the bus. One user per service with what it needs and nothing else (event-backbone.md)."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.envelope import subject_filter
from services.runtime.bus import (
    FACTS_STREAM,
    GOALS_BUCKET,
    INTAKE_STREAM,
    PARKED_STREAM,
    PRESENCE_BUCKET,
    REPLAY_PREFIX,
)
from services.runtime.routes import BENCHMARKER, INPUTS, LIBRARIAN, OUTPUTS

ADMIN = "admin"
"""The bootstrap's account: the only one that may make, purge or delete a stream."""
PERSON = "person"
"""People: they may publish on the intake stream, and look."""
SERVICES = tuple(OUTPUTS)
USERS = (ADMIN, PERSON, *SERVICES)
EVERYTHING = ">"
REPLAYS = f"{REPLAY_PREFIX}.>"


@dataclass(frozen=True)
class Permissions:
    """Subjects that a user may publish and subscribe; all else is refused."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def permissions() -> Mapping[str, Permissions]:
    """Every user's permissions."""
    workers = {service: _worker(service) for service in INPUTS}
    everything = Permissions((EVERYTHING,), (EVERYTHING,))
    return {ADMIN: everything, PERSON: _person(), LIBRARIAN: _librarian(), **workers}


def _worker(service: str) -> Permissions:
    presence = _writes(PRESENCE_BUCKET) if service == BENCHMARKER else ()
    publish = (*_states(service), *_works(FACTS_STREAM), *_looks(FACTS_STREAM), *_gets(GOALS_BUCKET), *presence)
    return Permissions(publish, (_inbox(service),))


def _librarian() -> Permissions:
    publish = (
        *_states(LIBRARIAN),
        *(subject for stream in (FACTS_STREAM, INTAKE_STREAM) for subject in _works(stream)),
        *(subject for stream in (FACTS_STREAM, INTAKE_STREAM) for subject in _looks(stream)),
        *(f"$JS.API.CONSUMER.CREATE.{stream}" for stream in (FACTS_STREAM, INTAKE_STREAM)),
        *(f"$JS.API.CONSUMER.CREATE.{stream}.>" for stream in (FACTS_STREAM, INTAKE_STREAM)),
        *_writes(GOALS_BUCKET),
        *_gets(PRESENCE_BUCKET),
    )
    return Permissions(publish, (_inbox(LIBRARIAN),))


def _person() -> Permissions:
    """May ask for goals, follow facts, and re-emit history where nothing live listens. Its readers are nameless:
    a named one could overwrite a worker's queue."""
    streams = (FACTS_STREAM, INTAKE_STREAM, PARKED_STREAM)
    publish = (
        "assay.intake.>",
        REPLAYS,
        *(subject for stream in streams for subject in _looks(stream)),
        *(f"$JS.API.CONSUMER.CREATE.{stream}" for stream in streams),
        *(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.*" for stream in streams),
        *(f"$JS.API.CONSUMER.LIST.{stream}" for stream in streams),
        *_gets(GOALS_BUCKET),
        *_gets(PRESENCE_BUCKET),
    )
    return Permissions(publish, ("_INBOX.>", _inbox(PERSON), REPLAYS))


def _states(service: str) -> tuple[str, ...]:
    return (*(subject_filter(fact) for fact in OUTPUTS[service]), f"assay.parked.{service}.>")


def _works(stream: str) -> tuple[str, ...]:
    """Pull and acknowledge. A route's queue is made long after the permissions, and a NATS wildcard is a whole token:
    hence `*` for the queue's name."""
    return (
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.*",
        f"$JS.ACK.{stream}.>",
        f"$JS.ACK.*.*.{stream}.>",
    )


def _looks(stream: str) -> tuple[str, ...]:
    return (f"$JS.API.STREAM.INFO.{stream}", f"$JS.API.CONSUMER.INFO.{stream}.*")


def _gets(bucket: str) -> tuple[str, ...]:
    return (f"$JS.API.STREAM.INFO.KV_{bucket}", f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.>")


def _writes(bucket: str) -> tuple[str, ...]:
    return (f"$KV.{bucket}.>", *_gets(bucket))


def _inbox(user: str) -> str:
    return f"_INBOX_{user}.>"
