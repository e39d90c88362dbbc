"""A worker's credentials: the file that lets one copy of one service on another machine join a factory.

Its secret is an Ed25519 seed (a NATS nkey), which signs the server's challenge and never crosses the network. The
factory keeps the public key only.
"""

import json
import os
from pathlib import Path
from typing import Final, Literal

import nkeys
from pydantic import SecretStr, ValidationError, field_serializer

from schemas.faults import Misconfigured
from schemas.ids import Token
from schemas.model import Model
from services.runtime.signing import KeyRecord

FORMAT: Final = 1
KIND: Final = "assay-worker"
SEED_BYTES = 32
OWNER_ONLY = 0o600


class WorkerCredentials(Model):
    """What the file holds."""

    kind: Literal["assay-worker"] = KIND
    format: Literal[1] = FORMAT
    service: Token
    """The one service that may be joined with it."""
    name: Token
    """What the factory calls this worker, for example in `assay credentials list`."""
    key: str
    """The public key (an nkey, `U…`)."""
    seed: SecretStr
    """Its secret half (`SU…`)."""
    signing: KeyRecord | None = None
    """What this worker signs the facts that it states with; none where the factory has no keys."""

    @field_serializer("seed", when_used="json")
    def _write_seed(self, seed: SecretStr) -> str:
        return seed.get_secret_value()


def fresh_credentials(service: Token, name: Token) -> WorkerCredentials:
    """New credentials, which no factory knows yet."""
    seed = nkeys.encode_seed(os.urandom(SEED_BYTES), nkeys.PREFIX_BYTE_USER)
    key = nkeys.from_seed(bytearray(seed)).public_key.decode()
    return WorkerCredentials(service=service, name=name, key=key, seed=SecretStr(seed.decode()))


def write_credentials(credentials: WorkerCredentials, path: Path) -> None:
    """`path`, which must not exist, holds them, readable by its owner only. Raises Misconfigured."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except FileExistsError:
        raise Misconfigured(f"{path} exists; name another file with --file") from None
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}; name another file with --file") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(credentials.model_dump_json(indent=2) + "\n")


def read_credentials(path: Path) -> WorkerCredentials:
    """The credentials in `path`. Raises Misconfigured, saying where such files come from."""
    made_by = "make one where the factory runs: `assay credentials create SERVICE NAME`"
    try:
        found = WorkerCredentials.model_validate_json(path.read_bytes())
        derived = nkeys.from_seed(bytearray(found.seed.get_secret_value().encode())).public_key.decode()
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}; {made_by}") from error
    except (ValidationError, nkeys.NkeysError, ValueError) as error:
        raise Misconfigured(f"{path} is no file of worker credentials ({_reason(error)}); {made_by}") from None
    if derived != found.key:
        raise Misconfigured(f"{path} is damaged: its seed does not belong to its key; {made_by}")
    return found


def is_worker_credentials(path: Path) -> bool:
    """`path` holds Assay's own kind of credentials, and not a NATS `.creds` file (a JWT with its seed)."""
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except (OSError, ValueError):
        return False


def _reason(error: Exception) -> str:
    """What is wrong, without the file's content: it may hold a secret."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"${''.join(f'.{part}' for part in first['loc'])}: {first['msg']}"
    return "its seed is no nkey"
