"""Signed checkpoints, kept outside the database: position and hash, one small file each, readable for ever.

A chain catches edits. A cut tail, or a history written anew from some row on, has a chain of its own: only somebody who
wrote down the hash elsewhere can tell. Whoever has the file and the bootstrap key's fingerprint needs nothing else.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import StringConstraints, ValidationError

from schemas.certificate import Certificate, Signature, fingerprint
from schemas.faults import Broken, Misconfigured, Transient
from schemas.model import Model
from services.evidence.log import Head
from services.runtime.signing import ServiceKey, certificate_holds, signature_holds

LIBRARIAN = "librarian"
"""Who writes them: the service that records."""
SUFFIX = ".checkpoint.json"


class Checkpoint(Model):
    """At this moment the log of `origin` ended at `position` with this hash."""

    version: Literal[1] = 1
    origin: str
    epoch: str
    stream_seq: int
    position: int
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    at: datetime
    certificate: Certificate
    """Of the key that signed. It travels along, so that the file proves itself."""
    signature: Signature

    @property
    def statement(self) -> bytes:
        """What `signature` is over."""
        return stated_bytes(self.origin, Head(self.position, self.epoch, self.stream_seq, self.chain), self.at)

    @property
    def chain(self) -> bytes:
        """`hash` as bytes."""
        return bytes.fromhex(self.hash)


@dataclass(frozen=True)
class Found:
    """One checkpoint file."""

    path: Path
    checkpoint: Checkpoint


def stated_bytes(origin: str, head: Head, at: datetime) -> bytes:
    """What the librarian signs. The first line keeps it apart from every other kind of signed bytes."""
    moment = at.astimezone(UTC).isoformat(timespec="microseconds")
    parts = (origin, head.epoch, str(head.stream_seq), str(head.position), head.hash.hex(), moment)
    return ("assay checkpoint 1\n" + "\n".join(parts) + "\n").encode()


def make(key: ServiceKey, origin: str, head: Head, at: datetime) -> Checkpoint:
    """A checkpoint of `head`, signed."""
    return Checkpoint(
        origin=origin,
        epoch=head.epoch,
        stream_seq=head.stream_seq,
        position=head.position,
        hash=head.hash.hex(),
        at=at,
        certificate=key.certificate,
        signature=key.sign_bytes(stated_bytes(origin, head, at)),
    )


def write(folder: Path, checkpoint: Checkpoint) -> Path:
    """The checkpoint is on disk, whole, in a file of its own. Raises Transient when the folder cannot be written."""
    path = folder / f"{checkpoint.position:012d}-{checkpoint.hash[:16]}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(path, checkpoint.model_dump_json(indent=1) + "\n")
    except OSError as error:
        raise Transient(f"the checkpoint {path} could not be written: {error.strerror}") from error
    return path


def read(folder: Path) -> tuple[Found, ...]:
    """Every checkpoint in `folder`, by position. Raises Broken at one that is no checkpoint, Misconfigured without a
    folder that can be read. Whether they are true is `objection`'s question."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except OSError as error:
        raise Misconfigured(f"the checkpoints in {folder} cannot be read: {error.strerror}") from error
    found = (Found(path, _parsed(path)) for path in paths)
    return tuple(sorted(found, key=lambda one: one.checkpoint.position))


def objection(checkpoint: Checkpoint, bootstrap_keys: frozenset[str]) -> str | None:
    """Why the checkpoint proves nothing; None when a librarian signed it whom one of `bootstrap_keys` certified."""
    certificate = checkpoint.certificate
    if not certificate_holds(certificate):
        return f"the certificate of its key {certificate.fingerprint} was not signed by its issuer"
    if bootstrap_keys and fingerprint(certificate.issuer) not in bootstrap_keys:
        known = " or ".join(sorted(bootstrap_keys))
        return f"it was signed by an unknown key: bootstrap key {known} never certified {certificate.fingerprint}"
    if certificate.service != LIBRARIAN:
        return f"it was signed by {certificate.service}, and only the librarian writes checkpoints"
    if not signature_holds(certificate.public_key, checkpoint.statement, checkpoint.signature):
        return "its signature is not over what it says"
    return None


def by_position(found: Sequence[Found], origin: str) -> dict[int, list[Found]]:
    """Those about the log of `origin`."""
    kept: dict[int, list[Found]] = {}
    for one in found:
        if one.checkpoint.origin == origin:
            kept.setdefault(one.checkpoint.position, []).append(one)
    return kept


def origins(found: Iterable[Found]) -> frozenset[str]:
    """Whose logs they are about."""
    return frozenset(one.checkpoint.origin for one in found)


def _parsed(path: Path) -> Checkpoint:
    try:
        return Checkpoint.model_validate_json(path.read_bytes())
    except ValidationError as error:
        if (version := _version(path)) not in (None, 1):
            raise Misconfigured(f"{path} is a checkpoint of version {version}; this Assay reads 1") from error
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Broken(f"{path} is no checkpoint: {where or '$'}: {first['msg']}") from error
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from error


def _version(path: Path) -> object:
    try:
        record = json.loads(path.read_bytes())
    except ValueError:
        return None
    return record.get("version") if isinstance(record, dict) else None


def _write_whole(path: Path, text: str) -> None:
    """All of it or nothing, also when the power fails."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
