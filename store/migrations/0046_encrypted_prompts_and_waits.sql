-- Rows that never change may have their contents encrypted, or encrypted with another key: what they say stays the same.
CREATE FUNCTION is_encrypted(before text, after text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT after IS NOT DISTINCT FROM before OR before IS NOT NULL AND coalesce(after ~ '^\{"\$encrypted": ?"', false)
$$;
COMMENT ON FUNCTION is_encrypted IS 'Whether JSON is what it was, or encrypted by now.';

CREATE OR REPLACE FUNCTION prompts_are_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    same record;
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'prompt_changes' AND (to_jsonb(OLD) -> 'state' ->> 'temporary')::boolean THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'prompt_templates' THEN
        same := NEW;
        same.template := OLD.template;
        IF same::text = OLD::text AND is_encrypted(OLD.template::text, NEW.template::text) THEN
            RETURN NEW;
        END IF;
    ELSIF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'prompt_changes' THEN
        same := NEW;
        same.state := OLD.state;
        IF same::text = OLD::text AND is_encrypted(OLD.state::text, NEW.state::text) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'rows of % are only added, never changed', TG_TABLE_NAME;
END
$$;

CREATE OR REPLACE FUNCTION releases_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    same record;
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.decided_at IS NOT NULL THEN
        same := NEW;
        same.changes := OLD.changes;
        same.first_template := OLD.first_template;
        IF same::text = OLD::text AND is_encrypted(OLD.changes::text, NEW.changes::text)
            AND is_encrypted(OLD.first_template::text, NEW.first_template::text)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    IF TG_OP = 'DELETE' OR OLD.decided_at IS NOT NULL THEN
        RAISE EXCEPTION 'the audit log is append-only: release % is decided', OLD.release_id;
    END IF;
    RETURN NEW;
END $$;

COMMENT ON COLUMN prompt_templates.template IS 'A content: encrypted where there are keys.';
COMMENT ON COLUMN prompt_changes.state IS 'The TagState in full, evidence and overrides included; a content, of which temporary stays readable.';

-- What a run waits for whose team's month covers no call now, while others of the team hold what may come back.
ALTER TABLE budget_leases ADD COLUMN team_rest jsonb;
COMMENT ON COLUMN budget_leases.team_rest IS 'What was left of the team''s month when it was last asked, and that was too little; NULL once it gave something.';
