-- What candidates are judged by, and who has looked at samples that were held back.

ALTER TABLE trials DROP CONSTRAINT trials_purpose_check;
ALTER TABLE trials ADD CONSTRAINT trials_purpose_check
    CHECK (purpose IN ('baseline', 'candidate', 'confirmation', 'noise', 'exploration'));

ALTER TABLE trials
    ADD COLUMN evidence jsonb,
    ADD COLUMN looks    jsonb,
    ADD COLUMN judged   jsonb;
COMMENT ON COLUMN trials.purpose IS
    'noise: the baseline answered again, to learn how much scores vary. exploration: answers to learn from, on training samples.';
COMMENT ON COLUMN trials.evidence IS 'What its comparison with the baseline, and with the best of its time, found.';
COMMENT ON COLUMN trials.looks IS 'A trial that was measured block by block: what each look at it decided.';
COMMENT ON COLUMN trials.judged IS 'The verdict, corrected for the number of candidates that were judged together.';

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
