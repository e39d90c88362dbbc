"""What can be wrong with a log, and where."""

from dataclasses import dataclass
from enum import StrEnum


class BreakKind(StrEnum):
    """What does not hold."""

    MISSING = "missing"
    """A position is not there."""
    DIGEST = "digest"
    """Raw, place, time or predecessor are not those that were hashed."""
    COLUMN = "column"
    """A column is not what raw says."""
    SEQUENCE = "sequence"
    """A stream sequence is neither a row nor a duplicate, or is both, or runs backwards."""
    ID = "id"
    """An id was recorded before, or does not follow from the decision that it stands for."""
    CAUSE = "cause"
    """A fact names a cause that was not recorded before it."""
    PATH = "path"
    """A candidate was measured, or crowned, without the facts that lead there, or one question has two answers."""
    SIGNATURE = "signature"
    """A service did not sign what is said to be its own, or nobody who is trusted certified its key."""
    DUPLICATE = "duplicate"
    """What is said of a repeated message is not so."""
    HEAD = "head"
    """The log does not end where its head says."""
    CHECKPOINT = "checkpoint"
    """A signed checkpoint kept outside says otherwise: the end was cut off, or history was written anew."""
    ORIGIN = "origin"
    """Rows of another log that no import accounts for."""


@dataclass(frozen=True)
class Break:
    """The first place where the log does not hold."""

    position: int
    kind: BreakKind
    message: str
