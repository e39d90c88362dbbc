"""Ed25519 signatures (RFC 8032): who states a fact says so in a way that nobody else can.

The bootstrap key certifies one key per service; a service signs `schemas.framing.signed_bytes` of everything that it
states. A key file is JSON, private to its owner, and complete: it holds the certificate beside the secret, so one file
is all that a service needs.
"""

import json
import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey
from pydantic import Field, ValidationError

from schemas.certificate import Certificate, PublicKey, certified_bytes, fingerprint
from schemas.envelope import Message
from schemas.faults import Misconfigured
from schemas.framing import SIGNATURE, SIGNATURE_KEY, signed_bytes
from schemas.model import Model


@dataclass(frozen=True)
class BootstrapKey:
    """The key that certifies the others. Its fingerprint is what an auditor gets out of band."""

    secret: SigningKey

    @classmethod
    def generate(cls) -> "BootstrapKey":
        return cls(SigningKey.generate())

    @property
    def public_key(self) -> str:
        return _public(self.secret)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public_key)

    def issue(self, service: str, now: datetime) -> "ServiceKey":
        """A new key for `service`, certified from `now` on."""
        secret = SigningKey.generate()
        statement = certified_bytes(service, _public(secret), now)
        signature = self.secret.sign(statement).signature.hex()
        certificate = Certificate(
            service=service,
            public_key=_public(secret),
            issuer=self.public_key,
            certified_at=now,
            signature=signature,
        )
        return ServiceKey(secret, certificate)

    def write(self, path: Path) -> None:
        """`path` holds the secret, readable by its owner only."""
        _write_private(path, {"bootstrap": bytes(self.secret).hex()})

    @classmethod
    def read(cls, path: Path) -> "BootstrapKey":
        """The key in `path`. Raises Misconfigured when it is damaged, FileNotFoundError when there is none."""
        try:
            return cls(SigningKey(bytes.fromhex(json.loads(path.read_text(encoding="utf-8"))["bootstrap"])))
        except (ValueError, KeyError, TypeError) as error:
            raise Misconfigured(f"{path} is no bootstrap key: restore it from your backup") from error


class KeyRecord(Model):
    """A service's key as files hold it."""

    secret: PublicKey = Field(repr=False)
    """The Ed25519 seed in hexadecimal. Whoever has it can sign as this service."""
    certificate: Certificate


@dataclass(frozen=True)
class ServiceKey:
    """What one service signs with."""

    secret: SigningKey
    certificate: Certificate

    @property
    def fingerprint(self) -> str:
        return self.certificate.fingerprint

    def sign(self, message: Message) -> Message:
        """`message` with this key's name and signature among its headers."""
        named = replace(message, headers={**message.headers, SIGNATURE_KEY: self.fingerprint})
        return replace(named, headers={**named.headers, SIGNATURE: self.sign_bytes(signed_bytes(named))})

    def sign_bytes(self, statement: bytes) -> str:
        """The signature over `statement`, in hexadecimal."""
        return self.secret.sign(statement).signature.hex()

    @property
    def record(self) -> KeyRecord:
        """What a file needs to hold."""
        return KeyRecord(secret=bytes(self.secret).hex(), certificate=self.certificate)

    @classmethod
    def of(cls, record: KeyRecord, where: Path) -> "ServiceKey":
        """The key that `record` holds. Raises Misconfigured, naming `where`, when its parts do not belong together."""
        found = cls(SigningKey(bytes.fromhex(record.secret)), record.certificate)
        if _public(found.secret) != record.certificate.public_key or not certificate_holds(record.certificate):
            raise Misconfigured(f"{where}: key and certificate do not belong together; issue another one")
        return found

    def write(self, path: Path) -> None:
        """`path` holds secret and certificate, readable by its owner only."""
        _write_private(path, self.record.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> "ServiceKey":
        """The key in `path`. Raises Misconfigured, saying what to do, when it is missing, damaged or not certified."""
        try:
            return cls.parse(path.read_text(encoding="utf-8"), path)
        except (OSError, UnicodeDecodeError) as error:
            message = f"the signing key {path} cannot be read ({error}); see ASSAY_SIGNING_KEY"
            raise Misconfigured(message) from error

    @classmethod
    def parse(cls, text: str, where: Path) -> "ServiceKey":
        """The key that `text`, read from `where`, holds. Raises Misconfigured when it holds none."""
        try:
            record = KeyRecord.model_validate_json(text)
        except ValidationError:
            raise Misconfigured(f"{where} is no signing key; issue another one with `assay key issue`") from None
        return cls.of(record, where)


def certificate_holds(certificate: Certificate) -> bool:
    """True when its issuer signed it. Whether the issuer is to be trusted is the reader's question."""
    return signature_holds(certificate.issuer, certificate.statement, certificate.signature)


def signature_holds(public_key: str, statement: bytes, signature: str) -> bool:
    """True when the owner of `public_key` signed `statement`. False also for what is no signature at all."""
    try:
        VerifyKey(bytes.fromhex(public_key)).verify(statement, bytes.fromhex(signature))
    except (BadSignatureError, ValueError, TypeError):
        return False
    return True


def _public(secret: SigningKey) -> str:
    return bytes(secret.verify_key).hex()


def _write_private(path: Path, record: dict[str, object]) -> None:
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
