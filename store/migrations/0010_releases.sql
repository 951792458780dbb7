-- What was released, by whom, why, and with which evidence.

CREATE TABLE releases (
    number       bigserial UNIQUE,
    release_id   text PRIMARY KEY,
    prompt       text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('promote', 'canary', 'rollback')),
    tag          text NOT NULL,
    status       text NOT NULL CHECK (status IN
        ('pending', 'accepted', 'released', 'unchanged', 'rejected', 'expired', 'stale_base', 'failed')),
    message      text NOT NULL DEFAULT '',
    validated_on text NOT NULL,
    base_hash    text NOT NULL REFERENCES overlays,
    base_version text,
    overlay_hash text NOT NULL REFERENCES overlays,
    version      text,
    change_class text CHECK (change_class IN ('patch', 'minor', 'major')),
    changes      jsonb NOT NULL DEFAULT '{}',
    run_id       text,
    candidate_id text,
    asked_by     text NOT NULL,
    asked_at     timestamptz NOT NULL,
    reason       text NOT NULL,
    evidence     jsonb NOT NULL,
    approvers    text[] NOT NULL,
    deadline_at  timestamptz,
    remind_at    timestamptz,
    decided_by   text,
    decided_at   timestamptz,
    comment      text NOT NULL DEFAULT '',
    first_template json,
    CHECK ((decided_at IS NULL) = (status IN ('pending', 'accepted')))
);
COMMENT ON TABLE releases IS 'The audit log: one row per release that was asked for. Once decided, a row never changes.';
COMMENT ON COLUMN releases.status IS 'pending waits for approval; accepted is being carried out; the others are final.';
COMMENT ON COLUMN releases.tag IS 'The tag that moves.';
COMMENT ON COLUMN releases.validated_on IS 'The tag that base_hash was at: the same, or what a canary is a canary of.';
COMMENT ON COLUMN releases.base_hash IS 'What the candidate was compared with; for a rollback, what it replaces.';
COMMENT ON COLUMN releases.first_template IS 'What a prompt that is not there yet begins with.';
COMMENT ON COLUMN releases.run_id IS 'No foreign key: the audit log outlives the run.';
CREATE INDEX releases_of_prompt ON releases (prompt, number DESC);
CREATE INDEX releases_of_run ON releases (run_id, number DESC);
CREATE INDEX releases_of_overlay ON releases (overlay_hash);
CREATE INDEX releases_of_base ON releases (base_hash);

CREATE FUNCTION releases_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decided_at IS NOT NULL THEN
        RAISE EXCEPTION 'the audit log is append-only: release % is decided', OLD.release_id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER releases_are_final BEFORE UPDATE OR DELETE ON releases FOR EACH ROW EXECUTE FUNCTION releases_are_final();

ALTER TABLE events DROP CONSTRAINT events_type_check;
ALTER TABLE events ADD CONSTRAINT events_type_check CHECK (type IN
    ('run_status_changed', 'progress_changed', 'trial_added_or_updated', 'best_candidate_changed', 'run_finished',
     'release_changed', 'approval_due'));
