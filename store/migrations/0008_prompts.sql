-- Prompts: what `ratchet.prompts` keeps in PostgreSQL. Read `prompts_in_force` with psql.

CREATE TABLE prompt_templates (
    name          text NOT NULL,
    template_hash text NOT NULL,
    template      json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, template_hash)
);
COMMENT ON TABLE prompt_templates IS 'Prompts as their authors wrote them, immutable, by namespace/key and hash.';

CREATE TABLE prompt_changes (
    name          text NOT NULL,
    tag           text NOT NULL,
    revision      integer NOT NULL,
    change_id     text NOT NULL,
    action        text NOT NULL,
    version       text,
    template_hash text NOT NULL,
    config_hash   text NOT NULL,
    deleted       boolean NOT NULL,
    changed_by    text NOT NULL,
    why           text NOT NULL,
    changed_at    timestamptz NOT NULL,
    state         json NOT NULL,
    PRIMARY KEY (name, tag, revision),
    FOREIGN KEY (name, template_hash) REFERENCES prompt_templates
);
COMMENT ON TABLE prompt_changes IS 'Every state that a tag of a prompt ever had; rows are only added.';
COMMENT ON COLUMN prompt_changes.config_hash IS 'sha256 of the full configuration in force.';
COMMENT ON COLUMN prompt_changes.state IS 'The TagState in full, evidence and overrides included.';

CREATE TABLE prompt_tags (
    name     text NOT NULL,
    tag      text NOT NULL,
    revision integer NOT NULL,
    PRIMARY KEY (name, tag),
    FOREIGN KEY (name, tag, revision) REFERENCES prompt_changes
);
COMMENT ON TABLE prompt_tags IS 'Where each tag is: moved by compare-and-swap on its revision, together with the change that it came by.';

CREATE TABLE prompt_versions (
    name     text NOT NULL,
    version  text NOT NULL,
    tag      text NOT NULL,
    revision integer NOT NULL,
    PRIMARY KEY (name, version),
    FOREIGN KEY (name, tag, revision) REFERENCES prompt_changes
);
COMMENT ON TABLE prompt_versions IS 'Immutable versions of prompts, and the change that introduced each.';

CREATE FUNCTION prompts_are_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are only added, never changed', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE ON prompt_templates
    FOR EACH ROW EXECUTE FUNCTION prompts_are_only_added_to();
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE ON prompt_changes
    FOR EACH ROW EXECUTE FUNCTION prompts_are_only_added_to();
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE ON prompt_versions
    FOR EACH ROW EXECUTE FUNCTION prompts_are_only_added_to();

CREATE VIEW prompts_in_force AS
SELECT c.name, c.tag, c.revision, c.version, left(c.config_hash, 12) AS config, c.action, c.changed_by, c.why, c.changed_at
FROM prompt_tags JOIN prompt_changes c USING (name, tag, revision)
WHERE NOT c.deleted
ORDER BY c.name, c.tag;
COMMENT ON VIEW prompts_in_force IS 'What every tag of every prompt stands for now.';
