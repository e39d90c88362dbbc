-- Copies of other logs. Their facts are rows of events under their own origin, chained here like any other; what they
-- were there, byte for byte, is kept beside them, so that the other log can be verified as it stood.

CREATE TABLE imported (
    position        bigint PRIMARY KEY,                      -- here, in events
    origin          uuid NOT NULL,
    origin_position bigint NOT NULL CHECK (origin_position > 0),
    recorded_at     timestamptz NOT NULL,                    -- there
    previous        bytea NOT NULL CHECK (octet_length(previous) = 32),
    hash            bytea NOT NULL CHECK (octet_length(hash) = 32),
    UNIQUE (origin, origin_position)
);

-- One row per export that was taken in: where the other log ended then.
CREATE TABLE imports (
    origin        uuid NOT NULL,
    head_position bigint NOT NULL,
    head_hash     bytea NOT NULL CHECK (octet_length(head_hash) = 32),
    epoch         text NOT NULL,
    stream_seq    bigint NOT NULL,
    imported_at   timestamptz NOT NULL,
    PRIMARY KEY (origin, head_position)
);

CREATE TABLE imported_duplicates (
    origin      uuid NOT NULL,
    epoch       text NOT NULL,
    stream_seq  bigint NOT NULL,
    event_id    uuid NOT NULL,
    body_sha256 text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('same_body', 'divergent')),
    PRIMARY KEY (origin, epoch, stream_seq)
);

DO $$
DECLARE
    copied text;
BEGIN
    FOREACH copied IN ARRAY ARRAY['imported', 'imports', 'imported_duplicates'] LOOP
        EXECUTE format(
            'CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', copied);
        EXECUTE format(
            'CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', copied);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER append_only', copied);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER append_only_whole', copied);
        EXECUTE format('ALTER TABLE %I OWNER TO assay_owner', copied);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO assay_recorder', copied);
        EXECUTE format('GRANT SELECT ON %I TO assay_reader', copied);
    END LOOP;
END
$$;
