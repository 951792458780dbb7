ALTER TABLE trials ADD COLUMN experiment_id text;
COMMENT ON COLUMN trials.experiment_id IS 'The external runner''s experiment, once it was triggered; a trial never has two.';

CREATE VIEW suite_items AS
SELECT drawn.run_id, drawn.split, drawn.position, s.item_id AS id, s.input, s.expected, s.weight, s.tags
FROM suite_samples drawn
JOIN suites suite USING (run_id, split)
JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash;
COMMENT ON VIEW suite_items IS 'The samples of a run''s splits, for external runners that are told where they are: ORDER BY position.';
