-- What runs may spend, have spent, and have set aside for calls in flight.

CREATE TABLE budgets (
    run_id             text PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    limit_samples      bigint NOT NULL DEFAULT 0,
    limit_tokens       bigint NOT NULL DEFAULT 0,
    limit_cost         double precision NOT NULL DEFAULT 0,
    confirmation_calls bigint NOT NULL DEFAULT 0,
    spent_samples      bigint NOT NULL DEFAULT 0,
    spent_tokens       bigint NOT NULL DEFAULT 0,
    spent_cost         double precision NOT NULL DEFAULT 0,
    lost_samples       bigint NOT NULL DEFAULT 0,
    lost_tokens        bigint NOT NULL DEFAULT 0,
    lost_cost          double precision NOT NULL DEFAULT 0,
    tokens_of_calls    bigint NOT NULL DEFAULT 0,
    cost_of_calls      double precision NOT NULL DEFAULT 0,
    dearest_tokens     bigint,
    dearest_cost       double precision,
    exceeded           bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE budgets IS 'One row per run. spent + lost + what budget_leases hold, spent and lost never exceeds a limit when something is leased.';
COMMENT ON COLUMN budgets.limit_samples IS '0 is unlimited, in every limit; the adjust update changes them.';
COMMENT ON COLUMN budgets.confirmation_calls IS 'So many target calls are left for the confirmation of the winner.';
COMMENT ON COLUMN budgets.lost_cost IS 'What calls can have cost at most that never said so: their worker was killed, or they failed half-way.';
COMMENT ON COLUMN budgets.cost_of_calls IS 'Of what was spent and lost: trials, without proposals.';
COMMENT ON COLUMN budgets.dearest_cost IS 'The most that one sample took.';
COMMENT ON COLUMN budgets.exceeded IS 'Calls that took more than was set aside for them: more than the spec says they take at most.';

CREATE TABLE budget_leases (
    run_id         text NOT NULL REFERENCES budgets ON DELETE CASCADE,
    holder         text NOT NULL,
    attempt        integer NOT NULL,
    nonce          text NOT NULL,
    candidate_id   text NOT NULL,
    trial_id       text NOT NULL,
    held_samples   bigint NOT NULL,
    held_tokens    bigint NOT NULL,
    held_cost      double precision NOT NULL,
    spent_samples  bigint NOT NULL,
    spent_tokens   bigint NOT NULL,
    spent_cost     double precision NOT NULL,
    lost_samples   bigint NOT NULL,
    lost_tokens    bigint NOT NULL,
    lost_cost      double precision NOT NULL,
    dearest_tokens bigint,
    dearest_cost   double precision,
    exceeded       bigint NOT NULL,
    alone          boolean NOT NULL,
    idle           boolean NOT NULL,
    waiting        boolean NOT NULL,
    renewed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, holder)
) WITH (fillfactor = 50);
COMMENT ON TABLE budget_leases IS 'Who works with a run''s budget right now: one row per shard or proposal in flight.';
COMMENT ON COLUMN budget_leases.held_cost IS 'Set aside for calls in flight and few more; it counts as lost when its holder is killed.';
COMMENT ON COLUMN budget_leases.alone IS 'A call is at work of which nobody knows what it takes; nobody else leases meanwhile.';
COMMENT ON COLUMN budget_leases.waiting IS 'Everything that it has begun waits for more budget.';
COMMENT ON COLUMN budget_leases.idle IS 'No call is at work: what it holds will not come back by waiting.';

ALTER TABLE trials
    ADD COLUMN lost_samples   bigint NOT NULL DEFAULT 0,
    ADD COLUMN lost_tokens    bigint NOT NULL DEFAULT 0,
    ADD COLUMN lost_cost      double precision NOT NULL DEFAULT 0,
    ADD COLUMN reused_samples bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN trials.lost_cost IS 'What calls without an answer can have cost at most.';
COMMENT ON COLUMN trials.reused_samples IS 'Answers that were copied from other runs instead of paid for.';

ALTER TABLE proposals ADD COLUMN parent_hash text;
COMMENT ON COLUMN proposals.parent_hash IS 'The configuration that the proposal starts from.';

INSERT INTO budgets (run_id) SELECT run_id FROM runs;
