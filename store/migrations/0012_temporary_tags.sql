-- Temporary tags of prompts leave nothing behind when they are deleted.

CREATE OR REPLACE FUNCTION prompts_are_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'prompt_changes' AND (to_jsonb(OLD) -> 'state' ->> 'temporary')::boolean THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'rows of % are only added, never changed', TG_TABLE_NAME;
END
$$;
COMMENT ON TABLE prompt_changes IS 'Every state that a tag of a prompt ever had; rows are only added, but for temporary tags.';
