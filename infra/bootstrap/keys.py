"""The keys of a factory: one bootstrap key that certifies one signing key per service. Idempotent; every mode runs it.

bootstrap.key            the secret that certifies; may be moved to a safe once every service has its key
bootstrap.fingerprint    what an auditor gets out of band; further lines name keys that were replaced
<service>.key            secret and certificate of one service: all that it needs
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from schemas.certificate import fingerprint
from schemas.faults import Misconfigured
from services.runtime.signing import BootstrapKey, ServiceKey

BOOTSTRAP_KEY = "bootstrap.key"
FINGERPRINT = "bootstrap.fingerprint"


def bootstrap_keys(folder: Path, services: Sequence[str], now: datetime) -> str:
    """Every one of `services` has a certified key in `folder`. Returns the bootstrap key's fingerprint.

    Raises Misconfigured when the bootstrap key is needed and gone, or when a key was certified by another one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        missing = [service for service in services if not key_file(folder, service).exists()]
        if missing:
            _issue_missing(folder, missing, now)
        found = _common_issuer(folder, services)
        former = [one for one in known_fingerprints(folder) if one != found]
        (folder / FINGERPRINT).write_text("\n".join((found, *former, "")), encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"{folder}: {error.strerror}; the factory's keys must be there and be writable") from error
    return found


def issue_key(folder: Path, service: str, now: datetime) -> ServiceKey:
    """A new key for another copy of `service`, such as a worker on another machine. Raises Misconfigured."""
    try:
        return BootstrapKey.read(folder / BOOTSTRAP_KEY).issue(service, now)
    except FileNotFoundError:
        raise Misconfigured(
            f"{folder / BOOTSTRAP_KEY} is not there: only the bootstrap key certifies others; bring it from its safe"
        ) from None


def known_fingerprint(folder: Path) -> str | None:
    """The bootstrap key's fingerprint as this folder has it; None where no factory was bootstrapped."""
    return next(iter(known_fingerprints(folder)), None)


def known_fingerprints(folder: Path) -> tuple[str, ...]:
    """The bootstrap key's, then those of keys before it, as far as somebody wrote them there."""
    return fingerprints_in(folder / FINGERPRINT)


def fingerprints_in(file: Path) -> tuple[str, ...]:
    """The words of a file like `bootstrap.fingerprint`; none where there is no such file."""
    try:
        return tuple(file.read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        return ()


def key_file(folder: Path, service: str) -> Path:
    """Where the key of `service` is."""
    return folder / f"{service}.key"


def _issue_missing(folder: Path, missing: Sequence[str], now: datetime) -> None:
    path = folder / BOOTSTRAP_KEY
    if not path.exists() and any(folder.glob("*.key")):
        raise Misconfigured(
            f"{path} is gone and {', '.join(missing)} has no key: bring the bootstrap key back, or move the folder "
            "away to begin with new keys (auditors then need the new fingerprint)"
        )
    if not path.exists():
        BootstrapKey.generate().write(path)
    bootstrap = BootstrapKey.read(path)
    for service in missing:
        bootstrap.issue(service, now).write(key_file(folder, service))


def _common_issuer(folder: Path, services: Sequence[str]) -> str:
    keys = {service: ServiceKey.read(key_file(folder, service)).certificate for service in services}
    issuers = {certificate.issuer for certificate in keys.values()}
    path = folder / BOOTSTRAP_KEY
    if path.exists():
        issuers.add(BootstrapKey.read(path).public_key)
    if len(issuers) != 1:
        raise Misconfigured(f"the keys in {folder} were certified by different bootstrap keys: restore them together")
    return fingerprint(issuers.pop())
