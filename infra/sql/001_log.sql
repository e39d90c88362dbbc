-- The log (architecture.md, The log). `raw` is the truth, `hash` chains it, every other column is derived from it.

CREATE TABLE events (
    position       bigint PRIMARY KEY CHECK (position > 0),  -- gapless: given by the recorder under the head's lock,
                                                             -- never by a sequence, whose order is not commit order
    origin         uuid NOT NULL,
    epoch          text NOT NULL,
    stream_seq     bigint NOT NULL,
    event_id       uuid,                                     -- this and the following are null when raw is no fact
    type           text,
    subject        text NOT NULL,
    source         text,
    goal_id        text,
    candidate_id   uuid,
    generation     bigint,
    island         bigint,
    correlation_id uuid,
    causation_id   uuid,
    occurred_at    timestamptz,
    recorded_at    timestamptz NOT NULL,
    raw            bytea NOT NULL,
    data           jsonb,
    hash           bytea NOT NULL CHECK (octet_length(hash) = 32),
    UNIQUE (origin, epoch, stream_seq),
    UNIQUE (origin, event_id)
);
-- A fact of up to 8 kB stays in its page as it is: compressing raw and data took a third of the time of an insert.
ALTER TABLE events SET (toast_tuple_target = 8160);
CREATE INDEX events_by_goal ON events (goal_id, position) WHERE goal_id IS NOT NULL;
CREATE INDEX events_by_type ON events (type, position) WHERE type IS NOT NULL;
CREATE INDEX events_by_candidate ON events (candidate_id, position) WHERE candidate_id IS NOT NULL;
CREATE INDEX events_by_cause ON events (causation_id, position) WHERE causation_id IS NOT NULL;

-- Where the log ends. One row, locked FOR UPDATE by the one recorder in every append.
CREATE TABLE head (
    id         smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    origin     uuid NOT NULL DEFAULT gen_random_uuid(),      -- names this database in every hash
    position   bigint NOT NULL DEFAULT 0,
    epoch      text NOT NULL DEFAULT '',
    stream_seq bigint NOT NULL DEFAULT 0,
    hash       bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
);
INSERT INTO head DEFAULT VALUES;

-- Stream sequences that are no rows of events, because their id was recorded before.
CREATE TABLE duplicates (
    epoch       text NOT NULL,
    stream_seq  bigint NOT NULL,
    event_id    uuid NOT NULL,
    body_sha256 text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('same_body', 'divergent')),
    PRIMARY KEY (epoch, stream_seq)
);

-- Append-only in depth: even the owner is refused. ALWAYS: session_replication_role does not switch these off.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege', HINT = 'State a new fact instead.';
END
$$;
CREATE FUNCTION refuse_retreat() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.origin <> OLD.origin OR NEW.position < OLD.position THEN
        RAISE EXCEPTION 'the head of the log only advances'
            USING ERRCODE = 'insufficient_privilege', HINT = 'State a new fact instead.';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON duplicates FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON duplicates FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER only_advances BEFORE UPDATE ON head FOR EACH ROW EXECUTE FUNCTION refuse_retreat();
CREATE TRIGGER append_only BEFORE DELETE ON head FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON head FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE events ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE events ENABLE ALWAYS TRIGGER append_only_whole;
ALTER TABLE duplicates ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE duplicates ENABLE ALWAYS TRIGGER append_only_whole;
ALTER TABLE head ENABLE ALWAYS TRIGGER only_advances;
ALTER TABLE head ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE head ENABLE ALWAYS TRIGGER append_only_whole;

-- Folds of the log: droppable, rebuilt side by side, owned by the librarian.
CREATE SCHEMA views AUTHORIZATION assay_recorder;

GRANT USAGE, CREATE ON SCHEMA public TO assay_owner;  -- an owner must be able to create where its objects are
ALTER TABLE events OWNER TO assay_owner;
ALTER TABLE head OWNER TO assay_owner;
ALTER TABLE duplicates OWNER TO assay_owner;
ALTER FUNCTION refuse_change() OWNER TO assay_owner;
ALTER FUNCTION refuse_retreat() OWNER TO assay_owner;

GRANT SELECT, INSERT ON events, duplicates TO assay_recorder;
GRANT SELECT, UPDATE ON head TO assay_recorder;
GRANT SELECT ON events, head, duplicates, schema_version TO assay_reader;
GRANT SELECT ON schema_version TO assay_recorder;
GRANT USAGE ON SCHEMA views TO assay_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE assay_recorder IN SCHEMA views GRANT SELECT ON TABLES TO assay_reader;
