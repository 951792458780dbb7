-- Each answer's scores are looked up by their key. Left to choose, PostgreSQL compares all answers of a sample with all scores
-- there are, as long as it has no statistics of them: 8 ms a trial in place of 0.3, and more with every answer.
CREATE OR REPLACE VIEW outcomes AS
SELECT a.config_hash, a.target, s.scorer, a.run_id, a.item_hash, a.replicate, a.answer_id, a.trial_id, s.scored_by, a.reused_from,
       CASE WHEN a.status = 'failed' OR s.fault = 'answer' THEN 'failed' WHEN s.fault = 'scorer' THEN 'unscored'
            ELSE 'answered' END AS status,
       s.passed, s.scores, s.details AS score_details, s.feedback, a.output, coalesce(a.error, s.error) AS error,
       coalesce(a.error_class, s.error_class) AS error_class, a.tokens + coalesce(s.tokens, 0) AS tokens,
       a.cost + coalesce(s.cost, 0) AS cost, coalesce(s.tokens, 0) AS scoring_tokens, coalesce(s.cost, 0) AS scoring_cost,
       a.latency_ms, a.ttft_ms, a.trace, s.created_at, nullif(concat_ws(E'\n', a.printed, s.printed), '') AS printed,
       coalesce(a.echoed, false) AS echoed
FROM answers a CROSS JOIN LATERAL (SELECT * FROM scores WHERE scores.answer_id = a.answer_id OFFSET 0) s;
