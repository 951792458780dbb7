-- Trials that were at work when their run got its first budget: part of what they took was set aside for, part was not.

ALTER TABLE trials
    ADD COLUMN metered        boolean NOT NULL DEFAULT true,
    ADD COLUMN leased_samples bigint NOT NULL DEFAULT 0,
    ADD COLUMN leased_tokens  bigint NOT NULL DEFAULT 0,
    ADD COLUMN leased_cost    double precision NOT NULL DEFAULT 0;
COMMENT ON COLUMN trials.metered IS 'Its run had a budget of samples, tokens or cost when it began.';
COMMENT ON COLUMN trials.leased_cost IS 'Of a trial that began without a budget: what it took on one that came later.';

ALTER TABLE budgets ADD COLUMN limited boolean NOT NULL
    GENERATED ALWAYS AS (limit_samples > 0 OR limit_tokens > 0 OR limit_cost > 0) STORED;
COMMENT ON COLUMN budgets.limited IS 'Calls need a lease.';
