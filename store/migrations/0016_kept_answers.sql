-- Answers that were paid for and are not scored yet.

CREATE TABLE kept_answers (
    run_id      text NOT NULL REFERENCES runs ON DELETE CASCADE,
    config_hash text NOT NULL,
    evaluator   text NOT NULL,
    item_hash   text NOT NULL,
    replicate   integer NOT NULL,
    trial_id    text NOT NULL,
    output      json,
    tokens      bigint NOT NULL,
    cost        double precision NOT NULL,
    latency_ms  double precision,
    ttft_ms     double precision,
    trace       json,
    reused_from text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, config_hash, evaluator, item_hash, replicate)
);
COMMENT ON TABLE kept_answers IS 'Answers of targets that are still to be scored: a judge that cannot be reached must not cost them. One that is scored is an outcome, and no longer here.';
COMMENT ON COLUMN kept_answers.trial_id IS 'The trial that asked for it.';
COMMENT ON COLUMN kept_answers.reused_from IS 'The run that paid for this answer, when this one did not.';

ALTER TABLE outcomes ADD COLUMN scored_by text;
COMMENT ON COLUMN outcomes.scored_by IS 'The trial that scored it, when that is not the one that asked for the answer in this run.';
