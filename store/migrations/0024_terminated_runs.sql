-- Runs that were ended from outside: terminated, timed out or deleted in Temporal, so that they could not say so themselves.

ALTER TABLE runs DROP CONSTRAINT runs_status_check;
ALTER TABLE runs ADD CONSTRAINT runs_status_check
    CHECK (status IN ('initialized', 'running', 'paused', 'completed', 'failed', 'cancelled', 'terminated'));
ALTER TABLE runs ADD COLUMN namespace_id text NOT NULL DEFAULT '';
COMMENT ON COLUMN runs.status IS 'terminated: ended from outside, in Temporal; whoever looked there wrote it down, not the run itself.';
COMMENT ON COLUMN runs.namespace_id IS 'Of the Temporal namespace that prepared the run; a name would not tell two servers apart. Empty: not known.';
CREATE INDEX runs_not_over ON runs (run_id) WHERE status IN ('initialized', 'running', 'paused');
