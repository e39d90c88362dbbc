"""Successive halving: which measured candidates of a generation, what was submitted meanwhile included, are measured
again, and longer (measurement.md, 7).

Every candidate gets one cheap screen. The best third gets a longer look, and the best third of those the longest one,
so that most of the time goes to what may win. What a round is given follows from the round before alone, so the same
log always asks for the same measurements, however often the librarian was restarted in between.
"""

from collections.abc import Mapping
from uuid import UUID

from services.evidence.goal_parts import CandidateState

ETA = 3
"""One in so many goes on (measurement.md, 7)."""
ROUNDS = 2
"""Chosen: of 32 candidates 11 and then 4 are left, about as many as there are finalists."""


def missing(members: Mapping[UUID, CandidateState]) -> tuple[int, tuple[UUID, ...]] | None:
    """The round that is not asked for in full yet and the candidates it lacks; None while answers are out, and after
    the last round."""
    for round_ in range(1, ROUNDS + 1):
        due = contestants(members, round_)
        lacking = tuple(id_ for id_ in due if members[id_].asked < round_)
        if lacking:
            return round_, lacking
        if any(members[id_].answered < round_ for id_ in due):
            return None
    return None


def is_waiting(members: Mapping[UUID, CandidateState]) -> bool:
    """An answer is still out."""
    return any(one.answered < one.asked for one in members.values())


def contestants(members: Mapping[UUID, CandidateState], round_: int) -> tuple[UUID, ...]:
    """The best third of the round before, best first; the first proposed among equals."""
    known = {id_: member.looks[round_ - 1] for id_, member in members.items() if len(member.looks) >= round_}
    ranked = sorted(known, key=lambda id_: -known[id_])
    return tuple(ranked[: -(-len(ranked) // ETA)])
