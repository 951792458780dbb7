-- Everything a run leaves behind. Read it with psql: run_overview, trial_overview and factor_changes are made for that.

CREATE TABLE overlays (
    config_hash   text PRIMARY KEY,
    configuration json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE overlays IS 'Configurations, immutable, addressed by their hash. What a trial runs against.';
COMMENT ON COLUMN overlays.config_hash IS 'sha256 of the canonical JSON; also called mask_id.';
COMMENT ON COLUMN overlays.configuration IS 'Every factor with its value: the very text that was hashed, which jsonb would rewrite.';

CREATE TABLE datasets (
    dataset_id text PRIMARY KEY,
    name       text NOT NULL,
    count      integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE datasets IS 'Versions of datasets, immutable, addressed by their content.';
COMMENT ON COLUMN datasets.dataset_id IS 'sha256 over the hashes and ids of the items, in order.';

CREATE TABLE samples (
    dataset_id text NOT NULL REFERENCES datasets ON DELETE CASCADE,
    position   integer NOT NULL,
    item_hash  text NOT NULL,
    item_id    text NOT NULL,
    input      json NOT NULL,
    expected   json NOT NULL,
    weight     double precision NOT NULL,
    tags       text[] NOT NULL,
    PRIMARY KEY (dataset_id, position),
    UNIQUE (dataset_id, item_hash)
);
COMMENT ON TABLE samples IS 'The items of each dataset.';
COMMENT ON COLUMN samples.item_hash IS 'sha256 of input, expected, weight, tags, and of the id where one was given.';
COMMENT ON COLUMN samples.item_id IS 'As given, else the beginning of item_hash.';

CREATE TABLE runs (
    run_id                text PRIMARY KEY,
    name                  text NOT NULL,
    use_case              text NOT NULL,
    experiment            text NOT NULL,
    status                text NOT NULL
        CHECK (status IN ('initialized', 'running', 'paused', 'completed', 'failed', 'cancelled')),
    stop_reason           text,
    message               text NOT NULL DEFAULT '',
    optimizer             text NOT NULL,
    objective             text NOT NULL,
    direction             text NOT NULL,
    dataset_id            text NOT NULL REFERENCES datasets,
    evaluation_suite_id   text NOT NULL,
    search_split          text NOT NULL,
    baseline_config_hash  text NOT NULL,
    baseline_candidate_id text,
    baseline_score        double precision,
    best_candidate_id     text,
    best_score            double precision,
    round                 integer NOT NULL DEFAULT 0,
    proposed              integer NOT NULL DEFAULT 0,
    rejected              integer NOT NULL DEFAULT 0,
    completed             integer NOT NULL DEFAULT 0,
    failed                integer NOT NULL DEFAULT 0,
    stopped               integer NOT NULL DEFAULT 0,
    paid_trials           integer NOT NULL DEFAULT 0,
    paid_samples          bigint NOT NULL DEFAULT 0,
    paid_tokens           bigint NOT NULL DEFAULT 0,
    paid_cost             double precision NOT NULL DEFAULT 0,
    limits                jsonb NOT NULL DEFAULT '{}',
    task_queue            text NOT NULL,
    versions              jsonb NOT NULL DEFAULT '{}',
    spec                  jsonb NOT NULL,
    result                jsonb,
    started_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    finished_at           timestamptz,
    execution_id          text NOT NULL,
    life                  integer NOT NULL DEFAULT 1,
    status_changes        integer NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
COMMENT ON TABLE runs IS 'One row per run (run_id is the Workflow Id). Every transaction that writes events locks the run''s row first.';
COMMENT ON COLUMN runs.round IS 'The last decided round; 0 is the baseline.';
COMMENT ON COLUMN runs.completed IS 'Candidates whose trial completed; likewise failed, and stopped (cancelled or out of time).';
COMMENT ON COLUMN runs.paid_samples IS 'Target calls really paid for; answers reused from elsewhere cost nothing again.';
COMMENT ON COLUMN runs.paid_cost IS 'Trials and proposals, in the currency of the spec''s prices.';
COMMENT ON COLUMN runs.limits IS 'What the adjust update changed, e.g. {"concurrent_samples": 8}.';
COMMENT ON COLUMN runs.execution_id IS 'The workflow execution that prepared this row; another one starts the run anew.';
COMMENT ON COLUMN runs.life IS 'How often the run was started under this id; answers already paid for outlive a life.';
CREATE INDEX runs_newest_first ON runs (started_at DESC, run_id);

CREATE TABLE suites (
    run_id     text NOT NULL REFERENCES runs ON DELETE CASCADE,
    split      text NOT NULL,
    suite_id   text NOT NULL,
    dataset_id text NOT NULL REFERENCES datasets,
    evaluator  text NOT NULL,
    samples    integer NOT NULL,
    body       jsonb NOT NULL,
    PRIMARY KEY (run_id, split)
);
COMMENT ON TABLE suites IS 'What every trial of a run is measured with on one split: samples, target, scorers, objective.';
COMMENT ON COLUMN suites.suite_id IS 'sha256 of dataset version, split and scorers.';
COMMENT ON COLUMN suites.evaluator IS 'Fingerprint of target, scorers and plug-in sources; part of every outcome''s key.';
COMMENT ON COLUMN suites.body IS 'The EvaluationSuite in full.';

CREATE TABLE suite_samples (
    run_id    text NOT NULL,
    split     text NOT NULL,
    position  integer NOT NULL,
    item_hash text NOT NULL,
    PRIMARY KEY (run_id, split, position),
    FOREIGN KEY (run_id, split) REFERENCES suites ON DELETE CASCADE
);
COMMENT ON TABLE suite_samples IS 'Which samples a split has, in the order drawn by the run''s seed.';

CREATE TABLE candidates (
    run_id               text NOT NULL REFERENCES runs ON DELETE CASCADE,
    candidate_id         text NOT NULL,
    config_hash          text NOT NULL REFERENCES overlays,
    round                integer NOT NULL,
    index                integer NOT NULL,
    parent_candidate_ids text[] NOT NULL,
    rationale            text,
    first_replicate      integer NOT NULL,
    extra                jsonb NOT NULL DEFAULT '{}',
    created_at           timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, candidate_id)
);
COMMENT ON TABLE candidates IS 'Configurations that were let in, and where they came from.';
COMMENT ON COLUMN candidates.index IS 'Its place among the round''s proposals.';
COMMENT ON COLUMN candidates.first_replicate IS 'Above 0 when the same configuration is tried again with fresh answers.';
CREATE INDEX candidates_of_overlay ON candidates (config_hash);

CREATE TABLE trials (
    run_id          text NOT NULL,
    candidate_id    text NOT NULL,
    purpose         text NOT NULL CHECK (purpose IN ('baseline', 'candidate', 'confirmation')),
    trial_id        text NOT NULL,
    config_hash     text NOT NULL,
    round           integer NOT NULL,
    index           integer NOT NULL,
    split           text NOT NULL,
    samples         integer NOT NULL,
    replicates      integer NOT NULL,
    first_replicate integer NOT NULL,
    status          text NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'cancelled', 'timeout')),
    score           double precision,
    coverage        double precision,
    total           integer,
    passed          integer,
    failed          integer,
    pass_rate       double precision,
    total_cost      double precision,
    total_tokens    bigint,
    avg_latency_ms  double precision,
    avg_ttft_ms     double precision,
    stopped_early   text,
    error           text,
    failure         text CHECK (failure IN ('execution', 'scoring')),
    sample_means    double precision[],
    paid_samples    bigint NOT NULL DEFAULT 0,
    paid_tokens     bigint NOT NULL DEFAULT 0,
    paid_cost       double precision NOT NULL DEFAULT 0,
    duration_ms     bigint,
    started_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    PRIMARY KEY (run_id, candidate_id, purpose),
    FOREIGN KEY (run_id, candidate_id) REFERENCES candidates ON DELETE CASCADE
);
COMMENT ON TABLE trials IS 'One row per trial: the evaluation of one candidate for one purpose.';
COMMENT ON COLUMN trials.trial_id IS 'Workflow id of the trial; its experiment_id.';
COMMENT ON COLUMN trials.config_hash IS 'The overlay it ran against; its mask_id.';
COMMENT ON COLUMN trials.score IS 'The objective''s score, when the trial completed.';
COMMENT ON COLUMN trials.coverage IS 'The share of (sample, replicate) pairs that have an answer.';
COMMENT ON COLUMN trials.sample_means IS 'The objective''s value per sample, by suite_samples.position; NULL where no answer is.';

CREATE TABLE outcomes (
    config_hash   text NOT NULL,
    evaluator     text NOT NULL,
    run_id        text NOT NULL,
    item_hash     text NOT NULL,
    replicate     integer NOT NULL,
    status        text NOT NULL CHECK (status IN ('answered', 'failed')),
    passed        boolean NOT NULL,
    scores        jsonb NOT NULL,
    score_details jsonb,
    output        json,
    error         text,
    feedback      text NOT NULL,
    tokens        bigint NOT NULL,
    cost          double precision NOT NULL,
    latency_ms    double precision,
    ttft_ms       double precision,
    trace         json,
    trial_id      text NOT NULL,
    reused_from   text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (config_hash, evaluator, run_id, item_hash, replicate)
);
COMMENT ON TABLE outcomes IS 'One answer and its scores: immutable; the first one committed wins.';
COMMENT ON COLUMN outcomes.status IS 'failed is the candidate''s fault: the target raised, refused, took too long or gave unusable output.';
COMMENT ON COLUMN outcomes.score_details IS 'For each score: passed and reason, as the scorer gave them.';
COMMENT ON COLUMN outcomes.trial_id IS 'The trial that asked for it.';
COMMENT ON COLUMN outcomes.reused_from IS 'The run that paid for this answer, when this one did not.';

CREATE TABLE rejections (
    run_id               text NOT NULL REFERENCES runs ON DELETE CASCADE,
    round                integer NOT NULL,
    proposed_index       integer NOT NULL,
    reason_code          text NOT NULL,
    message              text NOT NULL,
    config_hash          text,
    parent_candidate_ids text[] NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, round, proposed_index)
);
COMMENT ON TABLE rejections IS 'Proposals that were kept out before anything was spent on them.';

CREATE TABLE rounds (
    run_id            text NOT NULL REFERENCES runs ON DELETE CASCADE,
    round             integer NOT NULL,
    best_candidate_id text,
    best_score        double precision,
    best_so_far_id    text,
    best_so_far       double precision,
    stop_reason       text,
    stopped           boolean NOT NULL,
    extra             jsonb NOT NULL,
    record            jsonb NOT NULL,
    decided_at        timestamptz NOT NULL,
    PRIMARY KEY (run_id, round)
);
COMMENT ON TABLE rounds IS 'Decided rounds; 0 is the baseline.';
COMMENT ON COLUMN rounds.extra IS 'What the optimizer added: Pareto front, selection, population.';
COMMENT ON COLUMN rounds.record IS 'The RoundRecord in full, counts and spend included; its rejections are in their own table.';

CREATE TABLE proposals (
    run_id     text NOT NULL REFERENCES runs ON DELETE CASCADE,
    round      integer NOT NULL,
    index      integer NOT NULL,
    new_values json NOT NULL,
    rationale  text,
    tokens     bigint NOT NULL,
    cost       double precision NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, round, index)
);
COMMENT ON TABLE proposals IS 'What a proposer answered, paid for once: a retry reads it here.';

CREATE TABLE events (
    id         bigserial PRIMARY KEY,
    run_id     text NOT NULL REFERENCES runs ON DELETE CASCADE,
    event_key  text NOT NULL,
    type       text NOT NULL CHECK (type IN
        ('run_status_changed', 'progress_changed', 'trial_added_or_updated', 'best_candidate_changed', 'run_finished')),
    payload    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (run_id, event_key)
);
COMMENT ON TABLE events IS 'What happened, in order: within a run, ids become visible in ascending order, because writers lock the run''s row.';
COMMENT ON COLUMN events.event_key IS 'Names the happening itself, so that announcing it twice changes nothing.';
CREATE INDEX events_of_run ON events (run_id, id);

CREATE VIEW trial_overview AS
SELECT t.run_id, t.round, t.index, t.purpose, t.candidate_id, t.status, t.score, t.score - r.baseline_score AS gain,
       t.candidate_id IS NOT DISTINCT FROM r.best_candidate_id AS is_best,
       t.passed, t.total, t.coverage, t.paid_samples, t.paid_tokens, t.paid_cost,
       coalesce(t.finished_at, now()) - t.started_at AS took,
       c.parent_candidate_ids AS parents, c.rationale, t.stopped_early, t.error, left(t.config_hash, 8) AS config, t.trial_id
FROM trials t
JOIN runs r USING (run_id)
JOIN candidates c USING (run_id, candidate_id)
ORDER BY t.run_id, t.purpose = 'confirmation', t.round, t.index;
COMMENT ON VIEW trial_overview IS 'The trials of each run, in the order of their proposals. gain is the score minus the baseline''s.';

CREATE VIEW run_overview AS
SELECT r.run_id, r.status, r.stop_reason, r.round, r.baseline_score, r.best_score, r.best_score - r.baseline_score AS gain,
       r.best_candidate_id, r.direction, r.proposed,
       (SELECT count(*) FROM trials t WHERE t.run_id = r.run_id AND t.status = 'running') AS running,
       r.completed, r.failed, r.rejected, r.stopped, r.paid_samples, r.paid_tokens, r.paid_cost,
       r.started_at, coalesce(r.finished_at, now()) - r.started_at AS took, r.message
FROM runs r
ORDER BY r.started_at DESC;
COMMENT ON VIEW run_overview IS 'One line per run, the newest first.';

CREATE VIEW factor_changes AS
SELECT c.run_id, c.round, c.index, c.candidate_id, mine.key AS factor, base.value AS before, mine.value AS after
FROM candidates c
JOIN runs r USING (run_id)
JOIN overlays own USING (config_hash)
JOIN overlays baseline ON baseline.config_hash = r.baseline_config_hash
CROSS JOIN LATERAL json_each(own.configuration) AS mine
LEFT JOIN LATERAL json_each(baseline.configuration) AS base ON base.key = mine.key
WHERE mine.value::text IS DISTINCT FROM base.value::text
ORDER BY c.run_id, c.round, c.index, mine.key;
COMMENT ON VIEW factor_changes IS 'What each candidate changed, factor by factor, compared with the baseline.';
