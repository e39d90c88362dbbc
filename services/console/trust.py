"""What `events verify` judges a log by: brought by the auditor, else what the data folder has beside the database."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from infra.bootstrap.keys import fingerprints_in, known_fingerprint, known_fingerprints
from schemas.certificate import FINGERPRINT_CHARACTERS
from schemas.faults import Misconfigured
from services.evidence import checkpoints
from services.evidence.verify import Trust
from services.runtime.settings import Settings

FINGERPRINT = re.compile(rf"[0-9a-f]{{{FINGERPRINT_CHARACTERS}}}")


def trust_of(
    settings: Settings,
    bootstrap_keys: Sequence[str] = (),
    folder: Path | None = None,
    *,
    chain_only: bool = False,
    own: bool = True,
) -> Trust:
    """The key and the checkpoints to judge by. Not `own`: the log is another factory's, and this data folder says
    nothing about it. `bootstrap_keys`: fingerprints, or files of them such as a factory's `bootstrap.fingerprint`.
    Raises Misconfigured for what is neither, or no folder."""
    told = frozenset(fingerprint for text in bootstrap_keys for fingerprint in _fingerprints(text))
    keys = told or (own_fingerprints(settings) if own else frozenset())
    found = checkpoints.read(folder) if folder else (_own_checkpoints(settings) if own else ())
    return Trust(keys, found, chain_only)


def own_fingerprint(settings: Settings) -> str | None:
    """The bootstrap key's, as this data folder has it; None for a factory elsewhere."""
    return None if _is_elsewhere() else known_fingerprint(settings.keys)


def own_fingerprints(settings: Settings) -> frozenset[str]:
    """The same, with those of keys before it that this data folder still names."""
    return frozenset() if _is_elsewhere() else frozenset(known_fingerprints(settings.keys))


def _own_checkpoints(settings: Settings) -> tuple[checkpoints.Found, ...]:
    if (_is_elsewhere() and settings.checkpoints_dir is None) or not settings.checkpoints.is_dir():
        return ()
    return checkpoints.read(settings.checkpoints)


def _is_elsewhere() -> bool:
    """The log is not the one of this data folder."""
    return "ASSAY_POSTGRES_DSN" in os.environ


def _fingerprints(text: str) -> tuple[str, ...]:
    """Those in the file `text`, else `text` itself."""
    in_file = fingerprints_in(Path(text))
    return tuple(map(_fingerprint, in_file or (text,)))


def _fingerprint(text: str) -> str:
    plain = re.sub(r"[\s:]", "", text).lower()
    if not FINGERPRINT.fullmatch(plain):
        raise Misconfigured(
            f"--bootstrap-key {text!r} is no fingerprint and no file of them: {FINGERPRINT_CHARACTERS} hexadecimal "
            "digits, as `assay status` shows on the machine of the factory"
        )
    return plain
