-- Tokens that came from a provider's cache, which cost less: of those that an answer, a score or a proposal took.
ALTER TABLE answers ADD COLUMN cached_tokens bigint;
ALTER TABLE scores ADD COLUMN cached_tokens bigint;
ALTER TABLE model_answers ADD COLUMN cached_tokens bigint;
ALTER TABLE trials ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cached_tokens bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN answers.cached_tokens IS 'Of the tokens, those that came from a provider''s cache. NULL where none did.';
COMMENT ON COLUMN trials.cached_tokens IS 'Of paid_tokens, those that came from a provider''s cache.';
COMMENT ON COLUMN runs.cached_tokens IS 'Of paid_tokens, those that came from a provider''s cache.';

CREATE OR REPLACE VIEW outcomes AS
SELECT a.config_hash, a.target, s.scorer, a.run_id, a.item_hash, a.replicate, a.answer_id, a.trial_id, s.scored_by, a.reused_from,
       CASE WHEN a.status = 'failed' OR s.fault = 'answer' THEN 'failed' WHEN s.fault = 'scorer' THEN 'unscored'
            ELSE 'answered' END AS status,
       s.passed, s.scores, s.details AS score_details, s.feedback, a.output, coalesce(a.error, s.error) AS error,
       coalesce(a.error_class, s.error_class) AS error_class, a.tokens + coalesce(s.tokens, 0) AS tokens,
       a.cost + coalesce(s.cost, 0) AS cost, coalesce(s.tokens, 0) AS scoring_tokens, coalesce(s.cost, 0) AS scoring_cost,
       a.latency_ms, a.ttft_ms, a.trace, s.created_at, nullif(concat_ws(E'\n', a.printed, s.printed), '') AS printed,
       coalesce(a.echoed, false) AS echoed, coalesce(a.texts_removed, false) AS texts_removed,
       coalesce(a.cached_tokens, 0) + coalesce(s.cached_tokens, 0) AS cached_tokens,
       coalesce(s.cached_tokens, 0) AS scoring_cached_tokens
FROM answers a CROSS JOIN LATERAL (SELECT * FROM scores WHERE scores.answer_id = a.answer_id OFFSET 0) s;

CREATE OR REPLACE VIEW run_overview AS
SELECT r.run_id, r.status, r.stop_reason, r.round, r.baseline_score, r.best_score, r.best_score - r.baseline_score AS gain,
       r.best_candidate_id, r.direction, r.proposed,
       (SELECT count(*) FROM trials t WHERE t.run_id = r.run_id AND t.status = 'running') AS running,
       r.completed, r.failed, r.rejected, r.stopped, r.paid_samples, r.paid_tokens, r.paid_cost,
       r.started_at, coalesce(r.finished_at, now()) - r.started_at AS took, r.message, r.cached_tokens
FROM runs r
ORDER BY r.started_at DESC;

CREATE OR REPLACE VIEW trial_overview AS
SELECT t.run_id, t.round, t.index, t.purpose, t.candidate_id, t.status, t.score, t.score - r.baseline_score AS gain,
       t.candidate_id IS NOT DISTINCT FROM r.best_candidate_id AS is_best,
       t.passed, t.total, t.coverage, t.paid_samples, t.paid_tokens, t.paid_cost,
       coalesce(t.finished_at, now()) - t.started_at AS took,
       c.parent_candidate_ids AS parents, c.rationale, t.stopped_early, t.error, t.errors, left(t.config_hash, 8) AS config,
       t.trial_id, t.cached_tokens
FROM trials t
JOIN runs r USING (run_id)
JOIN candidates c USING (run_id, candidate_id)
ORDER BY t.run_id, t.purpose = 'confirmation', t.round, t.index;
