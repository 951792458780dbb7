-- Everything that Ratchet keeps. Read it with psql: the views at the end are made for that.
--
--    1  Datasets         datasets, samples, dataset_names, dataset_versions
--    2  Runs             runs, suites, suite_samples
--    3  Candidates       overlays, candidates
--    4  Trials           trials, outcomes, unscored_answers, test_reads
--    5  Rounds           rounds, rejections, proposals, model_answers
--    6  Budgets          budgets, budget_leases
--    7  Rates            rate_limits, learned_rates
--    8  Task queues      served_task_queues, unserved_times, unserved_time()
--    9  Events           events
--   10  Prompts          prompt_templates, prompt_changes, prompt_tags, prompt_versions
--   11  Releases         releases
--   12  Views            run_overview, trial_overview, factor_changes, suite_items, prompts_in_force


-- 1 Datasets ----------------------------------------------------------------------------------------------------------

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

-- The same name with other content is a new version.
CREATE TABLE dataset_names (
    name   text PRIMARY KEY,
    newest integer NOT NULL
);
COMMENT ON TABLE dataset_names IS 'Names that datasets were added under.';
COMMENT ON COLUMN dataset_names.newest IS 'The highest number a version ever had: numbers are never used twice.';

CREATE TABLE dataset_versions (
    name       text NOT NULL REFERENCES dataset_names,
    version    integer NOT NULL,
    dataset_id text NOT NULL REFERENCES datasets ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, version)
);
COMMENT ON TABLE dataset_versions IS 'What a name stood for, in order; content that comes back is a version of its own.';
CREATE INDEX dataset_versions_of_content ON dataset_versions (dataset_id);


-- 2 Runs --------------------------------------------------------------------------------------------------------------

CREATE TABLE runs (
    run_id                text PRIMARY KEY,
    starts                integer NOT NULL DEFAULT 1,
    execution_id          text NOT NULL,
    namespace_id          text NOT NULL DEFAULT '',
    task_queue            text NOT NULL,
    -- what is asked for
    name                  text NOT NULL,
    use_case              text NOT NULL,
    experiment            text NOT NULL,
    optimizer             text NOT NULL,
    objective             text NOT NULL,
    direction             text NOT NULL,
    dataset_id            text NOT NULL REFERENCES datasets,
    evaluation_suite_id   text NOT NULL,
    search_split          text NOT NULL,
    baseline_config_hash  text NOT NULL,
    spec                  jsonb NOT NULL,
    limits                jsonb NOT NULL DEFAULT '{}',
    versions              jsonb NOT NULL DEFAULT '{}',
    plan                  jsonb,
    noise                 jsonb,
    -- how it stands
    status                text NOT NULL CHECK (status IN
        ('initialized', 'running', 'paused', 'completed', 'failed', 'cancelled', 'terminated')),
    status_changes        integer NOT NULL DEFAULT 0,
    stop_reason           text,
    message               text NOT NULL DEFAULT '',
    round                 integer NOT NULL DEFAULT 0,
    baseline_candidate_id text,
    baseline_score        double precision,
    best_candidate_id     text,
    best_score            double precision,
    proposed              integer NOT NULL DEFAULT 0,
    rejected              integer NOT NULL DEFAULT 0,
    completed             integer NOT NULL DEFAULT 0,
    failed                integer NOT NULL DEFAULT 0,
    stopped               integer NOT NULL DEFAULT 0,
    paid_trials           integer NOT NULL DEFAULT 0,
    paid_samples          bigint NOT NULL DEFAULT 0,
    paid_tokens           bigint NOT NULL DEFAULT 0,
    paid_cost             double precision NOT NULL DEFAULT 0,
    result                jsonb,
    -- when
    clock                 jsonb NOT NULL DEFAULT '{}',
    started_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    finished_at           timestamptz
) WITH (fillfactor = 70);
COMMENT ON TABLE runs IS 'One row per run (run_id is the Workflow Id). Every transaction that writes events locks the run''s row first.';
COMMENT ON COLUMN runs.starts IS 'How often the run was started under this id; answers already paid for outlive a start.';
COMMENT ON COLUMN runs.execution_id IS 'The workflow execution that prepared this row; another one starts the run anew.';
COMMENT ON COLUMN runs.namespace_id IS 'Of the Temporal namespace that prepared the run; a name would not tell two servers apart. Empty: not known.';
COMMENT ON COLUMN runs.limits IS 'What the adjust update changed, e.g. {"concurrent_samples": 8}.';
COMMENT ON COLUMN runs.plan IS 'The smallest gain that the run can find, and how surely; before the noise is measured, at worst.';
COMMENT ON COLUMN runs.noise IS 'How much scores vary within samples and between them, where that was measured first.';
COMMENT ON COLUMN runs.status IS 'terminated: ended from outside, in Temporal; whoever looked there wrote it down, not the run itself.';
COMMENT ON COLUMN runs.round IS 'The last decided round; 0 is the baseline.';
COMMENT ON COLUMN runs.completed IS 'Candidates whose trial completed; likewise failed, and stopped (cancelled or out of time).';
COMMENT ON COLUMN runs.paid_samples IS 'Target calls really paid for; answers reused from elsewhere cost nothing again.';
COMMENT ON COLUMN runs.paid_cost IS 'Trials and proposals, in the currency of the spec''s prices.';
COMMENT ON COLUMN runs.clock IS 'How long the run had stood still when it last wrote that down, and how much of it nobody served.';
CREATE INDEX runs_newest_first ON runs (started_at DESC, run_id);
CREATE INDEX runs_not_over ON runs (run_id) WHERE status IN ('initialized', 'running', 'paused');

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


-- 3 Candidates --------------------------------------------------------------------------------------------------------

CREATE TABLE overlays (
    config_hash   text PRIMARY KEY,
    configuration json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE overlays IS 'Configurations, immutable, addressed by their hash. What a trial runs against.';
COMMENT ON COLUMN overlays.config_hash IS 'sha256 of the canonical JSON; also called mask_id.';
COMMENT ON COLUMN overlays.configuration IS 'Every factor with its value: the very text that was hashed, which jsonb would rewrite.';

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


-- 4 Trials ------------------------------------------------------------------------------------------------------------

CREATE TABLE trials (
    run_id          text NOT NULL,
    candidate_id    text NOT NULL,
    purpose         text NOT NULL CHECK (purpose IN ('baseline', 'candidate', 'confirmation', 'noise', 'exploration')),
    part            text NOT NULL DEFAULT '',
    trial_id        text NOT NULL,
    experiment_id   text,
    config_hash     text NOT NULL,
    round           integer NOT NULL,
    index           integer NOT NULL,
    -- which samples, and how often
    split           text NOT NULL,
    first_sample    integer NOT NULL DEFAULT 0,
    samples         integer NOT NULL,
    first_replicate integer NOT NULL,
    replicates      integer NOT NULL,
    -- what came out
    status          text NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'cancelled', 'timeout')),
    score           double precision,
    score_low       double precision,
    score_high      double precision,
    coverage        double precision,
    total           integer,
    passed          integer,
    failed          integer,
    pass_rate       double precision,
    total_cost      double precision,
    total_tokens    bigint,
    avg_latency_ms  double precision,
    avg_ttft_ms     double precision,
    sample_means    double precision[],
    stopped_early   text,
    exhausted       text CHECK (exhausted IN ('samples', 'tokens', 'cost')),
    error           text,
    errors          jsonb NOT NULL DEFAULT '{}',
    failure         text CHECK (failure IN ('execution', 'scoring')),
    -- how it was judged
    evidence        jsonb,
    looks           jsonb,
    judged          jsonb,
    -- what it took
    paid_samples    bigint NOT NULL DEFAULT 0,
    paid_tokens     bigint NOT NULL DEFAULT 0,
    paid_cost       double precision NOT NULL DEFAULT 0,
    lost_samples    bigint NOT NULL DEFAULT 0,
    lost_tokens     bigint NOT NULL DEFAULT 0,
    lost_cost       double precision NOT NULL DEFAULT 0,
    reused_samples  bigint NOT NULL DEFAULT 0,
    metered         boolean NOT NULL DEFAULT true,
    leased_samples  bigint NOT NULL DEFAULT 0,
    leased_tokens   bigint NOT NULL DEFAULT 0,
    leased_cost     double precision NOT NULL DEFAULT 0,
    duration_ms     bigint,
    started_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    PRIMARY KEY (run_id, candidate_id, purpose, part),
    FOREIGN KEY (run_id, candidate_id) REFERENCES candidates ON DELETE CASCADE
);
COMMENT ON TABLE trials IS 'One row per trial: the evaluation of one candidate for one purpose.';
COMMENT ON COLUMN trials.purpose IS
    'noise: the baseline answered again, to learn how much scores vary. exploration: some samples only, to learn from them.';
COMMENT ON COLUMN trials.part IS 'Tells the explorations of a candidate apart: round and place of the proposal, e.g. 3.7. Empty for all others.';
COMMENT ON COLUMN trials.trial_id IS 'Workflow id of the trial; its experiment_id.';
COMMENT ON COLUMN trials.experiment_id IS 'The external runner''s experiment, once it was triggered; a trial never has two.';
COMMENT ON COLUMN trials.config_hash IS 'The overlay it ran against; its mask_id.';
COMMENT ON COLUMN trials.first_sample IS 'The place of its first sample among suite_samples; it has `samples` of them.';
COMMENT ON COLUMN trials.score IS 'The objective''s score, when the trial completed.';
COMMENT ON COLUMN trials.score_low IS '95 % interval of the score over samples; NULL where the score is no mean of its samples.';
COMMENT ON COLUMN trials.coverage IS 'The share of (sample, replicate) pairs that have an answer.';
COMMENT ON COLUMN trials.sample_means IS 'The objective''s value per sample, by suite_samples.position; NULL where no answer is.';
COMMENT ON COLUMN trials.exhausted IS 'The budget that did not cover the whole trial.';
COMMENT ON COLUMN trials.errors IS 'How many answers failed or are missing, by the class of the error.';
COMMENT ON COLUMN trials.evidence IS 'What its comparison with the baseline, and with the best of its time, found.';
COMMENT ON COLUMN trials.looks IS 'A trial that was measured block by block: what each look at it decided.';
COMMENT ON COLUMN trials.judged IS 'The verdict, corrected for the number of candidates that were judged together.';
COMMENT ON COLUMN trials.lost_cost IS 'What calls without an answer can have cost at most.';
COMMENT ON COLUMN trials.reused_samples IS 'Answers that were copied from other runs instead of paid for.';
COMMENT ON COLUMN trials.metered IS 'Its run had a budget of samples, tokens or cost when it began.';
COMMENT ON COLUMN trials.leased_cost IS 'Of a trial that began without a budget: what it took on one that came later.';

CREATE TABLE outcomes (
    config_hash   text NOT NULL,
    evaluator     text NOT NULL,
    run_id        text NOT NULL,
    item_hash     text NOT NULL,
    replicate     integer NOT NULL,
    trial_id      text NOT NULL,
    scored_by     text,
    reused_from   text,
    status        text NOT NULL CHECK (status IN ('answered', 'failed')),
    output        json,
    error         text,
    error_class   text,
    passed        boolean NOT NULL,
    scores        jsonb NOT NULL,
    score_details jsonb,
    feedback      text NOT NULL,
    tokens        bigint NOT NULL,
    cost          double precision NOT NULL,
    latency_ms    double precision,
    ttft_ms       double precision,
    trace         json,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (config_hash, evaluator, run_id, item_hash, replicate)
);
COMMENT ON TABLE outcomes IS 'One answer and its scores: immutable; the first one committed wins.';
COMMENT ON COLUMN outcomes.trial_id IS 'The trial that asked for it.';
COMMENT ON COLUMN outcomes.scored_by IS 'The trial that scored it, when that is not the one that asked for the answer in this run.';
COMMENT ON COLUMN outcomes.reused_from IS 'The run that paid for this answer, when this one did not.';
COMMENT ON COLUMN outcomes.status IS 'failed is the candidate''s fault: the target raised, refused, took too long or gave unusable output.';
COMMENT ON COLUMN outcomes.error_class IS 'Of a failed answer: timeout, http 400, raised ValueError.';
COMMENT ON COLUMN outcomes.score_details IS 'For each score: passed and reason, as the scorer gave them.';

CREATE TABLE unscored_answers (
    run_id      text NOT NULL REFERENCES runs ON DELETE CASCADE,
    config_hash text NOT NULL,
    evaluator   text NOT NULL,
    item_hash   text NOT NULL,
    replicate   integer NOT NULL,
    trial_id    text NOT NULL,
    reused_from text,
    output      json,
    tokens      bigint NOT NULL,
    cost        double precision NOT NULL,
    latency_ms  double precision,
    ttft_ms     double precision,
    trace       json,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, config_hash, evaluator, item_hash, replicate)
);
COMMENT ON TABLE unscored_answers IS 'Answers of targets that are still to be scored: a judge that cannot be reached must not cost them. One that is scored is an outcome, and no longer here.';
COMMENT ON COLUMN unscored_answers.trial_id IS 'The trial that asked for it.';
COMMENT ON COLUMN unscored_answers.reused_from IS 'The run that paid for this answer, when this one did not.';

CREATE TABLE test_reads (
    samples_hash text NOT NULL,
    reader       text NOT NULL,
    config_hash  text NOT NULL,
    run_id       text NOT NULL,
    read_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (samples_hash, reader, config_hash)
);
COMMENT ON TABLE test_reads IS 'Who measured what on held-back samples. It outlives runs: what was seen cannot be unseen.';
COMMENT ON COLUMN test_reads.samples_hash IS 'sha256 over the hashes of the samples, whatever their order.';
COMMENT ON COLUMN test_reads.reader IS 'The run; a retry counts as the run that it retries.';


-- 5 Rounds ------------------------------------------------------------------------------------------------------------

CREATE TABLE rounds (
    run_id            text NOT NULL REFERENCES runs ON DELETE CASCADE,
    round             integer NOT NULL,
    best_candidate_id text,
    best_score        double precision,
    best_so_far_id    text,
    best_so_far       double precision,
    stopped           boolean NOT NULL,
    stop_reason       text,
    extra             jsonb NOT NULL,
    record            jsonb NOT NULL,
    decided_at        timestamptz NOT NULL,
    PRIMARY KEY (run_id, round)
);
COMMENT ON TABLE rounds IS 'Decided rounds; 0 is the baseline.';
COMMENT ON COLUMN rounds.extra IS 'What the optimizer added: Pareto front, selection, population.';
COMMENT ON COLUMN rounds.record IS 'The RoundRecord in full, counts and spend included; its rejections are in their own table.';

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

CREATE TABLE proposals (
    run_id      text NOT NULL REFERENCES runs ON DELETE CASCADE,
    round       integer NOT NULL,
    index       integer NOT NULL,
    parent_hash text,
    new_values  json NOT NULL,
    rationale   text,
    tokens      bigint NOT NULL,
    cost        double precision NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, round, index)
);
COMMENT ON TABLE proposals IS 'What a proposer answered, paid for once: a retry reads it here.';
COMMENT ON COLUMN proposals.parent_hash IS 'The configuration that the proposal starts from.';

CREATE TABLE model_answers (
    run_id       text NOT NULL REFERENCES runs ON DELETE CASCADE,
    request_hash text NOT NULL,
    round        integer NOT NULL,
    index        integer NOT NULL,
    answer       text NOT NULL,
    cut_off      boolean NOT NULL,
    tokens       bigint NOT NULL,
    cost         double precision NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, request_hash)
);
COMMENT ON TABLE model_answers IS 'Answers of models that write proposals. The same request is never paid for twice in a run.';
COMMENT ON COLUMN model_answers.request_hash IS 'sha256 of model, endpoint, messages and parameters.';
COMMENT ON COLUMN model_answers.index IS 'Which of the round''s proposals asked first.';


-- 6 Budgets -----------------------------------------------------------------------------------------------------------

CREATE TABLE budgets (
    run_id                 text PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    limit_samples          bigint NOT NULL DEFAULT 0,
    limit_tokens           bigint NOT NULL DEFAULT 0,
    limit_cost             double precision NOT NULL DEFAULT 0,
    limited                boolean NOT NULL
        GENERATED ALWAYS AS (limit_samples > 0 OR limit_tokens > 0 OR limit_cost > 0) STORED,
    confirmation_calls     bigint NOT NULL DEFAULT 0,
    spent_samples          bigint NOT NULL DEFAULT 0,
    spent_tokens           bigint NOT NULL DEFAULT 0,
    spent_cost             double precision NOT NULL DEFAULT 0,
    lost_samples           bigint NOT NULL DEFAULT 0,
    lost_tokens            bigint NOT NULL DEFAULT 0,
    lost_cost              double precision NOT NULL DEFAULT 0,
    tokens_of_calls        bigint NOT NULL DEFAULT 0,
    cost_of_calls          double precision NOT NULL DEFAULT 0,
    most_tokens_per_sample bigint,
    most_cost_per_sample   double precision,
    exceeded               bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE budgets IS 'One row per run. spent + lost + what budget_leases hold, spent and lost never exceeds a limit when something is leased.';
COMMENT ON COLUMN budgets.limit_samples IS '0 is unlimited, in every limit; the adjust update changes them.';
COMMENT ON COLUMN budgets.limited IS 'Calls need a lease.';
COMMENT ON COLUMN budgets.confirmation_calls IS 'So many target calls are left for the confirmation of the winner.';
COMMENT ON COLUMN budgets.lost_cost IS 'What calls can have cost at most that never said so: their worker was killed, or they failed half-way.';
COMMENT ON COLUMN budgets.cost_of_calls IS 'Of what was spent and lost: trials, without proposals.';
COMMENT ON COLUMN budgets.most_cost_per_sample IS 'The most that one sample took.';
COMMENT ON COLUMN budgets.exceeded IS 'Calls that took more than was set aside for them: more than the spec says they take at most.';

CREATE TABLE budget_leases (
    run_id                 text NOT NULL REFERENCES budgets ON DELETE CASCADE,
    holder                 text NOT NULL,
    attempt                integer NOT NULL,
    nonce                  text NOT NULL,
    candidate_id           text NOT NULL,
    trial_id               text NOT NULL,
    held_samples           bigint NOT NULL,
    held_tokens            bigint NOT NULL,
    held_cost              double precision NOT NULL,
    spent_samples          bigint NOT NULL,
    spent_tokens           bigint NOT NULL,
    spent_cost             double precision NOT NULL,
    lost_samples           bigint NOT NULL,
    lost_tokens            bigint NOT NULL,
    lost_cost              double precision NOT NULL,
    most_tokens_per_sample bigint,
    most_cost_per_sample   double precision,
    exceeded               bigint NOT NULL,
    exclusive              boolean NOT NULL,
    idle                   boolean NOT NULL,
    waiting                boolean NOT NULL,
    renewed_at             timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, holder)
) WITH (fillfactor = 50);
COMMENT ON TABLE budget_leases IS 'Who works with a run''s budget right now: one row per shard or proposal in flight.';
COMMENT ON COLUMN budget_leases.held_cost IS 'Set aside for calls in flight and few more; it counts as lost when its holder is killed.';
COMMENT ON COLUMN budget_leases.exclusive IS 'A call is at work of which nobody knows what it takes; nobody else leases meanwhile.';
COMMENT ON COLUMN budget_leases.idle IS 'No call is at work: what it holds will not come back by waiting.';
COMMENT ON COLUMN budget_leases.waiting IS 'Everything that it has begun waits for more budget.';


-- 7 Rates -------------------------------------------------------------------------------------------------------------
-- Not logged: a lease needs no disk. After a crash limits start anew, and what endpoints bear is learned anew.

CREATE UNLOGGED TABLE rate_limits (
    run_id       text NOT NULL,
    name         text NOT NULL,
    calls_until  timestamptz NOT NULL,
    tokens_until timestamptz NOT NULL,
    PRIMARY KEY (run_id, name)
) WITH (fillfactor = 50);
COMMENT ON TABLE rate_limits IS 'Up to when each limit is used up. Workers lease a few starts at a time by moving these times on.';
COMMENT ON COLUMN rate_limits.run_id IS 'The run whose limit it is; empty for the operator''s, which all runs share.';
COMMENT ON COLUMN rate_limits.name IS 'The model or the endpoint''s URL.';

CREATE UNLOGGED TABLE learned_rates (
    base_url        text NOT NULL,
    model           text NOT NULL,
    revision        integer NOT NULL,
    lowest          double precision NOT NULL,
    likely          double precision,
    recovery        double precision NOT NULL,
    used            double precision NOT NULL DEFAULT 0,
    calls_let_in    double precision NOT NULL DEFAULT 0,
    counted_seconds double precision NOT NULL,
    calls_until     timestamptz NOT NULL,
    leased_at       timestamptz NOT NULL,
    learned_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (base_url, model)
) WITH (fillfactor = 50);
COMMENT ON TABLE learned_rates IS 'The rate at which each endpoint that complained may be called, learned by all workers together.';
COMMENT ON COLUMN learned_rates.revision IS 'Counts the complaints that taught something.';
COMMENT ON COLUMN learned_rates.lowest IS 'Calls per second right after the last of them.';
COMMENT ON COLUMN learned_rates.likely IS 'Calls per second that the endpoint probably takes; the rate climbs back to it, and slowly beyond.';
COMMENT ON COLUMN learned_rates.recovery IS 'Seconds in which it climbs back.';
COMMENT ON COLUMN learned_rates.used IS 'Seconds since then in which it was used.';
COMMENT ON COLUMN learned_rates.calls_let_in IS 'Calls that were let in, in the last seconds.';
COMMENT ON COLUMN learned_rates.counted_seconds IS 'The seconds in which they were.';
COMMENT ON COLUMN learned_rates.calls_until IS 'Up to when starts are leased.';


-- 8 Task queues -------------------------------------------------------------------------------------------------------
-- While no worker serves a run, its clock stands still. Workers mark the task queues they serve; what lies between two marks
-- that are far apart was served by nobody.

CREATE TABLE served_task_queues (
    task_queue text PRIMARY KEY,
    marked_at  timestamptz NOT NULL
);
COMMENT ON TABLE served_task_queues IS 'When a worker last said that it serves a task queue; each does so every few seconds.';

CREATE TABLE unserved_times (
    task_queue text NOT NULL,
    began_at   timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    PRIMARY KEY (task_queue, began_at)
);
COMMENT ON TABLE unserved_times IS 'When no worker served a task queue; the first one lasted from the beginning of time to its first mark.';

CREATE FUNCTION unserved_time(task_queues text[], since timestamptz, until timestamptz, bearable interval) RETURNS interval
LANGUAGE sql VOLATILE AS $$
    WITH known AS (  -- before there were marks, nobody can tell
        SELECT greatest(unserved_time.since, applied_at) AS since FROM schema_migrations WHERE version = 25
    )
    SELECT coalesce(sum(upper(part) - lower(part)), interval '0')
    FROM known, unnest((
        SELECT coalesce(range_agg(gap), '{}'::tstzmultirange) FROM (
            SELECT tstzrange(began_at, ended_at) FROM unserved_times
            WHERE task_queue = ANY(task_queues) AND ended_at > unserved_time.since
            UNION ALL
            SELECT tstzrange(coalesce(marked_at, '-infinity'), clock_timestamp())
            FROM unnest(task_queues) AS wanted (name) LEFT JOIN served_task_queues ON task_queue = name
            WHERE coalesce(marked_at, '-infinity') < clock_timestamp() - bearable
        ) AS gaps (gap)
    ) * tstzmultirange(tstzrange(known.since, greatest(known.since, until)))) AS part
$$;
COMMENT ON FUNCTION unserved_time IS 'For how long at least one of some task queues was served by nobody, up to now or to an earlier moment.';


-- 9 Events ------------------------------------------------------------------------------------------------------------

CREATE TABLE events (
    id         bigserial PRIMARY KEY,
    run_id     text NOT NULL REFERENCES runs ON DELETE CASCADE,
    event_key  text NOT NULL,
    type       text NOT NULL CHECK (type IN
        ('run_status_changed', 'progress_changed', 'trial_added_or_updated', 'best_candidate_changed', 'run_finished',
         'release_changed', 'approval_due')),
    payload    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (run_id, event_key)
);
COMMENT ON TABLE events IS 'What happened, in order: within a run, ids become visible in ascending order, because writers lock the run''s row.';
COMMENT ON COLUMN events.event_key IS 'Names the happening itself, so that announcing it twice changes nothing.';
CREATE INDEX events_of_run ON events (run_id, id);


-- 10 Prompts ----------------------------------------------------------------------------------------------------------
-- What `ratchet.prompts` keeps in PostgreSQL.

CREATE TABLE prompt_templates (
    name          text NOT NULL,
    template_hash text NOT NULL,
    template      json NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, template_hash)
);
COMMENT ON TABLE prompt_templates IS 'Prompts as their authors wrote them, immutable, by namespace/key and hash.';

CREATE TABLE prompt_changes (
    name          text NOT NULL,
    tag           text NOT NULL,
    revision      integer NOT NULL,
    change_id     text NOT NULL,
    action        text NOT NULL,
    version       text,
    template_hash text NOT NULL,
    config_hash   text NOT NULL,
    deleted       boolean NOT NULL,
    changed_by    text NOT NULL,
    why           text NOT NULL,
    changed_at    timestamptz NOT NULL,
    state         json NOT NULL,
    PRIMARY KEY (name, tag, revision),
    FOREIGN KEY (name, template_hash) REFERENCES prompt_templates
);
COMMENT ON TABLE prompt_changes IS 'Every state that a tag of a prompt ever had; rows are only added, but for temporary tags.';
COMMENT ON COLUMN prompt_changes.config_hash IS 'sha256 of the full configuration in force.';
COMMENT ON COLUMN prompt_changes.state IS 'The TagState in full, evidence and overrides included.';

CREATE TABLE prompt_tags (
    name     text NOT NULL,
    tag      text NOT NULL,
    revision integer NOT NULL,
    PRIMARY KEY (name, tag),
    FOREIGN KEY (name, tag, revision) REFERENCES prompt_changes
);
COMMENT ON TABLE prompt_tags IS 'Where each tag is: moved by compare-and-swap on its revision, together with the change that it came by.';

CREATE TABLE prompt_versions (
    name     text NOT NULL,
    version  text NOT NULL,
    tag      text NOT NULL,
    revision integer NOT NULL,
    PRIMARY KEY (name, version),
    FOREIGN KEY (name, tag, revision) REFERENCES prompt_changes
);
COMMENT ON TABLE prompt_versions IS 'Immutable versions of prompts, and the change that introduced each.';

-- Temporary tags leave nothing behind when they are deleted.
CREATE FUNCTION prompts_are_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'prompt_changes' AND (to_jsonb(OLD) -> 'state' ->> 'temporary')::boolean THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'rows of % are only added, never changed', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE ON prompt_templates
    FOR EACH ROW EXECUTE FUNCTION prompts_are_only_added_to();
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE ON prompt_changes
    FOR EACH ROW EXECUTE FUNCTION prompts_are_only_added_to();
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE ON prompt_versions
    FOR EACH ROW EXECUTE FUNCTION prompts_are_only_added_to();


-- 11 Releases ---------------------------------------------------------------------------------------------------------

CREATE TABLE releases (
    number          bigserial UNIQUE,
    release_id      text PRIMARY KEY,
    prompt          text NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('promote', 'canary', 'rollback')),
    tag             text NOT NULL,
    status          text NOT NULL CHECK (status IN
        ('pending', 'accepted', 'released', 'unchanged', 'rejected', 'expired', 'stale_base', 'failed')),
    message         text NOT NULL DEFAULT '',
    -- what is released, instead of what
    validated_on    text NOT NULL,
    base_hash       text NOT NULL REFERENCES overlays,
    base_version    text,
    overlay_hash    text NOT NULL REFERENCES overlays,
    version         text,
    change_class    text CHECK (change_class IN ('patch', 'minor', 'major')),
    changes         jsonb NOT NULL DEFAULT '{}',
    first_template  json,
    run_id          text,
    candidate_id    text,
    -- who asked, and with which evidence
    asked_by        text NOT NULL,
    asked_at        timestamptz NOT NULL,
    reason          text NOT NULL,
    evidence        jsonb NOT NULL,
    -- who decides
    approvers       text[] NOT NULL,
    deadline_at     timestamptz,
    remind_at       timestamptz,
    decided_by      text,
    decided_through text NOT NULL DEFAULT '',
    decided_at      timestamptz,
    comment         text NOT NULL DEFAULT '',
    CHECK ((decided_at IS NULL) = (status IN ('pending', 'accepted')))
);
COMMENT ON TABLE releases IS 'The audit log: one row per release that was asked for. Once decided, a row never changes.';
COMMENT ON COLUMN releases.tag IS 'The tag that moves.';
COMMENT ON COLUMN releases.status IS 'pending waits for approval; accepted is being carried out; the others are final.';
COMMENT ON COLUMN releases.validated_on IS 'The tag that base_hash was at: the same, or what a canary is a canary of.';
COMMENT ON COLUMN releases.base_hash IS 'What the candidate was compared with; for a rollback, what it replaces.';
COMMENT ON COLUMN releases.first_template IS 'What a prompt that is not there yet begins with.';
COMMENT ON COLUMN releases.run_id IS 'No foreign key: the audit log outlives the run.';
COMMENT ON COLUMN releases.decided_through IS 'How decided_by was established: by which token or operating system user; empty where nobody can tell.';
CREATE INDEX releases_of_prompt ON releases (prompt, number DESC);
CREATE INDEX releases_of_run ON releases (run_id, number DESC);
CREATE INDEX releases_of_overlay ON releases (overlay_hash);
CREATE INDEX releases_of_base ON releases (base_hash);

CREATE FUNCTION releases_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.decided_at IS NOT NULL THEN
        RAISE EXCEPTION 'the audit log is append-only: release % is decided', OLD.release_id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER releases_are_final BEFORE UPDATE OR DELETE ON releases FOR EACH ROW EXECUTE FUNCTION releases_are_final();


-- 12 Views ------------------------------------------------------------------------------------------------------------

CREATE VIEW run_overview AS
SELECT r.run_id, r.status, r.stop_reason, r.round, r.baseline_score, r.best_score, r.best_score - r.baseline_score AS gain,
       r.best_candidate_id, r.direction, r.proposed,
       (SELECT count(*) FROM trials t WHERE t.run_id = r.run_id AND t.status = 'running') AS running,
       r.completed, r.failed, r.rejected, r.stopped, r.paid_samples, r.paid_tokens, r.paid_cost,
       r.started_at, coalesce(r.finished_at, now()) - r.started_at AS took, r.message
FROM runs r
ORDER BY r.started_at DESC;
COMMENT ON VIEW run_overview IS 'One line per run, the newest first.';

CREATE VIEW trial_overview AS
SELECT t.run_id, t.round, t.index, t.purpose, t.candidate_id, t.status, t.score, t.score - r.baseline_score AS gain,
       t.candidate_id IS NOT DISTINCT FROM r.best_candidate_id AS is_best,
       t.passed, t.total, t.coverage, t.paid_samples, t.paid_tokens, t.paid_cost,
       coalesce(t.finished_at, now()) - t.started_at AS took,
       c.parent_candidate_ids AS parents, c.rationale, t.stopped_early, t.error, t.errors, left(t.config_hash, 8) AS config,
       t.trial_id
FROM trials t
JOIN runs r USING (run_id)
JOIN candidates c USING (run_id, candidate_id)
ORDER BY t.run_id, t.purpose = 'confirmation', t.round, t.index;
COMMENT ON VIEW trial_overview IS 'The trials of each run, in the order of their proposals. gain is the score minus the baseline''s.';

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

CREATE VIEW suite_items AS
SELECT drawn.run_id, drawn.split, drawn.position, s.item_id AS id, s.input, s.expected, s.weight, s.tags
FROM suite_samples drawn
JOIN suites suite USING (run_id, split)
JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash;
COMMENT ON VIEW suite_items IS 'The samples of a run''s splits, for external runners that are told where they are: ORDER BY position.';

CREATE VIEW prompts_in_force AS
SELECT c.name, c.tag, c.revision, c.version, left(c.config_hash, 12) AS config, c.action, c.changed_by, c.why, c.changed_at
FROM prompt_tags JOIN prompt_changes c USING (name, tag, revision)
WHERE NOT c.deleted
ORDER BY c.name, c.tag;
COMMENT ON VIEW prompts_in_force IS 'What every tag of every prompt stands for now.';
