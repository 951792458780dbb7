-- Which budget a trial was cut short by: `ratchet replay` decides the run's stop again.

ALTER TABLE trials ADD COLUMN exhausted text CHECK (exhausted IN ('samples', 'tokens', 'cost'));
COMMENT ON COLUMN trials.exhausted IS 'The budget that did not cover the whole trial.';
