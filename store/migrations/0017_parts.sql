-- A candidate may be measured on some samples only, several times, beside its trial in full.

ALTER TABLE trials
    ADD COLUMN part         text NOT NULL DEFAULT '',
    ADD COLUMN first_sample integer NOT NULL DEFAULT 0;
ALTER TABLE trials DROP CONSTRAINT trials_pkey;
ALTER TABLE trials ADD PRIMARY KEY (run_id, candidate_id, purpose, part);
COMMENT ON COLUMN trials.purpose IS
    'noise: the baseline answered again, to learn how much scores vary. exploration: some samples only, to learn from them.';
COMMENT ON COLUMN trials.part IS 'Tells the explorations of a candidate apart: round and place of the proposal, e.g. 3.7. Empty for all others.';
COMMENT ON COLUMN trials.first_sample IS 'The place of its first sample among suite_samples; it has `samples` of them.';
