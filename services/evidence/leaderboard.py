"""The one leaderboard query. It sees proven finalists with a hold-out interval from a race, and nothing else.

Search numbers, unproven candidates, races of goals that had ended, and entrants without an interval never reach
views.standings (`standings.py`), which the fold of the views fills and nobody else writes.
"""

LEADERBOARD = """
SELECT goal_id, workload, route, candidate_id, ratio, low, high, level, verdict, champion, raced_at
FROM views.standings
WHERE ($1::text IS NULL OR goal_id = $1) AND ($2::text IS NULL OR workload = $2)
ORDER BY low DESC, ratio DESC, candidate_id
LIMIT $3
"""
"""$1 goal id or null, $2 workload or null, $3 how many. Best lower bound first."""
