-- How sure a trial's score is, for charts that show every trial.

ALTER TABLE trials
    ADD COLUMN score_low  double precision,
    ADD COLUMN score_high double precision;
COMMENT ON COLUMN trials.score_low IS '95 % interval of the score over samples; NULL where the score is no mean of its samples.';
