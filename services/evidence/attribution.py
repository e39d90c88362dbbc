"""Whose word is one fact? What `events show` says; `verify` asks the same of a whole log at once."""

from dataclasses import dataclass

from schemas.events import KeyCertified
from schemas.framing import SIGNATURE_KEY, unframe
from services.evidence.log import Log, Row
from services.evidence.provenance import Provenance, service_of

UNSIGNED = "unsigned"


@dataclass(frozen=True)
class Attribution:
    """Who stated a fact, as far as it can be known."""

    by: str
    """The service whose certified key signed it, else `unsigned`: a name that nobody signed attributes nothing."""
    key: str | None
    certified_by: str | None
    """The bootstrap key's fingerprint."""
    objection: str | None = None
    """Why the signature proves nothing, where there is one that does not hold."""


async def attribution(log: Log, position: int, bootstrap_keys: frozenset[str] = frozenset()) -> Attribution:
    """Of the row at `position`, judged by the certificates before it. Raises LookupError when it is not there."""
    provenance = Provenance(bootstrap_keys)
    async for certified in log.read(upto=position - 1, types=(KeyCertified,)):
        known = await _row(log, certified.position)
        provenance.follow(known, unframe(known.raw))
    row = await _row(log, position)
    message = unframe(row.raw)
    before = provenance.signed
    wrong = provenance.follow(row, message)
    key = message.headers.get(SIGNATURE_KEY)
    if wrong or provenance.signed == before:
        return Attribution(UNSIGNED, key, None, wrong)
    return Attribution(service_of(row.source), key, provenance.issuer_of(key))


async def _row(log: Log, position: int) -> Row:
    async for row in log.rows(position - 1, position):
        return row
    raise LookupError(f"the log has no row {position}")
