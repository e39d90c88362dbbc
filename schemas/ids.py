"""Ids are derived from the decision, never from its result (architecture.md, Facts)."""

import hashlib
import re
from typing import Annotated
from uuid import UUID, uuid5

from pydantic import StringConstraints

NAMESPACE = UUID("6f1c9f0e-5d0b-5a0e-9c53-a55a70000001")
"""Chosen once. Changing it would make every recorded id underivable."""

TOKEN_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
"""A subject token: what may stand between two dots of a NATS subject."""

Token = Annotated[str, StringConstraints(pattern=TOKEN_PATTERN)]
GoalId = Token
Route = Token
"""A machine class (`cpu_<hash>`), a CUDA target, `null`, or `any`."""

ANY_ROUTE = "any"
NO_GOAL = "none"
NULL_ROUTE = "null"
CPU_PREFIX = "cpu_"


def is_token(text: str) -> bool:
    """`text` may be a subject token."""
    return re.match(TOKEN_PATTERN, text) is not None and "\n" not in text


def answer_id(cause: UUID, slot: str, ordinal: int = 0) -> UUID:
    """The id of the `ordinal`-th fact that decision `slot` states about `cause`."""
    return uuid5(NAMESPACE, f"{cause}|{slot}|{ordinal}")


def due_id(goal_id: str, slot: str, n: int = 0) -> UUID:
    """The id of what the librarian makes due for a goal: `n` is the generation or the attempt."""
    return uuid5(NAMESPACE, f"{goal_id}|{slot}|{n}")


def request_id(subject: str, body: bytes) -> UUID:
    """The id of a raw request, which carries none of its own."""
    return uuid5(NAMESPACE, f"{subject}|{hashlib.sha256(body).hexdigest()}")


def epoch_id(epoch: str) -> UUID:
    """The id of the fact that opens an epoch of the stream."""
    return uuid5(NAMESPACE, f"epoch|{epoch}")


def certificate_id(fingerprint: str) -> UUID:
    """The id of the fact that makes a key known: stated at every start, recorded once."""
    return uuid5(NAMESPACE, f"key|{fingerprint}")
