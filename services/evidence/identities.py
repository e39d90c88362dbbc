"""Does an id follow from the decision that it stands for? (architecture.md: ids are derived from the decision.)

Checked for the facts of a goal's path whose slot is known here; a test holds the slots to those of the cores. A fact
that is not named here, such as one of a newer Assay, is only checked for being recorded once.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from uuid import UUID

from schemas.ids import answer_id, due_id
from services.evidence.goal_state import ATTEMPTS
from services.evidence.log import Row

ANSWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "baseline.chosen": ("baseline",),
        "baseline.not_found": ("baseline",),
        "baseline.abandoned": ("baseline",),
        "generation.opened": ("open",),
        "generation.abandoned": ("open",),
        "search.exhausted": ("open",),
        "candidate.compiled": ("compile",),
        "candidate.verified": ("verify",),
        "candidate.measured": ("measure",),
        "candidate.remeasured": ("remeasure",),
        "measurement.refused": ("remeasure",),
        "measurement.not_run": ("remeasure",),
        "candidate.rejected": ("compile", "verify", "measure"),
        "candidate.abandoned": ("compile", "verify", "measure"),
        "finals.opened": ("open_finals",),
        "finals.abandoned": ("open_finals",),
        "finalist.proven": ("prove",),
        "finalist.rejected": ("prove",),
        "finalist.abandoned": ("prove",),
        "race.finished": ("race",),
        "race.not_run": ("race",),
    }
)
"""The one answer to a cause: the slots it may have."""
DUES: Mapping[str, str] = MappingProxyType(
    {
        "goal.accepted": "accept",
        "baseline.due": "baseline",
        "generation.due": "generation",
        "generation.closed": "generation.closed",
        "finals.due": "finals",
        "race.due": "race",
        "champion.crowned": "champion",
        "goal.completed": "completed",
    }
)
"""What the librarian states about a goal: its slot."""


def derived(row: Row, kind: str) -> bool:
    """The id of `row`, a fact of this kind, follows from what it answers; True also where no rule is known."""
    if kind in ANSWERS and row.causation_id is not None:
        return row.event_id in {answer_id(row.causation_id, slot) for slot in ANSWERS[kind]}
    if kind in DUES and row.goal_id is not None:
        return row.event_id in set(_dues(row.goal_id, DUES[kind], row.generation))
    return True


def _dues(goal_id: str, slot: str, generation: int | None) -> Iterator[UUID]:
    """The ids that a due fact of `slot` may have: one for each attempt."""
    if slot == "generation.closed":
        yield due_id(goal_id, slot, generation or 0)
        return
    first = (generation or 0) * ATTEMPTS
    yield from (due_id(goal_id, slot, first + attempt) for attempt in range(ATTEMPTS))
