"""The secrets of a composed factory: one variable each, from `.env`, checked before anything is started with them."""

import os
import re

from infra.bootstrap.nats_users import USERS
from schemas.faults import Misconfigured

NATS_PASSWORDS = {user: f"NATS_PASSWORD_{user.upper()}" for user in USERS}
"""The variable of each NATS user's password."""
POSTGRES_PASSWORD = "POSTGRES_PASSWORD"
POSTGRES_PASSWORD_RECORDER = "POSTGRES_PASSWORD_RECORDER"
POSTGRES_PASSWORD_READER = "POSTGRES_PASSWORD_READER"
SECRETS = (*NATS_PASSWORDS.values(), POSTGRES_PASSWORD, POSTGRES_PASSWORD_RECORDER, POSTGRES_PASSWORD_READER)

PLACEHOLDER = "change-me"
SECRET = re.compile(r"[A-Za-z0-9_-]{20,}")
"""What may stand in a URL and in a shell as it is. Chosen: 20 random characters of 64 are 120 bits."""


def secret(variable: str) -> str:
    """The secret in `variable`. Raises Misconfigured when it is missing, a placeholder or weak, and never shows it."""
    mend = "write it into .env: `make compose-env` makes a whole one"
    found = os.environ.get(variable, "")
    if not found or found == PLACEHOLDER:
        raise Misconfigured(f"the secret {variable} is missing; {mend}")
    if not SECRET.fullmatch(found):
        raise Misconfigured(f"the secret {variable} needs 20 or more of A-Z a-z 0-9 _ - and nothing else; {mend}")
    return found


def nats_passwords() -> dict[str, str]:
    """Every NATS user's. Raises Misconfigured."""
    return {user: secret(variable) for user, variable in NATS_PASSWORDS.items()}
