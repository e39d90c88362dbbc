"""Which candidate a person means: by its id, by the first digits of it, or as the best of a goal."""

import re
from typing import Protocol
from uuid import UUID

from schemas.faults import Misconfigured
from services.evidence.view_rows import Row

NAME_HELP = "A candidate's id, its first digits, or a goal: its champion, else its best so far."
LEAST_DIGITS = 4
"""Chosen: reports show eight; four name one of a few hundred more often than not."""
_DIGITS = re.compile(r"[0-9a-f-]+")


class Names(Protocol):
    """The part of the views that knows candidates by name."""

    async def candidates_named(self, digits: str, limit: int) -> tuple[Row, ...]: ...
    async def goals(self, goal_id: str | None = None, limit: int = 1) -> tuple[Row, ...]: ...


async def candidate_named(names: Names, text: str) -> UUID:
    """The id of the candidate that `text` means. Raises Misconfigured when it means none, or several."""
    try:
        return UUID(text)
    except ValueError:
        pass
    if (goal := await names.goals(text)) and (best := goal[0]["champion_id"] or goal[0]["best_candidate"]):
        return UUID(str(best))
    if goal:
        raise Misconfigured(f"goal {text} has measured no candidate yet")
    digits = text.lower()
    if len(digits) < LEAST_DIGITS or not _DIGITS.fullmatch(digits):
        raise Misconfigured(f"{text!r} is neither a candidate's id, nor its first {LEAST_DIGITS} digits, nor a goal")
    found = [row["candidate_id"] for row in await names.candidates_named(digits, 3)]
    match found:
        case []:
            raise Misconfigured(
                f"no candidate begins with {text}, and no goal is called so; see `assay candidate list`"
            )
        case [one]:
            return UUID(str(one))
        case _:
            shown = ", ".join(str(one) for one in found[:2])
            raise Misconfigured(f"{text} begins several candidates, such as {shown}; write more digits")
