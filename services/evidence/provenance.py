"""Who said what? Every fact of a service is signed by a key that the bootstrap key certified for that service.

A service states its certificate before anything that it signs. What it stated before it had a key (an older Assay's
facts) stays unsigned and is counted; from its certificate on, nothing unsigned is taken for its word.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from schemas.certificate import Certificate, fingerprint
from schemas.envelope import Message
from schemas.events import KeyCertified
from schemas.framing import SIGNATURE, SIGNATURE_KEY, signed_bytes_of_kept
from services.evidence.log import Row
from services.runtime.signing import certificate_holds, signature_holds


@dataclass
class _Unsigned:
    """What one service stated without a signature."""

    first: int
    latest: datetime


class Provenance:
    """A walk's knowledge of keys: small, for there are few."""

    def __init__(self, bootstrap_keys: frozenset[str]) -> None:
        self.issuers: tuple[str, ...] = ()
        """Bootstrap keys that certified, the newest last: of those that the auditor brought, else the first that the
        log names, which proves less."""
        self.signed = 0
        self.unsigned = 0
        self._brought = bootstrap_keys
        self._keys: dict[str, Certificate] = {}
        self._certified: set[str] = set()
        self._unsigned: dict[str, _Unsigned] = {}

    def follow(self, row: Row, message: Message) -> str | None:
        """`row` is whose it says; what is wrong when it is not. `message` is what its raw holds."""
        if row.event_id is None or row.occurred_at is None:
            return None  # no fact: nobody's word
        if row.type == KeyCertified.TYPE:
            wrong = self._learn(message)
            if wrong:
                return wrong
        service = service_of(row.source)
        if SIGNATURE not in message.headers:
            return self._without(row, service, row.occurred_at)
        wrong = self._signature(message, service)
        self.signed += wrong is None
        return wrong

    def issuer_of(self, key: str | None) -> str | None:
        """Which bootstrap key certified the key of that fingerprint."""
        certificate = self._keys.get(key or "")
        return fingerprint(certificate.issuer) if certificate else None

    def end(self) -> tuple[int, str] | None:
        """A service that stated things and never had a key, when the auditor brought the key that certifies."""
        if not self._brought:
            return None
        nameless = {service: stated for service, stated in self._unsigned.items() if service not in self._certified}
        if not nameless:
            return None
        service, stated = min(nameless.items(), key=lambda one: one[1].first)
        brought = " and ".join(sorted(self._brought))
        return stated.first, f"{service} states this unsigned, and bootstrap key {brought} certified no key of it"

    def _learn(self, message: Message) -> str | None:
        try:
            certificate = Certificate.model_validate_json(json.dumps(json.loads(message.body)["certificate"]))
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            return f"the certificate cannot be read: {str(error).splitlines()[0]}"
        issuer = fingerprint(certificate.issuer)
        if not certificate_holds(certificate):
            return f"the certificate of {certificate.service} was not signed by its issuer {issuer}"
        trusted = self._brought or frozenset(self.issuers or (issuer,))
        if issuer not in trusted:
            known = " or ".join(sorted(trusted))
            return f"the key of {certificate.service} was certified by {issuer}, not by bootstrap key {known}"
        if issuer not in self.issuers:
            self.issuers += (issuer,)
        return self._keep(certificate)

    def _keep(self, certificate: Certificate) -> str | None:
        service = certificate.service
        self._keys[certificate.fingerprint] = certificate
        earlier = self._unsigned.get(service)
        if service in self._certified or earlier is None or earlier.latest < certificate.certified_at:
            self._certified.add(service)
            return None
        return f"{service} was certified on {certificate.certified_at}, and what it stated after that is not signed"

    def _without(self, row: Row, service: str, occurred_at: datetime) -> str | None:
        if service in self._certified:
            return f"{service} signs what it states, and this is not signed"
        self.unsigned += 1
        earlier = self._unsigned.setdefault(service, _Unsigned(row.position, occurred_at))
        earlier.latest = max(earlier.latest, occurred_at)
        return None

    def _signature(self, message: Message, service: str) -> str | None:
        name = message.headers.get(SIGNATURE_KEY, "")
        certificate = self._keys.get(name)
        if certificate is None:
            return f"signed with key {name[:64] or '(unnamed)'}, which no certificate before it makes known"
        if certificate.service != service:
            return f"said by {service} and signed with a key of {certificate.service}"
        if signature_holds(certificate.public_key, signed_bytes_of_kept(message), message.headers[SIGNATURE]):
            return None
        return f"the signature of {service} is not over this fact"


def service_of(source: str | None) -> str:
    """`compiler` of `assay/compiler/<copy>`."""
    parts = (source or "").split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "assay" else source or ""
