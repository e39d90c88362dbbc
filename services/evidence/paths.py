"""Did every candidate come the whole way? (architecture.md, The path of a goal.)"""

from dataclasses import dataclass
from enum import Flag, auto
from uuid import UUID

from services.evidence.log import Row


class Step(Flag):
    """What is recorded of one candidate."""

    NOTHING = 0
    PROPOSED = auto()
    COMPILED = auto()
    VERIFIED = auto()
    NOMINATED = auto()
    PROVEN = auto()


STEPS = {
    "candidate.proposed": Step.PROPOSED,
    "candidate.compiled": Step.COMPILED,
    "candidate.verified": Step.VERIFIED,
    "finalist.nominated": Step.NOMINATED,
    "finalist.proven": Step.PROVEN,
}
NEEDS = {
    "candidate.measured": ("candidate.proposed", "candidate.compiled", "candidate.verified"),
    "finalist.proven": ("candidate.proposed", "candidate.compiled", "candidate.verified", "finalist.nominated"),
    "champion.crowned": ("candidate.proposed", "candidate.compiled", "candidate.verified", "finalist.proven"),
}
"""What must be recorded of a candidate before this is said of it."""
LIBRARIAN = "assay/librarian/"
"""Beginning of the source of what the desk states."""
TERMINAL = frozenset({"candidate.measured", "candidate.rejected", "candidate.abandoned"})


@dataclass
class _Candidate:
    steps: Step = Step.NOTHING
    submitted: bool = False
    """It came from outside, whether or not a generation was open."""
    settled_by: UUID | None = None
    """The cause of its first terminal fact: the question that was answered."""


class Paths:
    """One small entry per goal, generation and candidate."""

    def __init__(self) -> None:
        self._accepted: set[str] = set()
        self._raced: set[str] = set()
        self._due: set[tuple[str, int]] = set()
        self._candidates: dict[UUID, _Candidate] = {}
        self.late = 0

    @property
    def goals(self) -> int:
        return len(self._accepted)

    @property
    def candidates(self) -> int:
        return len(self._candidates)

    def follow(self, row: Row, kind: str, *, whole: bool = True) -> str | None:
        """`row` is the next step of its goal; says what is wrong when it cannot be. Not `whole`: steps may be among
        the rows that this copy leaves out, so their absence proves nothing."""
        if row.goal_id is None:
            return None
        if kind == "goal.accepted":
            self._accepted.add(row.goal_id)
        elif kind == "race.finished":
            self._raced.add(row.goal_id)
        elif kind == "generation.due" and row.generation is not None:
            self._due.add((row.goal_id, row.generation))
        elif row.candidate_id is not None and (kind in STEPS or kind in TERMINAL or kind in NEEDS):
            return self._candidate(row, row.goal_id, row.candidate_id, kind, whole=whole)
        return None

    def _candidate(self, row: Row, goal_id: str, candidate_id: UUID, kind: str, *, whole: bool) -> str | None:
        candidate = self._candidates.setdefault(candidate_id, _Candidate())
        lacking = self._lacking(candidate, goal_id, row.generation, kind) if whole else ()
        if lacking:
            return f"{kind} is said of candidate {candidate_id} without {', '.join(lacking)}"
        candidate.steps |= STEPS.get(kind, Step.NOTHING)
        candidate.submitted |= is_submission(row, kind)
        return self._settle(candidate, candidate_id, row.causation_id) if kind in TERMINAL else None

    def _lacking(self, candidate: _Candidate, goal_id: str, generation: int | None, kind: str) -> list[str]:
        if kind not in NEEDS:
            return []
        lacking = [need for need in NEEDS[kind] if STEPS[need] not in candidate.steps]
        due = generation is not None and (goal_id, generation) in self._due
        if kind == "candidate.measured" and not (due or candidate.submitted):
            lacking.append("generation.due")
        if kind == "champion.crowned" and goal_id not in self._raced:
            lacking.append("race.finished")
        if goal_id not in self._accepted:
            lacking.append("goal.accepted")
        return lacking

    def _settle(self, candidate: _Candidate, candidate_id: UUID, cause: UUID | None) -> str | None:
        """The first terminal fact counts. A later one is late, unless it answers the same question again."""
        if candidate.settled_by is None:
            candidate.settled_by = cause
        elif candidate.settled_by == cause:
            return f"candidate {candidate_id} has two terminal facts for one cause: derived ids allow one"
        else:
            self.late += 1
        return None


def is_submission(row: Row, kind: str) -> bool:
    """The desk stated this candidate: its cause is a person's request, which stands inside the fact."""
    return kind == "candidate.proposed" and (row.source or "").startswith(LIBRARIAN)
