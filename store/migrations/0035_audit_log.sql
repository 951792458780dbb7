-- Who did what to which run or prompt, when. Rows are added before anything is done, and told once how it ended.
CREATE TABLE audit_log (
    number   bigserial PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    who      text NOT NULL,
    through  text NOT NULL,
    role     text,
    team     text,
    action   text NOT NULL,
    run_id   text,
    prompt   text,
    subject  text,
    outcome  text CHECK (outcome IN ('done', 'refused', 'unknown')),
    ended_at timestamptz,
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
COMMENT ON TABLE audit_log IS 'Everything that somebody changed. No text of a prompt, a sample or an answer, and no secret is in it.';
COMMENT ON COLUMN audit_log.who IS 'The name of a token, or local for who works at the command line.';
COMMENT ON COLUMN audit_log.through IS 'How that is known: by which token, or by which operating system user.';
COMMENT ON COLUMN audit_log.team IS 'The token''s; nothing for admins and for what is done locally.';
COMMENT ON COLUMN audit_log.run_id IS 'No foreign key: the log outlives the run.';
COMMENT ON COLUMN audit_log.subject IS 'What else it was done to: the name of a token, the id of a dataset.';
COMMENT ON COLUMN audit_log.outcome IS 'Missing while it is under way, and where whoever did it died. unknown: it was asked for, and may yet take effect.';
CREATE INDEX audit_log_of_run ON audit_log (run_id, number DESC);

CREATE FUNCTION audit_log_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.outcome IS NULL AND NEW.outcome IS NOT NULL
        AND (NEW.number, NEW.at, NEW.who, NEW.through, NEW.action) = (OLD.number, OLD.at, OLD.who, OLD.through, OLD.action)
        AND (NEW.role, NEW.team, NEW.subject) IS NOT DISTINCT FROM (OLD.role, OLD.team, OLD.subject)
        AND coalesce(OLD.run_id, NEW.run_id) IS NOT DISTINCT FROM NEW.run_id
        AND coalesce(OLD.prompt, NEW.prompt) IS NOT DISTINCT FROM NEW.prompt
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the audit log is append-only: entry % stays as it is', OLD.number;
END $$;
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_is_only_added_to();
