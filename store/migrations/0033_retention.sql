-- What is removed after a while, what is held back from that, and what was removed.

ALTER TABLE answers ADD COLUMN texts_removed boolean;
COMMENT ON COLUMN answers.texts_removed IS 'Output, error, trace and what was printed are gone, by a policy; NULL where nothing was removed.';
ALTER TABLE model_answers ADD COLUMN texts_removed boolean;
COMMENT ON COLUMN model_answers.texts_removed IS 'The text is gone, by a policy; what it took is still counted.';

-- It finds the answers of a run, which lie together as they were stored together, and costs inserts nothing that can be
-- measured: it has a few bytes for every 64 pages.
CREATE INDEX answers_of_run ON answers USING brin (run_id text_bloom_ops (n_distinct_per_range = 64))
    WITH (pages_per_range = 64, autosummarize = on);

-- A fifth of a large table, the default, is too much to wait for: neither index nor space would be fit to be used again.
ALTER TABLE answers SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE scores SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE legal_holds (
    number    bigserial PRIMARY KEY,
    run_id    text NOT NULL,
    label     text NOT NULL,
    reason    text NOT NULL DEFAULT '',
    set_by    text NOT NULL,
    through   text NOT NULL,
    set_at    timestamptz NOT NULL DEFAULT now(),
    lifted_by text,
    lifted_at timestamptz,
    CHECK ((lifted_by IS NULL) = (lifted_at IS NULL))
);
COMMENT ON TABLE legal_holds IS 'Runs of which nothing may be removed, by no policy and by nobody. Rows are only added and lifted, and outlive the runs.';
COMMENT ON COLUMN legal_holds.label IS 'What it is held for, e.g. legal or audit-2026; a run may be held for several things.';
COMMENT ON COLUMN legal_holds.through IS 'How set_by was established: the operating system''s user.';
CREATE UNIQUE INDEX legal_holds_in_force ON legal_holds (run_id, label) WHERE lifted_at IS NULL;

CREATE TABLE removals (
    number   bigserial PRIMARY KEY,
    run_id   text NOT NULL,
    kind     text NOT NULL CHECK (kind IN ('texts', 'answers', 'runs')),
    policy   text NOT NULL,
    began_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    answers  bigint NOT NULL DEFAULT 0,
    bytes    bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE removals IS 'What policies have removed. It has no foreign key: it outlives the runs.';
COMMENT ON COLUMN removals.policy IS 'The rule that it was removed by, e.g. texts=30d.';
COMMENT ON COLUMN removals.ended_at IS 'NULL while there is more to be removed; the next cleanup goes on.';
COMMENT ON COLUMN removals.bytes IS 'About how many, as they were measured before.';
CREATE UNIQUE INDEX removals_under_way ON removals (run_id, kind) WHERE ended_at IS NULL;
CREATE INDEX removals_of_run ON removals (run_id);

CREATE TABLE run_sizes (
    run_id       text PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    answers      bigint NOT NULL,
    text_bytes   bigint NOT NULL,
    answer_bytes bigint NOT NULL,
    measured_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE run_sizes IS 'What the answers of runs that are over take, measured once, where there is a policy.';
COMMENT ON COLUMN run_sizes.text_bytes IS 'Of what is removed with the texts, as it is stored.';
COMMENT ON COLUMN run_sizes.answer_bytes IS 'Of the rest of answers and scores, indexes included; about.';

CREATE OR REPLACE VIEW outcomes AS
SELECT a.config_hash, a.target, s.scorer, a.run_id, a.item_hash, a.replicate, a.answer_id, a.trial_id, s.scored_by, a.reused_from,
       CASE WHEN a.status = 'failed' OR s.fault = 'answer' THEN 'failed' WHEN s.fault = 'scorer' THEN 'unscored'
            ELSE 'answered' END AS status,
       s.passed, s.scores, s.details AS score_details, s.feedback, a.output, coalesce(a.error, s.error) AS error,
       coalesce(a.error_class, s.error_class) AS error_class, a.tokens + coalesce(s.tokens, 0) AS tokens,
       a.cost + coalesce(s.cost, 0) AS cost, coalesce(s.tokens, 0) AS scoring_tokens, coalesce(s.cost, 0) AS scoring_cost,
       a.latency_ms, a.ttft_ms, a.trace, s.created_at, nullif(concat_ws(E'\n', a.printed, s.printed), '') AS printed,
       coalesce(a.echoed, false) AS echoed, coalesce(a.texts_removed, false) AS texts_removed
FROM answers a CROSS JOIN LATERAL (SELECT * FROM scores WHERE scores.answer_id = a.answer_id OFFSET 0) s;
