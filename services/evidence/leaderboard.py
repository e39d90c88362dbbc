"""The one leaderboard query. It sees proven finalists with a hold-out interval from a race, and nothing else.

Search numbers, unproven candidates, races of goals that had ended, and entrants without an interval never reach it.
"""

LEADERBOARD = """
WITH events AS NOT MATERIALIZED (  -- the log, or the log as it was at a position
    SELECT * FROM public.events WHERE $3::bigint IS NULL OR position <= $3
), race AS (  -- the race that decided: the first of its goal, before the goal ended
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
"""$1 goal id or null, $2 workload or null, $3 position or null. Best lower bound first."""
