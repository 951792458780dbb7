-- What people say of runs, candidates and answers. No decision reads it.
CREATE TABLE marks (
    number       bigserial PRIMARY KEY,
    run_id       text NOT NULL REFERENCES runs ON DELETE CASCADE,
    candidate_id text,
    item_id      text,
    replicate    integer,
    kind         text NOT NULL CHECK (kind IN ('pin', 'tag', 'note')),
    text         text NOT NULL DEFAULT '',
    who          text NOT NULL,
    through      text NOT NULL,
    at           timestamptz NOT NULL DEFAULT now(),
    changed_at   timestamptz,
    CHECK ((item_id IS NULL) = (replicate IS NULL)),
    CHECK (item_id IS NULL OR candidate_id IS NOT NULL)
);
COMMENT ON TABLE marks IS 'Pins, tags and notes. They belong to the run: without a candidate to all of it, with a sample and a replicate to one answer.';
COMMENT ON COLUMN marks.text IS 'The tag, or the note, which is a content and encrypted where there are keys; nothing of a pin.';
COMMENT ON COLUMN marks.who IS 'The name of a token, or how its holder is called; through says how that is known.';
CREATE INDEX marks_of_run ON marks (run_id, number);
CREATE UNIQUE INDEX marks_once ON marks (run_id, coalesce(candidate_id, ''), coalesce(item_id, ''), coalesce(replicate, -1), kind, text)
    WHERE kind <> 'note';

-- Candidates are found by how their names or their hashes begin.
CREATE INDEX candidates_by_name ON candidates (candidate_id text_pattern_ops);
CREATE INDEX candidates_by_hash ON candidates (config_hash text_pattern_ops);
