"""SQL of the views. Tables are named with a suffix so that a rebuild stands beside what is being read."""

TABLES = ("goals", "candidates", "standings", "checkpoint")

CREATE = """
CREATE TABLE views.goals{suffix} (
    goal_id           text PRIMARY KEY,
    name              text NOT NULL,
    workload          text NOT NULL,
    target            text NOT NULL,
    route             text,
    phase             text NOT NULL,
    paused            boolean NOT NULL,
    ended_by          text,
    outcome           text,
    accepted_at       timestamptz NOT NULL,
    completed_at      timestamptz,
    generation        bigint NOT NULL,
    budget            bigint NOT NULL,
    proposed          bigint NOT NULL,
    compiled          bigint NOT NULL,
    verified          bigint NOT NULL,
    measured          bigint NOT NULL,
    rejected          bigint NOT NULL,
    abandoned         bigint NOT NULL,
    rejections        jsonb NOT NULL,       -- by reason
    best_candidate    uuid,
    best_search_ratio float8,               -- a search number: it guides, it is no result
    champion_id       uuid,
    champion_ratio    float8,               -- hold-out
    champion_low      float8,
    champion_high     float8,
    deadline          timestamptz,
    message           text,
    position          bigint NOT NULL
);
CREATE TABLE views.candidates{suffix} (
    candidate_id uuid PRIMARY KEY,
    goal_id      text NOT NULL,
    generation   bigint NOT NULL,
    island       bigint NOT NULL,
    strategy     text NOT NULL,
    author       text NOT NULL,
    language     text NOT NULL,
    variant      text NOT NULL,
    fingerprint  text NOT NULL,
    proposed_at  timestamptz NOT NULL,
    status       text NOT NULL DEFAULT 'proposed',
    stage        text,
    reason       text,
    message      text,
    search_ratio float8,                    -- a search number
    verdict      text,
    finals       text
);
CREATE INDEX candidates_by_goal{suffix} ON views.candidates{suffix} (goal_id, generation);
CREATE TABLE views.standings{suffix} (
    goal_id      text NOT NULL,
    workload     text NOT NULL,
    route        text NOT NULL,
    candidate_id uuid NOT NULL,
    ratio        float8 NOT NULL,           -- hold-out
    low          float8 NOT NULL,
    high         float8 NOT NULL,
    level        float8 NOT NULL,
    verdict      text NOT NULL,
    champion     boolean NOT NULL,
    raced_at     timestamptz NOT NULL,
    PRIMARY KEY (goal_id, candidate_id)
);
CREATE INDEX standings_by_low{suffix} ON views.standings{suffix} (low DESC, ratio DESC, candidate_id);
CREATE TABLE views.checkpoint{suffix} (
    id       smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    version  integer NOT NULL,
    position bigint NOT NULL
);
"""

BEGIN = "INSERT INTO views.checkpoint{suffix} (version, position) VALUES ($1, 0)"

EXIST = "SELECT bool_and(to_regclass('views.' || name) IS NOT NULL) FROM unnest($1::text[]) AS name"

CHECKPOINT = "SELECT version, position FROM views.checkpoint"

ADVANCE = "UPDATE views.checkpoint{suffix} SET position = $1"

DROP = "DROP TABLE IF EXISTS views.{table}{suffix}"

RENAME = "ALTER TABLE views.{table}{suffix} RENAME TO {table}"
INDEXES = ("candidates_by_goal", "standings_by_low")
RENAME_INDEX = "ALTER INDEX views.{index}{suffix} RENAME TO {index}"

GOAL_COLUMNS = (
    ("goal_id", "text"),
    ("name", "text"),
    ("workload", "text"),
    ("target", "text"),
    ("route", "text"),
    ("phase", "text"),
    ("paused", "boolean"),
    ("ended_by", "text"),
    ("outcome", "text"),
    ("accepted_at", "timestamptz"),
    ("completed_at", "timestamptz"),
    ("generation", "bigint"),
    ("budget", "bigint"),
    ("proposed", "bigint"),
    ("compiled", "bigint"),
    ("verified", "bigint"),
    ("measured", "bigint"),
    ("rejected", "bigint"),
    ("abandoned", "bigint"),
    ("rejections", "jsonb"),
    ("best_candidate", "uuid"),
    ("best_search_ratio", "float8"),
    ("champion_id", "uuid"),
    ("champion_ratio", "float8"),
    ("champion_low", "float8"),
    ("champion_high", "float8"),
    ("deadline", "timestamptz"),
    ("message", "text"),
    ("position", "bigint"),
)

PROPOSAL_COLUMNS = (
    ("candidate_id", "uuid"),
    ("goal_id", "text"),
    ("generation", "bigint"),
    ("island", "bigint"),
    ("strategy", "text"),
    ("author", "text"),
    ("language", "text"),
    ("variant", "text"),
    ("fingerprint", "text"),
    ("proposed_at", "timestamptz"),
)

STANDING_COLUMNS = (
    ("goal_id", "text"),
    ("workload", "text"),
    ("route", "text"),
    ("candidate_id", "uuid"),
    ("ratio", "float8"),
    ("low", "float8"),
    ("high", "float8"),
    ("level", "float8"),
    ("verdict", "text"),
    ("champion", "boolean"),
    ("raced_at", "timestamptz"),
)

MOVE_COLUMNS = (
    ("status", "text"),
    ("stage", "text"),
    ("reason", "text"),
    ("message", "text"),
    ("search_ratio", "float8"),
    ("verdict", "text"),
    ("finals", "text"),
)


def _unnest(columns: tuple[tuple[str, str], ...]) -> str:
    return "unnest(" + ", ".join(f"${n}::{type_}[]" for n, (_, type_) in enumerate(columns, 1)) + ")"


def _names(columns: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(name for name, _ in columns)


def upsert_goals(suffix: str) -> str:
    """Every column of every goal given, whatever stood there."""
    changed = ", ".join(f"{name} = EXCLUDED.{name}" for name, _ in GOAL_COLUMNS[1:])
    return (
        f"INSERT INTO views.goals{suffix} ({_names(GOAL_COLUMNS)}) SELECT * FROM {_unnest(GOAL_COLUMNS)} "  # noqa: S608
        f"ON CONFLICT (goal_id) DO UPDATE SET {changed}"
    )


def insert_candidates(suffix: str) -> str:
    """Rows of new candidates."""
    return (
        f"INSERT INTO views.candidates{suffix} ({_names(PROPOSAL_COLUMNS)}) "  # noqa: S608
        f"SELECT * FROM {_unnest(PROPOSAL_COLUMNS)} ON CONFLICT DO NOTHING"
    )


def insert_standings(suffix: str) -> str:
    """Rows of a race."""
    return (
        f"INSERT INTO views.standings{suffix} ({_names(STANDING_COLUMNS)}) "  # noqa: S608
        f"SELECT * FROM {_unnest(STANDING_COLUMNS)} ON CONFLICT DO NOTHING"
    )


CROWN = "UPDATE views.standings{suffix} SET champion = true WHERE goal_id = $1 AND candidate_id = $2"


def move_candidates(suffix: str) -> str:
    """Columns that are not null replace what stood there."""
    columns = (("candidate_id", "uuid"), *MOVE_COLUMNS)
    changed = ", ".join(f"{name} = COALESCE(moved.{name}, row.{name})" for name, _ in MOVE_COLUMNS)
    return (
        f"UPDATE views.candidates{suffix} AS row SET {changed} "  # noqa: S608
        f"FROM {_unnest(columns)} AS moved ({_names(columns)}) WHERE row.candidate_id = moved.candidate_id"
    )


GOALS = """
SELECT * FROM views.goals WHERE $1::text IS NULL OR goal_id = $1
ORDER BY accepted_at DESC, goal_id LIMIT $2 OFFSET $3
"""

CANDIDATES = """
SELECT * FROM views.candidates
WHERE ($1::text IS NULL OR goal_id = $1) AND ($2::uuid IS NULL OR candidate_id = $2)
  AND ($3::text IS NULL OR status = $3)
ORDER BY goal_id, generation, search_ratio DESC NULLS LAST, proposed_at, candidate_id
LIMIT $4 OFFSET $5
"""

CANDIDATES_NAMED = """
SELECT * FROM views.candidates WHERE candidate_id::text LIKE $1 || '%' ORDER BY proposed_at, candidate_id LIMIT $2
"""
"""By the first digits of their ids."""
