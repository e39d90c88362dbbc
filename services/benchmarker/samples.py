"""Raw samples are kept: inside the fact while it stays small, else in the artifact store by digest."""

from pydantic import TypeAdapter

from schemas.measurement import Comparison, Entrant, Pair, Race
from services.runtime.artifacts import ArtifactStore

INLINE_LIMIT_BYTES = 256 * 1024
"""Chosen: half of what a fact may have."""

_PAIRS = TypeAdapter(tuple[Pair, ...])


def race_that_fits(race: Race, store: ArtifactStore) -> Race:
    """The same race, its raw samples moved to the store when they would make the fact too large."""
    if len(race.model_dump_json()) <= INLINE_LIMIT_BYTES:
        return race
    entrants = tuple(_entrant(entrant, store) for entrant in race.entrants)
    return race.model_copy(update={"entrants": entrants, "a_a": samples_stored(race.a_a, store)})


def samples_stored(comparison: Comparison, store: ArtifactStore) -> Comparison:
    """The comparison with its pairs by digest: a JSON list of pairs."""
    artifact = store.put(_PAIRS.dump_json(comparison.pairs))
    return comparison.model_copy(update={"pairs": (), "samples": artifact})


def _entrant(entrant: Entrant, store: ArtifactStore) -> Entrant:
    other = entrant.against_incumbent
    return entrant.model_copy(
        update={
            "comparison": samples_stored(entrant.comparison, store),
            "against_incumbent": samples_stored(other, store) if other else None,
        }
    )
