"""A service's public key and the bootstrap key's word for it. The auditor knows the bootstrap key's fingerprint."""

import hashlib
from datetime import UTC, datetime
from typing import Annotated

from pydantic import StringConstraints

from schemas.ids import Token
from schemas.model import Model

FINGERPRINT_CHARACTERS = 32
"""Chosen: 128 bits are out of reach of anyone who looks for a second key, and can be read out over a telephone."""

PublicKey = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""An Ed25519 public key (RFC 8032) in hexadecimal."""
Signature = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]
"""An Ed25519 signature (RFC 8032) in hexadecimal."""


class Certificate(Model):
    """`service` signs with `public_key` from `certified_at` on: `issuer` says so, and signed it."""

    service: Token
    public_key: PublicKey
    issuer: PublicKey
    """The bootstrap key."""
    certified_at: datetime
    signature: Signature
    """By `issuer`, over `certified_bytes`."""

    @property
    def fingerprint(self) -> str:
        """Of the service's key."""
        return fingerprint(self.public_key)

    @property
    def statement(self) -> bytes:
        """What `signature` is over."""
        return certified_bytes(self.service, self.public_key, self.certified_at)


def fingerprint(public_key: str) -> str:
    """How people and headers name a key: the first 128 bits of its SHA-256, in hexadecimal."""
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:FINGERPRINT_CHARACTERS]


def certified_bytes(service: str, public_key: str, certified_at: datetime) -> bytes:
    """What the bootstrap key signs. The first line keeps it apart from every other kind of signed bytes."""
    moment = certified_at.astimezone(UTC).isoformat(timespec="microseconds")
    return f"assay certificate 1\n{service}\n{public_key}\n{moment}\n".encode()
