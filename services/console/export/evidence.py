"""What the log says of a champion, as one JSON file: its facts, where they stand in the chain, and the machine."""

import hashlib
from collections.abc import Sequence
from typing import Any

from schemas.envelope import Recorded
from schemas.events import (
    BaselineChosen,
    CandidateCompiled,
    CandidateMeasured,
    CandidateProposed,
    CandidateVerified,
    ChampionCrowned,
    Fact,
    FinalistNominated,
    FinalistProven,
    GoalAccepted,
    GoalCompleted,
    MachineObserved,
    RaceDue,
    RaceFinished,
)
from services.console.commands.events import record_of
from services.console.export.claim import Claim
from services.evidence.log import Log

OF_THE_GOAL: tuple[type[Fact], ...] = (
    GoalAccepted,
    BaselineChosen,
    RaceDue,
    RaceFinished,
    ChampionCrowned,
    GoalCompleted,
)
OF_THE_CANDIDATE: tuple[type[Fact], ...] = (
    CandidateProposed,
    CandidateCompiled,
    CandidateVerified,
    CandidateMeasured,
    FinalistNominated,
    FinalistProven,
)


async def evidence(log: Log, claim: Claim) -> dict[str, Any]:
    """Everything recorded about the champion, with log positions and hashes for `assay events verify` to be held to."""
    crowned = claim.crowned
    facts = [
        recorded async for recorded in log.read(goal_id=crowned.fact.goal_id, types=(*OF_THE_GOAL, *OF_THE_CANDIDATE))
    ]
    kept = [recorded for recorded in facts if _belongs(recorded, claim)]
    race = next(recorded.fact.race for recorded in kept if isinstance(recorded.fact, RaceFinished))
    head = await log.head()
    return {
        "goal_id": crowned.fact.goal_id,
        "candidate_id": str(crowned.fact.candidate_id),
        "workload": crowned.fact.workload,
        "signature": claim.workload.signature(),
        "claim": crowned.fact.comparison.model_dump(mode="json"),
        "search_ratio": crowned.fact.search_ratio,
        "a_a": race.a_a.model_dump(mode="json"),
        "seeds": race.seeds,
        "machine": await _machine(log, race.machine, crowned.position),
        "log": {
            "crowned_at": await _place(log, crowned.position),
            "head": {"position": head.position, "hash": head.hash.hex()},
        },
        "facts": [record_of(recorded) | await _place(log, recorded.position) for recorded in kept],
    }


def _belongs(recorded: Recorded[Any], claim: Claim) -> bool:
    fact, champion = recorded.fact, claim.crowned.fact.candidate_id
    if isinstance(fact, CandidateProposed):
        return recorded.id == champion
    return isinstance(fact, OF_THE_GOAL) or fact.candidate_id == champion


async def _place(log: Log, position: int) -> dict[str, Any]:
    """Where a fact stands in the chain. Its raw bytes are named by digest: `data` is how this Assay reads them."""
    async for row in log.rows(position - 1, position):
        return {
            "position": row.position,
            "origin": str(row.origin),
            "epoch": row.epoch,
            "stream_seq": row.stream_seq,
            "raw_sha256": hashlib.sha256(row.raw).hexdigest(),
            "hash": row.hash.hex(),
        }
    return {"position": position}


async def _machine(log: Log, machine: str, before: int) -> dict[str, Any] | None:
    """The machine as it last described itself before the champion was crowned."""
    profiles: Sequence[Any] = [
        recorded.fact.profile
        async for recorded in log.read(upto=before, types=(MachineObserved,))
        if f"{recorded.fact.profile.machine.route}/{recorded.fact.profile.host}" == machine
    ]
    return profiles[-1].model_dump(mode="json") if profiles else None
