"""Whether a kept counterexample can be withdrawn. Pure."""

from uuid import UUID

from schemas.requests import Problem
from schemas.work import Counterexample
from services.librarian.catches import input_of
from services.librarian.curator import CuratorState

LISTED = "`assay counterexample list` shows them with their ids"


def kept_counterexample(name: str, state: CuratorState) -> tuple[UUID | None, Counterexample | Problem]:
    """The counterexample that the fact called `name` kept, or why it cannot be withdrawn."""
    try:
        kept_id = UUID(name)
    except ValueError:
        return None, Problem(path="subject", message="the subject names no counterexample", hint=LISTED)
    found = state.kept.get(kept_id)
    if found is None:
        return None, Problem(path="subject", message=f"no counterexample was kept as {kept_id}", hint=LISTED)
    if input_of(found) in state.withdrawn:
        return None, Problem(path="subject", message=f"counterexample {kept_id} was withdrawn before")
    return kept_id, found
