-- What went wrong, by class, so that it can be counted without reading every message.

ALTER TABLE outcomes ADD COLUMN error_class text;
COMMENT ON COLUMN outcomes.error_class IS 'Of a failed answer: timeout, http 400, raised ValueError.';

ALTER TABLE trials ADD COLUMN errors jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN trials.errors IS 'How many answers failed or are missing, by the class of the error.';

CREATE OR REPLACE VIEW trial_overview AS
SELECT t.run_id, t.round, t.index, t.purpose, t.candidate_id, t.status, t.score, t.score - r.baseline_score AS gain,
       t.candidate_id IS NOT DISTINCT FROM r.best_candidate_id AS is_best,
       t.passed, t.total, t.coverage, t.paid_samples, t.paid_tokens, t.paid_cost,
       coalesce(t.finished_at, now()) - t.started_at AS took,
       c.parent_candidate_ids AS parents, c.rationale, t.stopped_early, t.error, left(t.config_hash, 8) AS config, t.trial_id,
       t.errors
FROM trials t
JOIN runs r USING (run_id)
JOIN candidates c USING (run_id, candidate_id)
ORDER BY t.run_id, t.purpose = 'confirmation', t.round, t.index;
