"""The one leaderboard query. It sees proven finalists with a hold-out interval from a race, and nothing else.

Search numbers, unproven candidates, races of goals that had ended, and entrants without an interval never reach it.
`LEADERBOARD` asks Postgres; `leaderboard` asks any log, with the same answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from schemas.enums import RatioKind
from schemas.envelope import Recorded
from schemas.events import ChampionCrowned, Fact, FinalistProven, GoalAccepted, GoalCompleted, RaceFinished
from schemas.ids import GoalId
from services.evidence.log import Log

LEADERBOARD_FACTS: tuple[type[Fact], ...] = (
    GoalAccepted,
    FinalistProven,
    RaceFinished,
    ChampionCrowned,
    GoalCompleted,
)

LEADERBOARD = """
WITH race AS (  -- the race that decided: the first of its goal, before the goal ended
    SELECT DISTINCT ON (goal_id) goal_id, position, recorded_at, data->'race' AS race
    FROM events AS finished
    WHERE type = 'race.finished.v1'
      AND NOT EXISTS (
          SELECT FROM events AS completed
          WHERE completed.goal_id = finished.goal_id AND completed.type = 'goal.completed.v1'
            AND completed.position < finished.position)
    ORDER BY goal_id, position
)
SELECT race.goal_id,
       accepted.data->'goal'->>'workload'                            AS workload,
       split_part(race.race->>'machine', '/', 1)                     AS route,
       (entrant->>'candidate_id')::uuid                              AS candidate_id,
       (entrant->'comparison'->'ratio'->>'estimate')::float8         AS ratio,
       (entrant->'comparison'->'ratio'->>'low')::float8              AS low,
       (entrant->'comparison'->'ratio'->>'high')::float8             AS high,
       (entrant->'comparison'->'ratio'->>'level')::float8            AS level,
       entrant->'comparison'->>'verdict'                             AS verdict,
       crowned.event_id IS NOT NULL                                  AS champion,
       race.recorded_at                                              AS raced_at
FROM race
CROSS JOIN LATERAL jsonb_array_elements(race.race->'entrants') AS entrant
JOIN events AS accepted ON accepted.goal_id = race.goal_id AND accepted.type = 'goal.accepted.v1'
LEFT JOIN events AS crowned ON crowned.goal_id = race.goal_id AND crowned.type = 'champion.crowned.v1'
    AND crowned.candidate_id = (entrant->>'candidate_id')::uuid
WHERE entrant->'comparison'->>'kind' = 'hold_out'
  AND jsonb_typeof(entrant->'comparison'->'ratio') = 'object'
  AND EXISTS (
      SELECT FROM events AS proven
      WHERE proven.goal_id = race.goal_id AND proven.type = 'finalist.proven.v1'
        AND proven.candidate_id = (entrant->>'candidate_id')::uuid AND proven.position < race.position)
  AND ($1::text IS NULL OR race.goal_id = $1)
  AND ($2::text IS NULL OR accepted.data->'goal'->>'workload' = $2)
ORDER BY low DESC, ratio DESC, candidate_id
"""
"""$1 goal id or null, $2 workload or null. Best lower bound first."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One proven finalist and its hold-out interval."""

    goal_id: GoalId
    workload: str
    route: str
    candidate_id: UUID
    ratio: float
    low: float
    high: float
    level: float
    verdict: str
    champion: bool
    raced_at: datetime


async def leaderboard(log: Log, goal_id: GoalId | None = None, workload: str | None = None) -> tuple[Standing, ...]:
    """What LEADERBOARD answers, from any log."""
    facts = [recorded async for recorded in log.read(0, None, goal_id, LEADERBOARD_FACTS)]
    standings = [standing for standing in _standings(facts) if workload in (None, standing.workload)]
    return tuple(sorted(standings, key=lambda s: (-s.low, -s.ratio, s.candidate_id.int)))


def _standings(facts: Sequence[Recorded[Any]]) -> Iterable[Standing]:
    workloads = {r.fact.goal_id: r.fact.goal.workload for r in facts if isinstance(r.fact, GoalAccepted)}
    ended = _first(facts, GoalCompleted)
    crowned = {(r.fact.goal_id, r.fact.candidate_id) for r in facts if isinstance(r.fact, ChampionCrowned)}
    proven: dict[tuple[GoalId, UUID], int] = {}
    for recorded in facts:
        if isinstance(recorded.fact, FinalistProven):
            proven.setdefault((recorded.fact.goal_id, recorded.fact.candidate_id), recorded.position)
    for goal_id, finished in _first(facts, RaceFinished).items():
        if goal_id in ended and ended[goal_id].position < finished.position:
            continue
        for entrant in finished.fact.race.entrants:
            key, ratio = (goal_id, entrant.candidate_id), entrant.comparison.ratio
            if ratio is None or entrant.comparison.kind is not RatioKind.HOLD_OUT:
                continue
            if goal_id not in workloads or proven.get(key, finished.position) >= finished.position:
                continue
            yield Standing(
                goal_id=goal_id,
                workload=workloads[goal_id],
                route=finished.fact.race.machine.split("/")[0],
                candidate_id=entrant.candidate_id,
                ratio=ratio.estimate,
                low=ratio.low,
                high=ratio.high,
                level=ratio.level,
                verdict=entrant.comparison.verdict.value,
                champion=key in crowned,
                raced_at=finished.recorded_at,
            )


def _first(facts: Iterable[Recorded[Any]], type_: type[Fact]) -> dict[GoalId, Recorded[Any]]:
    found: dict[GoalId, Recorded[Any]] = {}
    for recorded in facts:
        if isinstance(recorded.fact, type_) and recorded.fact.about_goal is not None:
            found.setdefault(recorded.fact.about_goal, recorded)
    return found
