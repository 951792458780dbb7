-- What proposers were asked, and what was proposed and kept out. No decision reads it.
ALTER TABLE model_answers ADD COLUMN asked json;
COMMENT ON COLUMN model_answers.asked IS 'The messages of the request, bounded and without secrets, or what an activity was told; a content, encrypted where there are keys.';
ALTER TABLE model_answers ADD COLUMN asked_of text;
COMMENT ON COLUMN model_answers.asked_of IS 'The model, or the type of the activity.';

ALTER TABLE proposals ADD COLUMN asked json;
COMMENT ON COLUMN proposals.asked IS 'What a plug-in was called with, bounded and without secrets; a content. What models and activities were asked is with each of their answers.';
ALTER TABLE proposals ADD COLUMN asked_of text;
COMMENT ON COLUMN proposals.asked_of IS 'The plug-in, the model or the activity.';
ALTER TABLE proposals ADD COLUMN proposed_hash text;
COMMENT ON COLUMN proposals.proposed_hash IS 'sha256 of the whole configuration that was proposed.';

ALTER TABLE rejections ADD COLUMN proposed_hash text;
COMMENT ON COLUMN rejections.proposed_hash IS 'sha256 of the whole configuration that was kept out, also where it is none that could be tried.';

CREATE TABLE proposed_configurations (
    run_id        text NOT NULL REFERENCES runs ON DELETE CASCADE,
    proposed_hash text NOT NULL,
    configuration json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, proposed_hash)
);
COMMENT ON TABLE proposed_configurations IS 'What users'' optimizers proposed, whether it was let in or not.';
COMMENT ON COLUMN proposed_configurations.configuration IS 'A content.';
