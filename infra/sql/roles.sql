-- Who may do what. Idempotent; run by the bootstrap job before every migration.
--
--   assay_owner     owns the log and can never log in, so no service can lift the triggers
--   assay_recorder  the librarian: appends to the log, moves its head, owns the views
--   assay_reader    proposer and console: reads everything, changes nothing
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'assay_owner') THEN
        CREATE ROLE assay_owner NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'assay_recorder') THEN
        CREATE ROLE assay_recorder LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'assay_reader') THEN
        CREATE ROLE assay_reader LOGIN;
    END IF;
    -- A managed Postgres gives the administrator no superuser: only a member may hand objects to a role.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT assay_owner, assay_recorder TO %I', current_user);
    END IF;
END
$$;
