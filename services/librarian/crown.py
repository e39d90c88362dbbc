"""Who wins a race: the rule of measurement.md, point 8, and nothing else."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from schemas.enums import Outcome, Verdict
from schemas.measurement import Entrant, Race

UNDECIDED = frozenset({Verdict.INVALID, Verdict.UNFIT, Verdict.QUARANTINED})
"""Verdicts that neither prove nor disprove a gain."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a race decided, and why."""

    outcome: Outcome
    winner: Entrant | None
    message: str


def rule(race: Race, min_gain: float, confirmed: Collection[UUID] = ()) -> Ruling:
    """The ruling on `race`: entrants whose intervals overlap the leader's tie with it, so the best lower bound wins.

    `confirmed`: entrants whose quarantined result a person vouches for; their interval decides.
    """
    race = race.model_copy(update={"entrants": tuple(_released(one, confirmed) for one in race.entrants)})
    if not race.fit:
        return Ruling(Outcome.INCONCLUSIVE, None, f"{race.machine} was not fit to race (noise {race.noise_floor:.1%})")
    deserving = [entrant for entrant in race.entrants if deserves(entrant, min_gain)]
    if deserving:
        winner = max(deserving, key=_lower_bound)
        return Ruling(Outcome.CHAMPION, winner, _win(winner))
    if any(might_deserve(entrant, min_gain) for entrant in race.entrants):
        return Ruling(Outcome.INCONCLUSIVE, None, f"no entrant was decided: {_verdicts(race.entrants)}")
    return Ruling(
        Outcome.NO_VERIFIED_IMPROVEMENT, None, f"no entrant is faster by {min_gain:.1%}: {_verdicts(race.entrants)}"
    )


def deserves(entrant: Entrant, min_gain: float) -> bool:
    """FASTER than the strongest baseline by at least `min_gain`, and not SLOWER than the incumbent."""
    comparison = entrant.comparison
    return (
        comparison.verdict is Verdict.FASTER
        and comparison.ratio is not None
        and comparison.ratio.estimate >= 1 + min_gain
        and not _slower_than_incumbent(entrant)
    )


def might_deserve(entrant: Entrant, min_gain: float) -> bool:
    """Its race gave no verdict, or an undecided one on the winning side."""
    comparison = entrant.comparison
    if _slower_than_incumbent(entrant):
        return False
    if comparison.verdict in UNDECIDED:
        return True
    above = comparison.ratio is not None and comparison.ratio.estimate >= 1 + min_gain
    return comparison.verdict is Verdict.INCONCLUSIVE and above


def _released(entrant: Entrant, confirmed: Collection[UUID]) -> Entrant:
    """`entrant`, with the verdict that its interval would have had if it was quarantined and is confirmed."""
    comparison = entrant.comparison
    ratio = comparison.ratio
    if comparison.verdict is not Verdict.QUARANTINED or entrant.candidate_id not in confirmed or ratio is None:
        return entrant
    faster = ratio.low > 1 and ratio.estimate > 1 + comparison.delta
    update = {
        "verdict": Verdict.FASTER if faster else Verdict.INCONCLUSIVE,
        "note": f"quarantined ({comparison.note}), then confirmed by a person",
    }
    return entrant.model_copy(update={"comparison": comparison.model_copy(update=update)})


def _slower_than_incumbent(entrant: Entrant) -> bool:
    against = entrant.against_incumbent
    return against is not None and against.verdict is Verdict.SLOWER


def _lower_bound(entrant: Entrant) -> tuple[float, float]:
    ratio = entrant.comparison.ratio
    assert ratio is not None
    return ratio.low, ratio.estimate


def _win(winner: Entrant) -> str:
    ratio = winner.comparison.ratio
    assert ratio is not None
    return f"{ratio.estimate:.3f}× the strongest baseline, {ratio.level:.1%} interval {ratio.low:.3f}–{ratio.high:.3f}"


def _verdicts(entrants: Iterable[Entrant]) -> str:
    return ", ".join(_verdict(entrant) for entrant in entrants) or "none raced"


def _verdict(entrant: Entrant) -> str:
    ratio = entrant.comparison.ratio
    return f"{entrant.comparison.verdict} {ratio.estimate:.3f}" if ratio else str(entrant.comparison.verdict)
