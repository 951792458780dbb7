-- Answers and scores apart, each by the fingerprint of what made it: another scorer asks no target again.

CREATE SEQUENCE answer_ids INCREMENT BY 16777216;
COMMENT ON SEQUENCE answer_ids IS 'Whoever answers a shard takes one, and counts on from it: so it knows an answer before that is stored.';

CREATE TABLE answers (
    answer_id   bigint NOT NULL,
    tokens      bigint NOT NULL,
    cost        double precision NOT NULL,
    latency_ms  double precision,
    ttft_ms     double precision,
    created_at  timestamptz NOT NULL DEFAULT now(),
    replicate   integer NOT NULL,
    config_hash text NOT NULL,
    target      text NOT NULL,
    run_id      text NOT NULL,
    item_hash   text NOT NULL,
    trial_id    text NOT NULL,
    reused_from text,
    status      text NOT NULL CHECK (status IN ('answered', 'failed')),
    output      json,
    error       text,
    error_class text,
    trace       json,
    PRIMARY KEY (config_hash, target, run_id, item_hash, replicate)
);
COMMENT ON TABLE answers IS 'What targets answered, immutable: the first one committed wins. They have no foreign key to the run, which would cost each a lookup.';
COMMENT ON COLUMN answers.target IS 'Fingerprint of the target, its plug-in sources, the prompt that it renders and the flags that it is told.';
COMMENT ON COLUMN answers.trial_id IS 'The trial that asked for it.';
COMMENT ON COLUMN answers.reused_from IS 'The run that paid for this answer, when this one did not.';
COMMENT ON COLUMN answers.status IS 'failed is the candidate''s fault: the target raised, refused, took too long or gave unusable output.';
COMMENT ON COLUMN answers.error_class IS 'Of a failed answer: timeout, http 400, raised ValueError.';

CREATE TABLE scores (
    answer_id   bigint NOT NULL,
    tokens      bigint,
    cost        double precision,
    created_at  timestamptz NOT NULL DEFAULT now(),
    passed      boolean NOT NULL,
    scorer      text NOT NULL,
    scored_by   text,
    fault       text CHECK (fault IN ('answer', 'scorer')),
    error       text,
    error_class text,
    scores      jsonb NOT NULL,
    details     jsonb,
    feedback    text NOT NULL,
    PRIMARY KEY (answer_id, scorer)
);
COMMENT ON TABLE scores IS 'What scorers made of an answer. An answer without a row here waits for its score.';
COMMENT ON COLUMN scores.scorer IS 'Fingerprint of the scorers and their plug-in sources.';
COMMENT ON COLUMN scores.tokens IS 'What scoring took, where that cost anything; likewise cost.';
COMMENT ON COLUMN scores.scored_by IS 'The trial that paid for the score alone, when it is not the one that asked for the answer in this run.';
COMMENT ON COLUMN scores.fault IS 'Why there is no score. answer: no scorer can take it, which is the candidate''s failure. scorer: the scorer raised.';
COMMENT ON COLUMN scores.details IS 'For each score: passed and reason, as the scorer gave them.';

INSERT INTO answers (answer_id, tokens, cost, latency_ms, ttft_ms, created_at, replicate, config_hash, target, run_id, item_hash,
                     trial_id, reused_from, status, output, error, error_class, trace)
SELECT row_number() OVER (), tokens, cost, latency_ms, ttft_ms, created_at, replicate, config_hash, evaluator, run_id, item_hash,
       trial_id, reused_from, status, output, error, error_class, trace
FROM (
    SELECT o.config_hash, o.evaluator, o.run_id, o.item_hash, o.replicate, o.trial_id, o.reused_from, o.status, o.output, o.error,
           o.error_class, o.tokens - scoring.tokens AS tokens, greatest(o.cost - scoring.cost, 0) AS cost, o.latency_ms,
           o.ttft_ms, o.trace, o.created_at
    FROM outcomes o CROSS JOIN LATERAL (
        SELECT coalesce(sum((value ->> 'tokens')::bigint), 0) AS tokens, coalesce(sum((value ->> 'cost')::float8), 0) AS cost
        FROM jsonb_each(o.score_details)
    ) scoring
    UNION ALL
    SELECT config_hash, evaluator, run_id, item_hash, replicate, trial_id, reused_from, 'answered', output, NULL, NULL, tokens,
           cost, latency_ms, ttft_ms, trace, created_at
    FROM unscored_answers
) AS known
ON CONFLICT DO NOTHING;

INSERT INTO scores (answer_id, tokens, cost, created_at, passed, scorer, scored_by, scores, details, feedback)
SELECT a.answer_id, nullif(o.tokens - a.tokens, 0), nullif(o.cost - a.cost, 0), o.created_at, o.passed, o.evaluator, o.scored_by,
       o.scores, o.score_details, o.feedback
FROM outcomes o JOIN answers a
    ON (a.config_hash, a.target, a.run_id, a.item_hash, a.replicate) = (o.config_hash, o.evaluator, o.run_id, o.item_hash, o.replicate);

SELECT setval('answer_ids', (SELECT coalesce(max(answer_id), 0) + 1 FROM answers));

DROP TABLE outcomes;
DROP TABLE unscored_answers;

CREATE VIEW outcomes AS
SELECT a.config_hash, a.target, s.scorer, a.run_id, a.item_hash, a.replicate, a.answer_id, a.trial_id, s.scored_by, a.reused_from,
       CASE WHEN a.status = 'failed' OR s.fault = 'answer' THEN 'failed' WHEN s.fault = 'scorer' THEN 'unscored'
            ELSE 'answered' END AS status,
       s.passed, s.scores, s.details AS score_details, s.feedback, a.output, coalesce(a.error, s.error) AS error,
       coalesce(a.error_class, s.error_class) AS error_class, a.tokens + coalesce(s.tokens, 0) AS tokens,
       a.cost + coalesce(s.cost, 0) AS cost, coalesce(s.tokens, 0) AS scoring_tokens, coalesce(s.cost, 0) AS scoring_cost,
       a.latency_ms, a.ttft_ms, a.trace, s.created_at
FROM answers a JOIN scores s USING (answer_id);
COMMENT ON VIEW outcomes IS 'Answers with what scorers made of them. unscored: the target answered, and the scorer raised.';

ALTER TABLE suites RENAME COLUMN evaluator TO target;
ALTER TABLE suites ADD COLUMN scorer text;
UPDATE suites SET scorer = target, body = body - 'evaluator'
    || jsonb_build_object('target_fingerprint', target, 'scorer_fingerprint', target);
ALTER TABLE suites ALTER COLUMN scorer SET NOT NULL;
COMMENT ON COLUMN suites.target IS 'Fingerprint of what answers; part of every answer''s key.';
COMMENT ON COLUMN suites.scorer IS 'Fingerprint of what scores; part of every score''s key.';
