-- What a first look at the baseline's answers has found, and what plug-ins print.
ALTER TABLE runs ADD COLUMN first_look jsonb;
COMMENT ON COLUMN runs.first_look IS 'Three answers of the baseline, and what is probably wrong with how they are measured.';

ALTER TABLE answers ADD COLUMN printed text;
COMMENT ON COLUMN answers.printed IS 'The end of what the target printed, where it is code of the user''s.';
ALTER TABLE scores ADD COLUMN printed text;
COMMENT ON COLUMN scores.printed IS 'The same of the scorers.';

CREATE OR REPLACE VIEW outcomes AS
SELECT a.config_hash, a.target, s.scorer, a.run_id, a.item_hash, a.replicate, a.answer_id, a.trial_id, s.scored_by, a.reused_from,
       CASE WHEN a.status = 'failed' OR s.fault = 'answer' THEN 'failed' WHEN s.fault = 'scorer' THEN 'unscored'
            ELSE 'answered' END AS status,
       s.passed, s.scores, s.details AS score_details, s.feedback, a.output, coalesce(a.error, s.error) AS error,
       coalesce(a.error_class, s.error_class) AS error_class, a.tokens + coalesce(s.tokens, 0) AS tokens,
       a.cost + coalesce(s.cost, 0) AS cost, coalesce(s.tokens, 0) AS scoring_tokens, coalesce(s.cost, 0) AS scoring_cost,
       a.latency_ms, a.ttft_ms, a.trace, s.created_at, nullif(concat_ws(E'\n', a.printed, s.printed), '') AS printed
FROM answers a JOIN scores s USING (answer_id);
